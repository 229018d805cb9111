"""Masked language modelling of raw strings, and filling blanks."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from lvbert_tf import (
    LVBertBackbone,
    LVBertMaskedLM,
    LVBertMaskedLMPreprocessor,
    LVBertTokenizer,
)

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "mat", "street", "##s"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["the cat sat on the mat", "the dog ran on the street"] * 8


def _model(**kwargs: Any) -> LVBertMaskedLM:
    keras.utils.set_random_seed(0)
    backbone = LVBertBackbone(len(VOCABULARY), "csf", 16, 32, 64, 2, dropout=0.0)
    preprocessor = LVBertMaskedLMPreprocessor(
        LVBertTokenizer(VOCABULARY), sequence_length=12, mask_selection_rate=0.3
    )
    return LVBertMaskedLM(backbone, preprocessor, **kwargs)


@pytest.fixture(scope="module")
def trained() -> LVBertMaskedLM:
    model = _model()
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    # One long epoch: each begins with a set-up of its own.
    model.fit(TEXTS * 150, batch_size=8, verbose=0)
    return model


def test_it_fills_blanks(trained: LVBertMaskedLM) -> None:
    found = trained.fill(
        [
            "the cat [MASK] on the [MASK]",
            "the cat sat on the [MASK]",
            "The dog [MASK] on the street",
        ],
        top_k=3,
    )
    assert [len(masks) for masks in found] == [2, 1, 1]
    # Where two words of the text say which one is missing.
    assert [masks[0][0][0] for masks in found[1:]] == ["mat", "ran"]
    for masks in found:
        for proposals in masks:
            shares = [share for _, share in proposals]
            assert shares == sorted(shares, reverse=True)
            assert len(shares) == 3
            assert 0 < sum(shares) <= 1 + 1e-6
    assert trained.fill([]) == []


def test_blanks_that_cannot_be_filled_are_named(trained: LVBertMaskedLM) -> None:
    with pytest.raises(ValueError, match="Received: 'the cat' as text 1"):
        trained.fill(["the [MASK]", "the cat"])
    with pytest.raises(ValueError, match="first 10 .*Received: 13 tokens in text 0"):
        trained.fill(["the cat " * 6 + "[MASK]"])
    with pytest.raises(ValueError, match="top_k=0"):
        trained.fill(["[MASK]"], top_k=0)
    with pytest.raises(ValueError, match="needs a model with a preprocessor"):
        LVBertMaskedLM(trained.backbone).fill(["[MASK]"])


def test_a_saved_model_goes_on_where_it_was(
    trained: LVBertMaskedLM, tmp_path: Path
) -> None:
    trained.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.fill(["the cat [MASK]"]) == trained.fill(["the cat [MASK]"])
    assert int(again.optimizer.iterations) == int(trained.optimizer.iterations) > 0
    for ours, theirs in zip(
        again.optimizer.variables, trained.optimizer.variables, strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_a_preset_comes_back(trained: LVBertMaskedLM, tmp_path: Path) -> None:
    trained.save_to_preset(str(tmp_path))
    again = LVBertMaskedLM.from_preset(str(tmp_path))
    assert again.fill(["the cat [MASK]"]) == trained.fill(["the cat [MASK]"])


def test_quantised_layers_keep_the_shared_table_whole(
    trained: LVBertMaskedLM, tmp_path: Path
) -> None:
    model = _model()
    model.set_weights(trained.get_weights())
    inputs = model.preprocessor.blanks(["the cat [MASK] on the mat"])
    del inputs["mask_weights"]
    before = np.asarray(model(inputs))
    with pytest.warns(UserWarning, match="quantize"):
        model.backbone.quantize("int8")
    after = np.asarray(model(inputs))
    assert sum(v.dtype == "int8" for v in model.weights) == 2 + 1 + 5 + 4 + 2
    assert 0 < np.abs(after - before).max() < 0.1 * np.abs(before).max()
    model.save(tmp_path / "quantised.keras")
    again = keras.models.load_model(tmp_path / "quantised.keras")
    assert np.array_equal(again(inputs), after)
