"""Raw strings in, classes out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import (
    LVBertBackbone,
    LVBertTextClassifier,
    LVBertTextClassifierPreprocessor,
    LVBertTokenizer,
)
from tests.paths import REPOSITORY

WORDS = [
    "a",
    "good",
    "bad",
    "film",
    "book",
    "great",
    "awful",
    "plot",
    "very",
    "the",
    "was",
    "it",
]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["a good film", "the plot was awful", "great book", "it was very bad"] * 4
LABELS = [1, 0, 1, 0] * 4


def _preprocessor(sequence_length: int = 12) -> LVBertTextClassifierPreprocessor:
    return LVBertTextClassifierPreprocessor(
        LVBertTokenizer(VOCABULARY), sequence_length=sequence_length
    )


def _classifier(**kwargs: Any) -> LVBertTextClassifier:
    keras.utils.set_random_seed(0)
    backbone = LVBertBackbone(len(VOCABULARY), "csf", 8, 16, 32, 2, dropout=0.0)
    arguments: dict[str, Any] = {
        "num_classes": 2,
        "preprocessor": _preprocessor(),
        "labels": ["negative", "positive"],
        "dropout": 0.0,
        **kwargs,
    }
    return LVBertTextClassifier(backbone, **arguments)


def test_it_fits_and_predicts_raw_strings() -> None:
    classifier = _classifier()
    classifier.compile(
        optimizer=keras.optimizers.Adam(5e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    # One long epoch: each begins with a set-up of its own.
    classifier.fit(np.array(TEXTS * 25), np.array(LABELS * 25), verbose=0)
    predicted = classifier.predict(TEXTS, verbose=0).argmax(-1)
    assert predicted.tolist() == LABELS


def test_it_fits_pairs_and_tf_data() -> None:
    classifier = _classifier()
    pairs = (np.array(TEXTS), np.array(TEXTS[::-1]))
    data = tf.data.Dataset.from_tensor_slices((pairs, LABELS)).batch(8)
    history = classifier.fit(data, verbose=0, shuffle=False).history
    assert np.isfinite(history["loss"][0])
    assert classifier.predict(pairs, verbose=0).shape == (16, 2)


def test_a_regression_does_not_broadcast() -> None:
    classifier = _classifier(num_classes=1, regression=True, labels=None)
    classifier.compile(optimizer=keras.optimizers.Adam(5e-3))
    targets = np.array([0.9, 0.1, 0.8, 0.3] * 4, "float32")
    outputs = classifier.predict(TEXTS, verbose=0)[:, 0]
    loss = classifier.evaluate(np.array(TEXTS), targets, verbose=0)[0]
    assert loss == pytest.approx(float(np.mean((outputs - targets) ** 2)), rel=1e-4)
    classifier.fit(np.array(TEXTS * 60), np.tile(targets, 60), verbose=0)
    fitted = classifier.predict(TEXTS, verbose=0)[:, 0]
    assert np.corrcoef(fitted, targets)[0, 1] > 0.95


def test_the_head_is_one_dense_layer() -> None:
    names = [v.path for v in _classifier().output_dense.weights]
    assert names == ["logits/kernel", "logits/bias"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": ["one"]}, "must name every class"),
        ({"num_classes": 2, "regression": True}, "num_classes=1"),
    ],
)
def test_contradictions_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _classifier(**arguments)


def test_a_foreign_vocabulary_is_refused() -> None:
    backbone = LVBertBackbone(99, "c", 8, 16, 32, 2)
    with pytest.raises(ValueError, match="17 tokens and vocabulary_size=99"):
        LVBertTextClassifier(backbone, 2, preprocessor=_preprocessor())


def test_it_loads_in_a_fresh_process(tmp_path: Path) -> None:
    classifier = _classifier()
    classifier.save_to_preset(tmp_path / "preset")
    classifier.save(tmp_path / "classifier.keras")
    np.save(tmp_path / "outputs.npy", classifier.predict(TEXTS, verbose=0))
    code = f"""
import keras, keras_hub, numpy as np, lvbert_tf
outputs = np.load({str(tmp_path / "outputs.npy")!r})
preset = {str(tmp_path / "preset")!r}
for model in (
    keras.models.load_model({str(tmp_path / "classifier.keras")!r}),
    keras_hub.models.TextClassifier.from_preset(preset),
    lvbert_tf.LVBertTextClassifier.from_preset(preset),
):
    assert type(model) is lvbert_tf.LVBertTextClassifier
    assert model.labels == ["negative", "positive"]
    found = model.predict({TEXTS!r}, verbose=0)
    assert np.abs(found - outputs).max() < 1e-6
fresh = lvbert_tf.LVBertTextClassifier.from_preset(preset, num_classes=5, labels=None)
assert fresh.predict(["a film"], verbose=0).shape == (1, 5)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_backbone_alone_gets_a_new_head(tmp_path: Path) -> None:
    classifier = _classifier()
    classifier.backbone.save_to_preset(tmp_path)
    classifier.preprocessor.tokenizer.save_to_preset(tmp_path)
    with pytest.warns(UserWarning, match="freshly drawn"):
        fresh = LVBertTextClassifier.from_preset(str(tmp_path), num_classes=3)
    assert fresh.predict(["a good film"], verbose=0).shape == (1, 3)
    for ours, theirs in zip(
        fresh.backbone.weights, classifier.backbone.weights, strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_freezing_and_lora() -> None:
    classifier = _classifier()
    classifier.backbone.trainable = False
    assert len(classifier.trainable_weights) == 2
    adapted = _classifier()
    adapted.backbone.enable_lora(2)
    names = [v.path for v in adapted.backbone.trainable_weights]
    kernels = [name for name in names if "lora_kernel" in name]
    assert len(kernels) == 4  # two of each, for query and value
    assert all(name.endswith("bias") for name in set(names) - set(kernels))
