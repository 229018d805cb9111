"""The model card that every export has beside it."""

import json
from pathlib import Path

import pytest

from export.manifest import read_manifest
from export.model_card import model_card
from tests.export.models import LABELS, Artefacts

pytestmark = pytest.mark.export


def test_cards_say_what_the_manifest_says(artefacts: Artefacts) -> None:
    folder = artefacts.onnx()
    card = (folder / "model_card.md").read_text(encoding="utf-8")
    manifest = read_manifest(folder)
    for label in LABELS:
        assert f'`"{label}"`' in card
    assert f"Parameters: {manifest['model']['parameters']:,}" in card
    assert manifest["model"]["weights_sha256"] in card
    assert "as an ONNX graph" in card
    assert "Stage: finetune" in card
    assert "cut to 40 tokens" in card


def test_a_saved_model_of_a_regression_over_pairs(artefacts: Artefacts) -> None:
    extra: Path = artefacts.saved_model("pairs") / "1" / "assets.extra"
    card = (extra / "model_card.md").read_text(encoding="utf-8")
    assert "regression of pairs of texts, as a TensorFlow SavedModel" in card
    assert "Out: one value." in card
    assert "probabilities" not in card


def test_what_nobody_recorded_is_unknown(artefacts: Artefacts) -> None:
    manifest = json.loads((artefacts.onnx("official") / "manifest.json").read_text())
    card = model_card(manifest, {})
    assert "Unknown: the model directory has no `training.json`." in card
    assert "Convolutions see the padding" in card
