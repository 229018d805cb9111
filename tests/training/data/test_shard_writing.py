"""Pieces to shards: the global order, and what a full disk leaves."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.command_line import CommandError
from tests.paths import REPOSITORY
from tests.training.data.small_corpus import small_corpus
from training.data import pieces
from training.data.manifest import DataManifest
from training.data.pieces import Piece, entries, pack_entries, sorted_split, write_piece
from training.data.preparation import prepare
from training.data.shard_writing import plan_shards, write_shard
from training.data.verification import verify


def test_entries_survive() -> None:
    records = [b"", b"a", b"longer" * 100]
    keys = [0, 1 << 63, (1 << 64) - 1]
    assert list(entries(pack_entries(keys, records))) == list(
        zip(keys, records, strict=True)
    )


def test_shards_are_the_sorted_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    expected = []
    for number in range(5):
        count = (40, 0, 7, 300, 1)[number]
        keys = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
        if number == 3:
            keys[:5] = [0, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 1 << 63]
        records = [f"{number}/{i}".encode() * (1 + i % 9) for i in range(count)]
        expected += list(zip(keys.tolist(), records, strict=True))
        empty = sorted_split([], np.empty(0, np.uint64))
        splits = {"train": sorted_split(records, keys), "held_out": empty}
        no_tokens = np.zeros(3, np.int64)
        piece = Piece(splits, np.empty(0, np.uint64), {}, "{}", no_tokens)
        write_piece(pieces.piece_table(tmp_path, number // 2, number % 2), piece)
    expected.sort(key=lambda pair: pair[0])  # stable: ties as in the corpus
    tables = pieces.all_tables(tmp_path)
    assert len(tables) == 5
    for shard_bytes in (1 << 30, 3000, 100):
        result = tmp_path / f"result-{shard_bytes}"
        result.mkdir()
        jobs = plan_shards(tables, tmp_path, shard_bytes)
        assert {job.split for job in jobs} == {"train"}
        shards = [write_shard(job, tmp_path, result) for job in jobs]
        found = [
            raw.numpy()
            for shard in shards
            for raw in tf.data.TFRecordDataset(str(result / shard.file))
        ]
        assert found == [record for _, record in expected]
        assert sum(shard.examples for shard in shards) == len(found)


def _content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


_LIMITED = """
import resource, sys
from pathlib import Path
from tests.training.data.small_corpus import small_corpus
from common.command_line import CommandError
from training.data.preparation import prepare
options = small_corpus(Path(sys.argv[1]), "limited")
import tensorflow, training.data.one_machine, matplotlib.backends.backend_agg
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    prepare(options)
except CommandError as error:
    print(error)
    sys.exit(1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [300, 2000, 20_000, 60_000])
def test_a_file_that_cannot_be_written_gets_no_final_name(
    tmp_path: Path, limit: int
) -> None:
    """The system itself stops the write, first in pieces, then in what is larger."""
    straight = prepare(small_corpus(tmp_path, "straight"))
    process = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path), str(limit)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1, process.stderr
    assert "can't be written" in process.stdout
    assert "run the same command again" in process.stdout
    assert not (tmp_path / "limited").exists()
    # Whatever has a final name is whole: nothing is larger than the limit, and the
    # next run takes it as it is and ends with the right bytes.
    for path in (tmp_path / ".limited.partial" / "result").iterdir():
        if not path.name.endswith(".tmp"):
            assert path.read_bytes() == (tmp_path / "straight" / path.name).read_bytes()
    result = prepare(small_corpus(tmp_path, "limited"))
    # At 300 bytes not even the note on what the work is for could be written.
    assert result["resumed"] == (limit > 300)
    assert result["examples"] == straight["examples"]
    assert _content(tmp_path / "limited") == _content(tmp_path / "straight")
    verify(DataManifest.load(tmp_path / "limited"))


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC while a shard is written, wherever in it."""
    import errno
    import os

    class FullDisk:
        def __init__(self, path: str) -> None:
            self.path = Path(path)
            self.written = 0

        def __enter__(self) -> "FullDisk":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def write(self, record: bytes) -> None:
            self.written += 1
            self.path.write_bytes(record)
            if self.written > 20:
                raise tf.errors.ResourceExhaustedError(
                    None, None, os.strerror(errno.ENOSPC)
                )

    with monkeypatch.context() as patched:
        patched.setattr(tf.io, "TFRecordWriter", FullDisk)
        with pytest.raises(CommandError, match=r"train-00000.*No space left"):
            prepare(small_corpus(tmp_path, "data"))
    result = tmp_path / ".data.partial" / "result"
    assert not list(result.glob("*.tfrecord"))
    assert not (tmp_path / "data").exists()
    prepare(small_corpus(tmp_path, "data"))
    prepare(small_corpus(tmp_path, "straight"))
    assert _content(tmp_path / "data") == _content(tmp_path / "straight")
