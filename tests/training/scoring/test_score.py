"""Scores: exact, independent of company and batch size, cached, traced once."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.hashes import weights_sha256
from tests.training.scoring.table_scorer import TableScorer
from tests.training.supernets import (
    LETTERS,
    NUM_LAYERS,
    make_supernet_run,
    saved_weights,
)
from training.scoring.cache import CachedScorer
from training.scoring.score import Score
from training.scoring.supernet_scorer import SupernetScorer


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path) -> Path:
    return make_supernet_run(tmp_path_factory.mktemp("supernet"), tiny_data)


@pytest.fixture(scope="module")
def trained(run_dir: Path) -> Any:
    from training.pretraining import trained_supernet

    return trained_supernet.load(run_dir)


def scorer(
    trained: Any,
    batch_size: int = 8,
    share_prefixes: bool = True,
    threads: int = 1,
    **options: Any,
) -> SupernetScorer:
    return SupernetScorer(
        trained,
        dataclasses.replace(trained.settings.data, **options),
        batch_size=batch_size,
        seed=0,
        held_out_sha256="abc",
        share_prefixes=share_prefixes,
        threads=threads,
    )


CANDIDATES = ["csfc", "ccss", "ffff", "sfsf", "cccc", "sccf"]


def test_what_is_loaded_is_what_was_trained(trained: Any, run_dir: Path) -> None:
    expected = saved_weights(run_dir)
    loaded = {weight.path: weight.numpy() for weight in trained.model.weights}
    assert loaded.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_array_equal(loaded[path], value, err_msg=path)


def test_scores_are_those_of_the_extracted_model_s03(trained: Any) -> None:
    """The same records and masks through a stand-alone backbone and head."""
    import tensorflow as tf

    from lvbert_tf.vocabulary import SpecialTokens
    from training.data.manifest import DataManifest
    from training.loop.batches import held_out_batches
    from training.run.devices import Distribution

    candidate = "csfc"
    (score,) = scorer(trained).score([candidate])
    model = trained.model.extract(candidate)
    correct = count = loss = everything = all_hits = 0.0
    vocabulary = DataManifest.load(trained.settings.data.directory).vocabulary()
    mask_id = SpecialTokens.from_vocabulary(vocabulary).mask
    batches = held_out_batches(
        trained.settings.data,
        batch_size=8,
        distribution=Distribution(tf.distribute.get_strategy()),
    )
    for batch in batches:
        logits = model(
            {
                name: batch[name]
                for name in (
                    "token_ids",
                    "segment_ids",
                    "padding_mask",
                    "mask_positions",
                )
            },
            training=False,
        )
        logits = np.asarray(logits, np.float64)
        weights = batch["mask_weights"].numpy()
        places = batch["mask_positions"].numpy()
        shown = np.take_along_axis(batch["token_ids"].numpy(), places, axis=1)
        all_hits += ((logits.argmax(-1) == batch["mask_ids"].numpy()) * weights).sum()
        everything += weights.sum()
        weights = weights * (shown == mask_id)
        ids = batch["mask_ids"].numpy()
        correct += ((logits.argmax(-1) == ids) * weights).sum()
        count += weights.sum()
        peak = logits.max(-1, keepdims=True)
        normal = np.log(np.exp(logits - peak).sum(-1)) + peak[..., 0]
        own = np.take_along_axis(logits, ids[..., None], -1)[..., 0]
        loss += ((normal - own) * weights).sum()
    assert score.masked_tokens == count
    assert score.accuracy == correct / count
    assert 0.7 * everything < count < everything
    assert score.accuracy_all == all_hits / everything
    assert score.accuracy_kept == (all_hits - correct) / (everything - count)
    # float32 sums of a batch against float64 ones
    assert score.loss == pytest.approx(loss / count, rel=1e-5)
    p = score.accuracy
    assert score.standard_error == pytest.approx(np.sqrt(p * (1 - p) / count))


def test_company_order_and_batch_size_move_nothing(trained: Any) -> None:
    one = scorer(trained)
    together = one.score(CANDIDATES)
    assert len({score.loss for score in together}) == len(CANDIDATES)
    assert len({score.accuracy for score in together}) > 1
    assert one.score(CANDIDATES[::-1]) == together[::-1]
    assert [one.score([candidate])[0] for candidate in CANDIDATES] == together
    for other in scorer(trained, batch_size=5), scorer(trained, batch_size=64):
        for mine, theirs in zip(together, other.score(CANDIDATES), strict=True):
            assert mine.accuracy == theirs.accuracy
            assert mine.masked_tokens == theirs.masked_tokens
            # float32 sums over other batches
            assert mine.loss == pytest.approx(theirs.loss, rel=1e-5)


def test_nothing_is_traced_per_candidate(run_dir: Path) -> None:
    from training.pretraining import trained_supernet

    one = scorer(trained_supernet.load(run_dir))
    seen: list[str] = []
    one.score(CANDIDATES[:1], lambda score: seen.append(score.architecture))
    assert one.traces == len(LETTERS) + 2  # each letter, embeddings, head
    one.score(CANDIDATES[1:], lambda score: seen.append(score.architecture))
    assert one.traces == len(LETTERS) + 2
    assert seen == CANDIDATES


def test_shared_prefixes_move_no_bit(trained: Any) -> None:
    """Against each candidate by itself, in one piece, by the same compiled model."""
    shared, alone = scorer(trained), scorer(trained, share_prefixes=False)
    expected = alone.score(CANDIDATES)
    assert scorer(trained, threads=3).score(CANDIDATES) == expected
    assert shared.score(CANDIDATES) == expected
    nodes = {c[:depth] for c in CANDIDATES for depth in range(1, NUM_LAYERS + 1)}
    without_memory = shared.walk.layer_evaluations
    assert without_memory == len(nodes) * shared.num_batches
    assert shared.walk.most_states == NUM_LAYERS + 1
    # also with states that were kept from one generation to the next
    shared.score(CANDIDATES[:2], incumbents=CANDIDATES[:2])
    before = shared.walk.layer_evaluations
    assert shared.score(CANDIDATES, incumbents=CANDIDATES[:2]) == expected
    # all but the last layer of the two: csf and cc, of which one c is in both
    saved = without_memory - (shared.walk.layer_evaluations - before)
    assert saved == 5 * shared.num_batches


def test_rows_add_up_to_the_score(trained: Any) -> None:
    one = scorer(trained)
    (score,) = one.score(["csfc"])
    rows = np.concatenate(
        [one.rows(number, ["ffff", "csfc"])[1] for number in range(one.num_batches)],
        axis=-1,
    )
    assert rows[2].sum() == score.masked_tokens
    assert rows[1].sum() / rows[2].sum() == score.accuracy
    assert rows[0].sum() / rows[2].sum() == score.loss
    # batches may be asked for in any order
    np.testing.assert_array_equal(one.rows(0, ["csfc"])[0], rows[:, :8])


def test_a_candidate_of_another_space_is_refused(trained: Any) -> None:
    with pytest.raises(ValueError, match="must have 4 layers"):
        scorer(trained).score(["csf"])


def test_identity_tells_apart_what_changes_a_score(trained: Any) -> None:
    base = scorer(trained).identity
    assert scorer(trained, batch_size=3).identity == base
    assert scorer(trained, validation_examples=4).identity != base
    assert scorer(trained, mask_probability=0.3).identity != base
    variable = trained.model.trainable_variables[3]
    before = variable.numpy()
    variable.assign(before + 1e-3)
    try:
        assert scorer(trained).identity != base
    finally:
        variable.assign(before)
    assert scorer(trained).identity == base


def test_weights_hash_is_over_sorted_paths_and_bytes(trained: Any) -> None:
    import hashlib

    digest = hashlib.sha256()
    weights = {weight.path: weight.numpy() for weight in trained.model.weights}
    assert len(weights) == len(trained.model.weights)
    for path in sorted(weights):
        digest.update(path.encode())
        digest.update(weights[path].tobytes())
    assert weights_sha256(trained.model.weights) == digest.hexdigest()


def test_the_cache_asks_nothing_twice(tmp_path: Path) -> None:
    file = tmp_path / "scores.jsonl"
    inner = TableScorer()
    cached = CachedScorer(inner, file)
    first = cached.score(["cs", "sc", "cs"])
    assert [score.architecture for score in first] == ["cs", "sc", "cs"]
    assert inner.asked == ["cs", "sc"]
    seen: list[str] = []
    cached.score(["cc", "cs"], lambda score: seen.append(score.architecture))
    assert sorted(seen) == ["cc", "cs"]
    again = CachedScorer(TableScorer(), file)
    assert again.score(["cs", "sc", "cs"]) == first
    assert again.hits == 3
    other = CachedScorer(TableScorer("other weights"), file)
    assert other.score(["cs"]) == [first[0]]
    assert other.hits == 0
    assert len(file.read_text().splitlines()) == 4


def test_a_torn_cache_loses_one_score(tmp_path: Path) -> None:
    file = tmp_path / "scores.jsonl"
    CachedScorer(TableScorer(), file).score(["cs", "sc", "cc"])
    whole = file.read_text()
    file.write_text(whole[:-20])
    inner = TableScorer()
    cached = CachedScorer(inner, file)
    assert [score.architecture for score in cached.score(["cs", "cc"])] == ["cs", "cc"]
    assert inner.asked == ["cc"]
    # the torn line is closed before the next, so that the file stays readable
    last = file.read_text().splitlines()[-1]
    assert json.loads(last)["architecture"] == "cc"
    assert CachedScorer(TableScorer(), file).score(["cc"])


def test_scores_survive_a_failure_in_the_middle(tmp_path: Path) -> None:
    file = tmp_path / "scores.jsonl"

    def fail_at_third(score: Score) -> None:
        if score.architecture == "cc":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CachedScorer(TableScorer(), file).score(["cs", "sc", "cc", "ss"], fail_at_third)
    inner = TableScorer()
    CachedScorer(inner, file).score(["cs", "sc", "cc", "ss"])
    assert inner.asked == ["ss"]
