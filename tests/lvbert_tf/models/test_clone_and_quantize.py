"""Models that are cloned, quantised, pickled; what presets say they are for."""

import json
import pickle
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import lvbert_tf
from tests.lvbert_tf.models.tiny import backbone, classifier, tokenizer

TEXTS = ["a good film", "the bad plot"]
IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0]], "int32")
INPUTS = {
    "token_ids": IDS,
    "segment_ids": np.zeros_like(IDS),
    "padding_mask": (IDS > 0).astype("int32"),
}


def _tasks(**options: Any) -> dict[str, Any]:
    return {
        "classifier": classifier("csf", preprocessor=None, **options),
        "masked_lm": lvbert_tf.LVBertMaskedLM(backbone("csf", **options)),
        "spans": lvbert_tf.LVBertSpanPredictor(
            backbone("csf", **options), beam_size=2, intermediate_dim=8
        ),
    }


def _outputs(name: str, model: Any) -> list[np.ndarray]:
    inputs = dict(INPUTS)
    if name == "masked_lm":
        inputs["mask_positions"] = np.array([[1], [1]], "int32")
    return [np.asarray(value) for value in keras.tree.flatten(model(inputs))]


@pytest.mark.parametrize("name", ["classifier", "masked_lm", "spans"])
def test_a_clone_computes_the_same(name: str) -> None:
    model = _tasks()[name]
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for a, b in zip(_outputs(name, model), _outputs(name, clone), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_logits_are_at_least_float32(dtype: str) -> None:
    expected = "float64" if dtype == "float64" else "float32"
    for name, model in _tasks(dtype=dtype).items():
        for value in _outputs(name, model):
            if value.dtype.kind == "f":
                assert value.dtype.name == expected, name
    head = lvbert_tf.ReplacedTokenHead(16, dtype=dtype)
    assert np.asarray(head(np.zeros((1, 3, 16)))).dtype.name == expected


def test_presets_say_what_they_are_for(tmp_path: Path) -> None:
    backbone().save_to_preset(str(tmp_path))
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["tasks"] == ["MaskedLM", "SpanPredictor", "TextClassifier"]


# Keras names each layer that has nothing to quantise.
@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
@pytest.mark.parametrize(
    "how", ["preset", pytest.param("keras", marks=pytest.mark.slow)]
)
def test_a_quantised_classifier_comes_back(tmp_path: Path, how: str) -> None:
    model = classifier("csf")
    before = model.predict(TEXTS, verbose=0)
    model.quantize("int8")
    after = model.predict(TEXTS, verbose=0)
    assert 0 < np.abs(after - before).max() < 0.05
    dense = model.backbone.encoder.layer_list[1].layer.query
    assert keras.backend.standardize_dtype(dense.kernel.dtype) == "int8"
    if how == "keras":
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
    else:
        model.save_to_preset(str(tmp_path / "preset"))
        again = lvbert_tf.LVBertTextClassifier.from_preset(str(tmp_path / "preset"))
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), after)


def test_the_optimizer_goes_on_after_a_load(tmp_path: Path) -> None:
    model = classifier()
    model.save(tmp_path / "fresh.keras")
    assert not keras.models.load_model(tmp_path / "fresh.keras").optimizer.built
    model.compile("adam", run_eagerly=True)
    model.fit(TEXTS, [1, 0], verbose=0)
    model.save(tmp_path / "fitted.keras")
    again = keras.models.load_model(tmp_path / "fitted.keras")
    assert int(again.optimizer.iterations.numpy()) == 1
    for a, b in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_classifier_is_pickled() -> None:
    model = classifier()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0)
    )
    assert again.preprocessor.tokenizer.get_vocabulary() == (
        tokenizer().get_vocabulary()
    )
