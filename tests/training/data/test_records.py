"""Batches from records: pure functions of seed and step, and refusals."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from common.command_line import UsageError
from lvbert_tf.vocabulary import SPECIAL_TOKENS, write_vocabulary
from training.data.examples import ExampleOptions
from training.data.manifest import DataManifest
from training.data.preparation import PrepareOptions, prepare
from training.data.records import held_out_dataset, training_dataset

Batch = dict[str, np.ndarray]
LENGTH = 16


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 230 examples in several shards."""
    folder = tmp_path_factory.mktemp("records")
    words = [f"w{number}" for number in range(200)]
    write_vocabulary(folder / "words.txt", [*SPECIAL_TOKENS, *words])
    documents = [
        "\n".join(
            " ".join(words[(13 * number + 5 * line + i) % 200] for i in range(9))
            for line in range(2 + number % 5)
        )
        for number in range(80)
    ]
    (folder / "corpus.txt").write_text("\n\n".join(documents))
    prepare(
        PrepareOptions(
            inputs=[str(folder / "corpus.txt")],
            output=folder / "data",
            vocabulary=folder / "words.txt",
            examples=ExampleOptions(LENGTH),
            held_out=0.2,
            workers=1,
            shard_bytes=2000,
        )
    )
    manifest = DataManifest.load(folder / "data")
    assert len(manifest.split("train")) > 3
    assert len(manifest.split("held_out")) > 1
    return folder / "data"


def _train(data: Path, count: int, **changes: Any) -> list[Batch]:
    arguments: dict[str, Any] = {"batch_size": 8, "sequence_length": LENGTH, "seed": 5}
    dataset = training_dataset(data, **(arguments | changes))
    return list(dataset.take(count).as_numpy_iterator())


def _held_out(data: Path, **changes: Any) -> list[Batch]:
    arguments: dict[str, Any] = {"batch_size": 8, "sequence_length": LENGTH, "seed": 5}
    dataset = held_out_dataset(data, **(arguments | changes))
    batches = list(dataset.as_numpy_iterator())
    assert dataset.cardinality() == len(batches)
    return batches


def _equal(first: Iterable[Batch], second: Iterable[Batch]) -> bool:
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)
        for a, b in zip(first, second, strict=True)
    )


def _originals(batches: Iterable[Batch]) -> list[bytes]:
    """Returns the rows before masking."""
    rows = []
    for batch in batches:
        ids = batch["token_ids"].copy()
        for row, (positions, values, weights) in enumerate(
            zip(
                batch["mask_positions"],
                batch["mask_ids"],
                batch["mask_weights"],
                strict=True,
            )
        ):
            used = weights > 0
            ids[row, positions[used]] = values[used]
        rows += [row.tobytes() for row in ids]
    return rows


def _stored(data: Path, split: str) -> list[bytes]:
    rows = []
    for shard in DataManifest.load(data).split(split):
        for raw in tf.data.TFRecordDataset(str(data / shard.file)):
            example = tf.train.Example.FromString(raw.numpy()).features.feature
            ids = list(example["token_ids"].int64_list.value)
            rows.append(np.array(ids + [0] * (LENGTH - len(ids)), np.int32).tobytes())
    return rows


def test_shapes_and_dtypes(data: Path) -> None:
    (batch,) = _train(data, 1)
    slots = int(0.155 * LENGTH)
    assert {name: (a.dtype.name, a.shape) for name, a in batch.items()} == {
        "token_ids": ("int32", (8, LENGTH)),
        "segment_ids": ("int32", (8, LENGTH)),
        "padding_mask": ("int32", (8, LENGTH)),
        "mask_positions": ("int32", (8, slots)),
        "mask_ids": ("int32", (8, slots)),
        "mask_weights": ("float32", (8, slots)),
        "step": ("int64", (8,)),
    }
    assert (batch["mask_weights"].sum(axis=1) >= 1).all()
    assert ((batch["token_ids"] != 0) == (batch["padding_mask"] == 1)).all()


def test_an_epoch_holds_every_example_once_in_an_order_of_its_own(data: Path) -> None:
    total = DataManifest.load(data).num_examples("train")
    first, second = _train(data, 2, batch_size=total)
    stored = sorted(_stored(data, "train"))
    orders = [_originals([batch]) for batch in (first, second)]
    assert sorted(orders[0]) == sorted(orders[1]) == stored
    assert orders[0] != orders[1]
    (other,) = _train(data, 1, batch_size=total, seed=6)
    assert _originals([other]) != orders[0]
    # Masks differ from epoch to epoch.
    masks = [
        {row: ids.tobytes() for row, ids in zip(order, b["token_ids"], strict=True)}
        for order, b in zip(orders, (first, second), strict=True)
    ]
    assert sum(masks[0][row] != masks[1][row] for row in masks[0]) > total / 4


