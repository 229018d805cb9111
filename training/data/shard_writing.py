"""Merges pieces into shards: the global, seeded shuffle.

Keys are random, so the examples whose keys fall into one part of their space are a
random choice of the corpus, and sorting them by key shuffles it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from common.files import finish_file
from common.hashes import file_sha256
from training.data.manifest import SPLITS, Shard
from training.data.pieces import (
    entries,
    entry_offsets,
    piece_entries,
)

_RECORD_FRAME_BYTES = 16
"""What the TFRecord format adds to a record: its length and two checksums."""


def shard_name(split: str, index: int, count: int) -> str:
    """Returns the file name of a shard."""
    return f"{split}-{index:05d}-of-{count:05d}.tfrecord"


def shard_count(split_bytes: int, shard_bytes: int) -> int:
    """Returns how many shards a split gets; none if it has no examples.

    Args:
        split_bytes: of all its entries.
        shard_bytes: aimed size of a shard.
    """
    return -(-split_bytes // shard_bytes)


@dataclass(frozen=True)
class ShardJob:
    """One shard to write.

    Attributes:
        split: ``"train"`` or ``"held_out"``.
        index: number of the shard, from 0.
        count: number of shards of the split.
    """

    split: str
    index: int
    count: int

    @property
    def file(self) -> str:
        """The shard's file name."""
        return shard_name(self.split, self.index, self.count)


def plan_shards(
    tables: Sequence[Path], directory: Path, shard_bytes: int
) -> list[ShardJob]:
    """Writes down where in each piece each shard's entries are; returns the shards.

    The offsets go into a file, so that writing a shard opens no table: the work grows
    with the corpus, not with its square, and so much less does memory.

    Args:
        tables: all pieces.
        directory: folder for the offsets.
        shard_bytes: aimed size of a shard.
    """
    jobs = []
    for split in SPLITS:
        total = 0
        for table in tables:
            with np.load(table) as arrays:
                ends = arrays[f"{split}_ends"]
                total += int(ends[-1]) if len(ends) else 0
        count = shard_count(total, shard_bytes)
        if not count:
            continue
        offsets = np.lib.format.open_memmap(
            _offsets_file(directory, split),
            mode="w+",
            dtype=np.int64,
            shape=(count + 1, len(tables)),
        )
        for index, table in enumerate(tables):
            with np.load(table) as arrays:
                keys, ends = arrays[f"{split}_keys"], arrays[f"{split}_ends"]
            offsets[:, index] = entry_offsets(keys, ends, count)
        offsets.flush()
        jobs += [ShardJob(split, index, count) for index in range(count)]
    return jobs


def write_shard(job: ShardJob, pieces: Path, result: Path) -> Shard:
    """Writes one shard from the pieces; one that is there already is kept.

    Args:
        job: which.
        pieces: folder of pieces and offsets.
        result: folder for the shard.
    """
    from training.data.pieces import all_tables

    offsets: npt.NDArray[np.int64] = np.load(
        _offsets_file(pieces, job.split), mmap_mode="r"
    )
    begins, ends = offsets[job.index], offsets[job.index + 1]
    stretches = (
        _read(piece_entries(table, job.split), int(begin), int(end))
        for table, begin, end in zip(all_tables(pieces), begins, ends, strict=True)
        if begin < end
    )
    return write_records(result / job.file, job.split, stretches)


def write_records(path: Path, split: str, stretches: Iterable[bytes]) -> Shard:
    """Writes one shard, unless it is there.

    Args:
        path: its file.
        split: its split.
        stretches: its entries, in the order of the pieces.
    """
    found = [entry for stretch in stretches for entry in entries(stretch)]
    found.sort(key=itemgetter(0))
    if not path.exists():
        temporary = path.with_name(f"{path.name}.tmp")
        _write(temporary, [record for _, record in found])
        finish_file(temporary, path)
    return Shard(
        file=path.name,
        split=split,
        examples=len(found),
        bytes=path.stat().st_size,
        sha256=file_sha256(path),
    )


def _write(path: Path, records: Sequence[bytes]) -> None:
    import tensorflow as tf

    try:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
    except tf.errors.OpError as error:
        raise OSError(None, error.message, str(path)) from None
    expected = sum(len(record) + _RECORD_FRAME_BYTES for record in records)
    if path.stat().st_size != expected:
        raise OSError(
            None,
            f"expected {expected} bytes to be written, found {path.stat().st_size}",
            str(path),
        )


def _read(path: Path, begin: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(end - begin)


def _offsets_file(directory: Path, split: str) -> Path:
    return directory / f"offsets-{split}.npy"
