"""Merges pieces into shards: the global, seeded shuffle."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.data.chunk_records import piece_records
from training.data.manifest import Shard, file_sha256
from training.data.record_format import split_records

_KEY_SPACE = 1 << 64


def shard_name(split: str, index: int, count: int) -> str:
    """Returns the file name of a shard."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


def shard_count(tables: Sequence[Path], split: str, shard_bytes: int) -> int:
    """Returns how many shards a split gets; none if it has no examples."""
    total = 0
    for table in tables:
        with np.load(table) as arrays:
            ends = arrays[f"{split}_ends"]
            total += int(ends[-1]) if len(ends) else 0
    return -(-total // shard_bytes)


def write_shard(
    directory: Path, tables: Sequence[Path], split: str, index: int, count: int
) -> Shard:
    """Writes one shard: the examples whose keys fall into its part of the key space.

    Keys are random, so this is a shuffle of the whole corpus, of which no more than a
    shard is in memory. A shard that is there already is kept.

    Args:
        directory: folder for the shard.
        tables: all pieces.
        split: ``"train"`` or ``"held_out"``.
        index: number of the shard, from 0.
        count: number of shards of the split.
    """
    path = directory / shard_name(split, index, count)
    low, high = (_KEY_SPACE * bound // count for bound in (index, index + 1))
    keys: list[npt.NDArray[np.uint64]] = []
    records: list[bytes] = []
    for table in tables:
        with np.load(table) as arrays:
            piece_keys, ends = arrays[f"{split}_keys"], arrays[f"{split}_ends"]
        first = int(np.searchsorted(piece_keys, np.uint64(low)))
        last = (
            len(piece_keys)
            if high == _KEY_SPACE
            else int(np.searchsorted(piece_keys, np.uint64(high)))
        )
        if first == last:
            continue
        start = int(ends[first - 1]) if first else 0
        with piece_records(table, split).open("rb") as file:
            file.seek(start)
            content = file.read(int(ends[last - 1]) - start)
        keys.append(piece_keys[first:last])
        records += split_records(content, (ends[first:last] - start).tolist())
    if not path.exists():
        # A shard of a very small corpus may be empty: nothing to concatenate then.
        order = np.argsort(
            np.concatenate([np.empty(0, np.uint64), *keys]), kind="stable"
        )
        _write_records(path, [records[position] for position in order])
    return Shard(
        file=path.name,
        split=split,
        examples=len(records),
        bytes=path.stat().st_size,
        sha256=file_sha256(path),
    )


def _write_records(path: Path, records: Sequence[bytes]) -> None:
    import tensorflow as tf

    temporary = path.with_name(f"{path.name}.tmp")
    with tf.io.TFRecordWriter(str(temporary)) as writer:
        for record in records:
            writer.write(record)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