def test_any_step_can_be_the_first(data: Path) -> None:
    """R01, R03: a resumed run sees the batches an uninterrupted one would see."""
    straight = _train(data, 70)  # more than two epochs
    assert [set(batch["step"]) for batch in straight] == [{n} for n in range(70)]
    total = DataManifest.load(data).num_examples("train")
    assert 2 * total < 70 * 8
    for first in (1, 7, total // 8, total // 8 + 1, 2 * total // 8, 66):
        assert _equal(_train(data, 3, first_step=first), straight[first : first + 3])


def test_input_pipelines_divide_the_same_batches(data: Path) -> None:
    whole = _train(data, 3)
    for pipelines in (2, 4):
        parts = [
            _train(data, 3, num_input_pipelines=pipelines, input_pipeline_id=one)
            for one in range(pipelines)
        ]
        joined = [
            {name: np.concatenate([part[name] for part in step]) for name in step[0]}
            for step in zip(*parts, strict=True)
        ]
        assert _equal(joined, whole)


def test_held_out_masks_do_not_depend_on_the_batch(data: Path) -> None:
    total = DataManifest.load(data).num_examples("held_out")
    views = []
    for size in (8, 3, total):
        batches = _held_out(data, batch_size=size)
        assert all(len(batch["token_ids"]) == size for batch in batches)
        rows = {
            name: np.concatenate([batch[name] for batch in batches])
            for name in batches[0]
            if name != "step"
        }
        # Behind the examples: rows of padding without weight.
        assert not rows["mask_weights"][total:].any()
        assert not rows["padding_mask"][total:].any()
        assert rows["padding_mask"][:total].any(axis=1).all()
        views.append({name: array[:total] for name, array in rows.items()})
    assert _equal(views, [views[0]] * 3)
    assert _originals([views[0]]) == _stored(data, "held_out")
    other = _held_out(data, batch_size=total, seed=6)[0]
    assert (other["token_ids"] != views[0]["token_ids"]).any()
    few = _held_out(data, batch_size=4, max_examples=6)
    assert len(few) == 2
    assert np.array_equal(few[0]["token_ids"], views[0]["token_ids"][:4])
    halves = [
        _held_out(data, num_input_pipelines=2, input_pipeline_id=one) for one in (0, 1)
    ]
    joined = [
        {name: np.concatenate([a[name], b[name]]) for name in a}
        for a, b in zip(*halves, strict=True)
    ]
    assert _equal(joined, _held_out(data))


def test_works_in_a_distribution_strategy(data: Path) -> None:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    arguments: dict[str, Any] = {"batch_size": 8, "sequence_length": LENGTH, "seed": 5}
    dataset = strategy.experimental_distribute_dataset(
        training_dataset(data, **arguments)
    )
    (expected,) = _train(data, 1)
    found = {name: value.numpy() for name, value in next(iter(dataset)).items()}
    assert _equal([found], [expected])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_length": 32}, "prepared with sequence_length=16.*=32"),
        ({"split": "dev"}, "no 'dev' examples"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"num_input_pipelines": 3}, "num_input_pipelines=3"),
        ({"num_input_pipelines": 2, "input_pipeline_id": 2}, r"\[0, 1\]. Received: 2"),
    ],
)
def test_arguments_are_checked(
    data: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        _train(data, 1, **changes)


def _foreign(data: Path, tmp_path: Path, ids: list[int]) -> Path:
    """Returns a copy of the data whose first training shard holds other records."""
    import dataclasses
    import json
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    index = json.loads((copy / "index.json").read_text())
    shard = next(one for one in index["shards"] if one["split"] == "train")
    index["shards"] = [shard]
    feature = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in (("token_ids", ids), ("segment_ids", [0] * len(ids)))
    }
    record = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.io.TFRecordWriter(str(copy / shard["file"])) as writer:
        for _ in range(shard["examples"]):
            writer.write(record.SerializeToString())
    shard["bytes"] = (copy / shard["file"]).stat().st_size
    (copy / "index.json").write_text(json.dumps(index))
    assert dataclasses.is_dataclass(DataManifest.load(copy))
    return copy


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([2, 205, 3], "outside the vocabulary of 205 entries"),
        ([2, -1, 3], "negative token id"),
        ([2, *range(5, 20), 3], "more tokens than sequence_length"),
    ],
)
def test_records_that_do_not_fit_are_refused(
    data: Path, tmp_path: Path, ids: list[int], message: str
) -> None:
    """Decision 18: ids outside the vocabulary are refused where records enter."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _train(_foreign(data, tmp_path, ids), 1)
