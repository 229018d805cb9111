"""A killed preparation goes on, to the same bytes; two never share an output."""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from common.command_line import UsageError
from tests.paths import REPOSITORY
from tests.training.data.preparations import prepare_options, read_content, small_corpus
from training.data import corpus as corpus_module
from training.data import preparation, worker_pool
from training.data.corpus import CHUNK_BYTES
from training.data.preparation import prepare
from training.data.vocabulary_training import VocabularyOptions
from training.data.worker_pool import Worker


class Killed(BaseException):
    """Stands for a kill: nothing in the code may catch it."""


@pytest.mark.parametrize("stage", ["vocabulary", "pieces", "shards", "index"])
def test_killed_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setattr(corpus_module, "CHUNK_BYTES", 100_000)
    corpus = small_corpus(tmp_path, 1500)
    assert corpus.stat().st_size > 250_000
    options = {
        "vocabulary": None,
        "training_vocabulary": VocabularyOptions(size=300),
        "shard_bytes": 40_000,
    }
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    prepare(prepare_options(corpus, straight, tmp_path, **options))

    calls: Counter[str] = Counter()

    def counted(name: str, function: Any, last: int) -> Any:
        def call(*arguments: Any) -> Any:
            calls[name] += 1
            if calls[name] > last:
                raise Killed
            return function(*arguments)

        return call

    with monkeypatch.context() as patched:
        if stage == "vocabulary":
            patched.setattr(preparation, "train_vocabulary", counted(stage, None, 0))
        elif stage == "pieces":
            make = Worker.make_piece
            patched.setattr(Worker, "make_piece", counted(stage, make, 1))
        elif stage == "shards":
            write = Worker.make_shard
            patched.setattr(Worker, "make_shard", counted(stage, write, 2))
        else:
            patched.setattr(preparation, "_write_index", counted(stage, None, 0))
        with pytest.raises(Killed):
            prepare(prepare_options(corpus, resumed, tmp_path, **options))
    assert not resumed.exists()
    partial = tmp_path / ".resumed.partial"
    kept = {
        path: path.stat().st_mtime_ns
        for path in partial.rglob("*")
        if path.suffix in (".npz", ".tfrecord")
    }
    assert len(kept) >= {"vocabulary": 0, "pieces": 1, "shards": 4, "index": 4}[stage]
    # What a kill in the middle of a write leaves.
    pieces = partial / "pieces"
    (pieces / "piece-0000000-0000001.train.partial").write_bytes(b"half")
    (pieces / "piece-0000000-0000001.tmp.npz").write_bytes(b"half")
    (partial / "result" / "train-00000-of-00001.tfrecord.tmp").write_bytes(b"half")
    written = []
    original = worker_pool.write_piece
    monkeypatch.setattr(
        worker_pool,
        "write_piece",
        lambda table, piece: (written.append(table), original(table, piece)),
    )
    result = prepare(prepare_options(corpus, resumed, tmp_path, **options))
    assert result["resumed"]
    assert not set(written) & set(kept)
    assert read_content(resumed) == read_content(straight)
    assert not partial.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "count"),
    [
        ("pieces/*.train.partial", 1),  # in the middle of a write, as likely as not
        ("pieces/*.npz", 2),
        ("pieces/*.npz", 8),
        ("result/*.tfrecord*", 1),
        ("result/*.tfrecord", 2),
    ],
)
def test_kill_signal_leaves_nothing_running_and_a_rerun_goes_on(
    tmp_path: Path, vocabulary: Path, files: str, count: int
) -> None:
    corpus = tmp_path / "big.txt"
    text = small_corpus(tmp_path, 300).read_text()
    with corpus.open("w") as file:
        for number in range(10 * CHUNK_BYTES // len(text)):
            file.write(f"w{number % 400}\n\n{text}\n")
    output = tmp_path / "killed"
    command = [
        *(sys.executable, "-m", "training", "prepare", "--input", str(corpus)),
        *("--vocabulary", str(vocabulary), "--output", str(output)),
        *("--workers", "2", "--held-out", "0.2", "--sequence-length", "32"),
        *("--shard-megabytes", "4"),
    ]
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL)
    partial = tmp_path / ".killed.partial"
    deadline = time.monotonic() + 300
    while len(list(partial.glob(files))) < count and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    children = _children(process.pid)
    # Two workers, the process that they are forks of, and Python's own tracker.
    assert len(children) == 4
    process.kill()
    process.wait()
    deadline = time.monotonic() + 1.0
    while any(_is_running(child) for child in children):
        assert time.monotonic() < deadline, children
        time.sleep(0.005)
    assert not output.exists()
    options: dict[str, Any] = {"shard_bytes": 4 << 20}
    result = prepare(prepare_options(corpus, output, vocabulary, **options))
    assert result["resumed"]
    prepare(prepare_options(corpus, tmp_path / "straight", vocabulary, **options))
    assert read_content(output) == read_content(tmp_path / "straight")


def _children(parent: int) -> list[int]:
    """Returns the process ids of a process's children and of theirs."""
    children = [
        int(one)
        for path in Path(f"/proc/{parent}/task").glob("*/children")
        for one in path.read_text().split()
    ]
    return children + [one for child in children for one in _children(child)]


def _is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_changed_options_start_anew(
    tmp_path: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = small_corpus(tmp_path)
    output = tmp_path / "data"
    with monkeypatch.context() as patched:
        patched.setattr(preparation, "_write_index", _killed)
        with pytest.raises(Killed):
            prepare(prepare_options(corpus, output, vocabulary, seed=1))
    result = prepare(prepare_options(corpus, output, vocabulary, seed=2))
    assert not result["resumed"]
    prepare(prepare_options(corpus, tmp_path / "fresh", vocabulary, seed=2))
    assert read_content(output) == read_content(tmp_path / "fresh")


def _killed(*arguments: Any) -> None:
    raise Killed


def test_two_processes_do_not_write_one_output(
    tmp_path: Path, vocabulary: Path
) -> None:
    from training.data.work_folder import WorkFolder

    folder = WorkFolder(tmp_path / "data", overwrite=False)
    with pytest.raises(UsageError, match="another process"):
        prepare(prepare_options(small_corpus(tmp_path), tmp_path / "data", vocabulary))
    folder.discard()
