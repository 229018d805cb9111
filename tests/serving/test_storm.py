"""Many of the largest requests at once on a model that reads 512 tokens."""

from pathlib import Path

import pytest

import lvbert_tf
from export.saved_model import export_saved_model
from tests.export.models import perturb
from tests.paths import require_shared
from tests.serving.storm import storm

pytestmark = [pytest.mark.serving, pytest.mark.export]


@pytest.mark.slow
def test_a_small_model_stays_under_4_gb(tmp_path: Path) -> None:
    """LV-BERT-small, 512 tokens, the default limits; 128 clients, half of them bad."""
    vocabulary = require_shared("data/vocab.bert-uncased.txt").read_text().splitlines()
    backbone = lvbert_tf.LVBertBackbone.from_size(
        "small", "lv_bert", vocabulary_size=len(vocabulary), max_sequence_length=512
    )
    tokenizer = lvbert_tf.LVBertTokenizer(vocabulary)
    model = lvbert_tf.LVBertTextClassifier(
        backbone,
        2,
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(tokenizer, 512),
        labels=("negative", "positive"),
    )
    perturb(model, 1, 0.02)
    export_saved_model(model, tmp_path / "clf", model_name="clf")
    report = storm(tmp_path / "clf", tmp_path, seconds=60, clients=16)
    assert report["peak_mb"] < 4096, report
    assert report["after_mb"] < 1.1 * report["before_mb"], report
    assert report["answers_after"] == 200, report
    assert report["tracebacks"] == 0, report
    # Some of the largest that are allowed were answered, the others told to come back.
    counts = report["counts"]
    for name in ("broadcast OK", "one_long_text OK", "too_many_rows 400"):
        assert counts.get(name, 0) > 0, report
    assert counts["too_large_a_broadcast INVALID_ARGUMENT"] > 0, report
    assert not any(" 500" in name or "INTERNAL" in name for name in counts), report
