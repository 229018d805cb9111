"""The line to beat, against a count by hand; precision and recall as ratios of sums."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from common.command_line import CommandError, UsageError
from lvbert_tf.vocabulary import SpecialTokens
from training.data.manifest import DataManifest
from training.data.records import held_out_dataset
from training.data.token_counts import unigram_losses
from training.loop.unigram_loss import held_out_unigram_loss
from training.metrics.masked_lm import masked_lm_figures
from training.pretraining.pretrain import detection_rates
from training.run.options import Data


def test_frequencies_are_smoothed_and_special_tokens_left_out() -> None:
    losses = unigram_losses(np.array([9, 0, 3, 5]), {0})
    np.testing.assert_allclose(np.exp(-losses), [0.0, 1 / 11, 4 / 11, 6 / 11])


def test_the_loss_is_that_of_training_frequencies_at_mask(tiny_data: Path) -> None:
    manifest = DataManifest.load(tiny_data)
    special = SpecialTokens.from_vocabulary(manifest.vocabulary())
    counts = manifest.token_counts().astype(float)
    # [CLS] stands once in every example
    assert counts[special.cls] == manifest.num_examples("train")
    smoothed = counts + 1
    for one in (special.pad, special.cls, special.sep, special.mask):
        smoothed[one] = 0
    total = number = 0.0
    for batch in held_out_dataset(tiny_data, batch_size=8, sequence_length=16, seed=0):
        for row in range(len(batch["token_ids"])):
            for place, token, weight in zip(
                batch["mask_positions"].numpy()[row],
                batch["mask_ids"].numpy()[row],
                batch["mask_weights"].numpy()[row],
                strict=True,
            ):
                if weight and batch["token_ids"].numpy()[row, place] == special.mask:
                    total -= np.log(smoothed[token] / smoothed.sum())
                    number += 1
    found = held_out_unigram_loss(Data(str(tiny_data), sequence_length=16))
    assert found == pytest.approx(total / number, rel=1e-12)


def test_data_of_before_and_damaged_counts_are_refused(
    tmp_path: Path, tiny_data: Path
) -> None:
    copy = tmp_path / "data"
    shutil.copytree(tiny_data, copy)
    (copy / "token_counts.npy").write_bytes(b"nonsense")
    with pytest.raises(CommandError, match=r"token_counts\.npy: not the counts"):
        DataManifest.load(copy).token_counts()
    index = json.loads((copy / "index.json").read_text())
    index["format"] = 1
    (copy / "index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match="format 2"):
        DataManifest.load(copy)


def test_copying_alone_is_worth_nothing() -> None:
    figures = masked_lm_figures(
        {
            "loss_sum": 850.0,
            "correct": 0.0,
            "masked_tokens": 85.0,
            "loss_sum_all": 851.5,
            "correct_all": 15.0,
            "predicted_tokens": 100.0,
        }
    )
    assert figures["accuracy"] == 0.0
    assert figures["accuracy_all"] == 0.15
    assert figures["accuracy_kept"] == 1.0
    assert figures["loss"] == 10.0
    assert figures["loss_kept"] == pytest.approx(0.1)


def test_rates_are_ratios_of_sums_and_undefined_is_none() -> None:
    # Two steps: nothing called in the first, everything called right in the second.
    means = {"replaced": (3 + 5) / 2, "called_replaced": (0 + 2) / 2, "found": 1.0}
    rates = detection_rates(means)
    assert rates == {"discriminator_precision": 1.0, "discriminator_recall": 0.25}
    rates = detection_rates({"replaced": 0.0, "called_replaced": 0.0, "found": 0.0})
    assert rates["discriminator_precision"] is None
    assert rates["discriminator_recall"] is None
    assert set(rates["undefined"]) == {
        "discriminator_precision",
        "discriminator_recall",
    }
