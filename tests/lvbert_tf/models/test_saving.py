"""Every class comes back: its arguments, and its outputs in a fresh process."""

import copy
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import lvbert_tf
from lvbert_tf.layers import Embeddings, ResidualLayer
from lvbert_tf.layers.span_head import SpanHead
from tests.lvbert_tf.batches import VOCABULARY_SIZE, pretraining_batch
from tests.paths import REPOSITORY

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
SIZES: dict[str, Any] = {
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "num_heads": 2,
}


def _backbone(**arguments: Any) -> lvbert_tf.LVBertBackbone:
    return lvbert_tf.LVBertBackbone(VOCABULARY_SIZE, "csf", **SIZES, **arguments)


def _tokenizer() -> lvbert_tf.LVBertTokenizer:
    return lvbert_tf.LVBertTokenizer(
        VOCABULARY, lowercase=False, strip_accents=True, duplicates="last"
    )


def _others() -> list[Any]:
    """One of each class that `test_layers` and `test_backbone` don't look at."""
    return [
        Embeddings(9, 4, max_sequence_length=6, num_segments=3, dropout=0.3),
        ResidualLayer(lvbert_tf.FeedForward(8, 12), dropout=0.3),
        lvbert_tf.MaskedLMHead(9, 4),
        lvbert_tf.ReplacedTokenHead(8),
        SpanHead(beam_size=3, intermediate_dim=5),
        lvbert_tf.LVBertTextClassifierPreprocessor(_tokenizer(), sequence_length=9),
        lvbert_tf.LVBertMaskedLMPreprocessor(
            _tokenizer(), sequence_length=9, mask_selection_rate=0.3
        ),
        lvbert_tf.LVBertSpanPredictorPreprocessor(
            _tokenizer(), sequence_length=20, stride=5, max_question_length=6
        ),
        lvbert_tf.LVBertTextClassifier(
            _backbone(),
            3,
            activation="softmax",
            dropout=0.3,
            labels=["x", "y", "z"],
        ),
        lvbert_tf.LVBertTextClassifier(_backbone(), 1, regression=True),
        lvbert_tf.LVBertMaskedLM(_backbone()),
        lvbert_tf.LVBertSpanPredictor(
            _backbone(), beam_size=3, intermediate_dim=5, unanswerable_weight=0.0
        ),
        lvbert_tf.LVBertSupernet(
            VOCABULARY_SIZE,
            letters="sf",
            num_layers=2,
            kernel_size=5,
            dropout=0.2,
            attention_dropout=0.3,
            max_sequence_length=20,
            num_segments=3,
            mask_convolution=False,
            **SIZES,
        ),
        lvbert_tf.LVBertElectra(_backbone(), generator_fraction=0.5),
    ]


@pytest.mark.parametrize("instance", _others(), ids=lambda i: type(i).__name__)
def test_every_argument_comes_back(instance: Any) -> None:
    config = instance.get_config()
    parameters = inspect.signature(type(instance).__init__).parameters
    named = {n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
    assert named - {"self", "args"} <= set(config)
    again = type(instance).from_config(copy.deepcopy(config))
    for key, value in again.get_config().items():
        if key not in {"backbone", "preprocessor", "discriminator", "layer"}:
            assert value == config[key], key


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """The models that are not tested in files of their own."""
    keras.utils.set_random_seed(0)
    layers = {}
    for letter, layer in (
        ("c", lvbert_tf.DynamicConv(16, 2, kernel_size=5)),
        ("s", lvbert_tf.SelfAttention(16, 2)),
        ("f", lvbert_tf.FeedForward(16, 24)),
        ("encoder", lvbert_tf.Encoder("cs", 16, 24, 2)),
    ):
        states = keras.Input((None, 16))
        layers[letter] = keras.Model(states, layer(states))
    return {
        **layers,
        "masked_lm": lvbert_tf.LVBertMaskedLM(_backbone()),
        "electra": lvbert_tf.LVBertElectra(_backbone(), generator_fraction=0.5),
        "supernet": lvbert_tf.LVBertSupernet(VOCABULARY_SIZE, num_layers=3, **SIZES),
    }


def test_files_and_presets_in_a_fresh_process(
    models: dict[str, Any], tmp_path: Path
) -> None:
    states = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
    batch = pretraining_batch(route=[0, 2, 1])
    expected = {}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
        if isinstance(model, (lvbert_tf.LVBertElectra, lvbert_tf.LVBertSupernet)):
            model.save_to_preset(tmp_path / name)
            figures = model.test_step(batch)
            expected[name] = {k: np.asarray(v).tolist() for k, v in figures.items()}
        elif name == "masked_lm":
            model.save_to_preset(tmp_path / name)
            inputs = {k: batch[k] for k in (*model.backbone.input, "mask_positions")}
            expected[name] = np.asarray(model(inputs)).tolist()
        else:
            expected[name] = np.asarray(model(states)).tolist()
    code = f"""
import sys, numpy as np, keras, lvbert_tf
from pathlib import Path
from tests.lvbert_tf.batches import pretraining_batch
folder, names = Path({str(tmp_path)!r}), {sorted(models)!r}
states = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
batch = pretraining_batch(route=[0, 2, 1])
found = {{}}
for name in names:
    model = keras.models.load_model(folder / f"{{name}}.keras")
    both = [model]
    if (folder / name).is_dir():
        both.append(type(model).from_preset(str(folder / name)))
    for model in both:
        if name in ("electra", "supernet"):
            value = model.test_step(batch)
            value = {{k: np.asarray(v).tolist() for k, v in value.items()}}
        elif name == "masked_lm":
            inputs = {{k: batch[k] for k in (*model.backbone.input, "mask_positions")}}
            value = np.asarray(model(inputs)).tolist()
        else:
            value = np.asarray(model(states)).tolist()
        found.setdefault(name, []).append(value)
import json
print(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name, values in found.items():
        assert len(values) == 1 + (tmp_path / name).is_dir()
        for value in values:
            assert value == expected[name], name
