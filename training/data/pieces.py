"""Pieces: the examples of one chunk of the corpus, sorted by their random keys.

A piece is two files of examples, one a split, and a table that is written last: where
it is, the piece is whole. An example's entry is its key, its length and its bytes, so a
stretch of a file can be read without the table.
"""

import itertools
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.files import finish_file, write_bytes

KEY_SPACE = 1 << 64
_ENTRY = struct.Struct("<QI")
_TABLE_SUFFIX = ".npz"


@dataclass(frozen=True)
class PieceSplit:
    """The examples of one split.

    Attributes:
        keys: uint64 (E,), ascending.
        ends: int64 (E,), where each entry ends in `content`.
        content: the entries.
    """

    keys: npt.NDArray[np.uint64]
    ends: npt.NDArray[np.int64]
    content: bytes

    def offsets(self, shards: int) -> npt.NDArray[np.int64]:
        """Returns where the entries of each shard begin, and where the last ones end.

        Args:
            shards: into how many equal parts the space of the keys is divided.
        """
        return entry_offsets(self.keys, self.ends, shards)


@dataclass(frozen=True)
class Piece:
    """What became of a chunk.

    Attributes:
        splits: by name of the split.
        hashes: uint64, of each document's text.
        counts: documents, tokens, examples, what was odd.
        observations: what the report needs, as JSON.
        token_counts: int64 (V,), how often each id stands in the training examples.
    """

    splits: Mapping[str, PieceSplit]
    hashes: npt.NDArray[np.uint64]
    counts: Mapping[str, int]
    observations: str
    token_counts: npt.NDArray[np.int64]


def sorted_split(records: Sequence[bytes], keys: npt.NDArray[np.uint64]) -> PieceSplit:
    """Sorts examples by their keys."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    chosen = [records[index] for index in order.tolist()]
    content = pack_entries(keys.tolist(), chosen)
    lengths = np.fromiter(map(len, chosen), np.int64, len(chosen))
    return PieceSplit(keys, np.cumsum(lengths + _ENTRY.size), content)


def entry_offsets(
    keys: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64], shards: int
) -> npt.NDArray[np.int64]:
    """See `PieceSplit.offsets`."""
    bounds = np.array(
        [KEY_SPACE * index // shards for index in range(1, shards)], np.uint64
    )
    starts = np.concatenate([[0], ends])
    inner = starts[np.searchsorted(keys, bounds)]
    result: npt.NDArray[np.int64] = np.concatenate([[0], inner, starts[-1:]])
    return result


def pack_entries(keys: Iterable[int], records: Sequence[bytes]) -> bytes:
    """Returns entries: for each record its key, its length and its bytes."""
    heads = map(_ENTRY.pack, keys, map(len, records))
    pairs = zip(heads, records, strict=True)
    return b"".join(itertools.chain.from_iterable(pairs))


def entries(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the keys and examples of a stretch of entries."""
    position = 0
    while position < len(content):
        key, length = _ENTRY.unpack_from(content, position)
        position += _ENTRY.size
        yield key, content[position : position + length]
        position += length


def piece_table(directory: Path, group: int, index: int) -> Path:
    """Returns the path of a piece's table; sorted paths are in the corpus's order."""
    return directory / f"piece-{group:07d}-{index:07d}{_TABLE_SUFFIX}"


def all_tables(directory: Path) -> list[Path]:
    """Returns the tables of all finished pieces in a folder, in order."""
    return sorted(
        path
        for path in directory.glob(f"piece-*{_TABLE_SUFFIX}")
        if not path.name.endswith(f".tmp{_TABLE_SUFFIX}")
    )


def piece_entries(table: Path, split: str) -> Path:
    """Returns the path of the examples of one split of a piece."""
    return table.with_suffix(f".{split}")


def write_piece(table: Path, piece: Piece) -> None:
    """Writes a piece, its table last."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "document_hashes": piece.hashes,
        "counts": np.array(json.dumps(piece.counts)),
        "observations": np.array(piece.observations),
        "token_counts": piece.token_counts,
    }
    for name, split in piece.splits.items():
        write_bytes(piece_entries(table, name), split.content)
        arrays[f"{name}_keys"] = split.keys
        arrays[f"{name}_ends"] = split.ends
    temporary = table.with_suffix(f".tmp{_TABLE_SUFFIX}")
    np.savez(temporary, allow_pickle=False, **arrays)
    finish_file(temporary, table)


def read_piece_summary(
    table: Path,
) -> tuple[dict[str, int], str, npt.NDArray[np.int64]]:
    """Returns the counts, the observations and the token counts of a piece."""
    with np.load(table) as arrays:
        counts: dict[str, int] = json.loads(str(arrays["counts"]))
        return counts, str(arrays["observations"]), arrays["token_counts"]
