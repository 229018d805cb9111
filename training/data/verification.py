"""Compares data with its checksums before training uses it, beside other work.

Building and tracing a model takes longer than hashing the records of an ordinary
corpus, so a stage starts the comparison first and asks for the result when it opens the
data.
"""

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from common.command_line import CommandError
from common.hashes import file_sha256
from training.data.manifest import DataManifest

_THREADS = 4
_SECONDS_WITHOUT_A_WORD = 2.0
_Key = tuple[str, str, tuple[tuple[str, int, int], ...]]
_started: dict[_Key, "Verification"] = {}
_lock = threading.Lock()


class Verification:
    """The comparison of one split's files, and of the vocabulary, with the index.

    Args:
        files: each file and the sha256 that it should have.
    """

    def __init__(self, files: Sequence[tuple[Path, str]]) -> None:
        self._bytes = sum(path.stat().st_size for path, _ in files)
        self._todo = iter(files)
        self._lock = threading.Lock()
        self._damaged: list[str] = []
        # Hashing leaves Python to other threads. Daemons: a stage that has nothing to
        # do, or fails, doesn't wait for them.
        count = max(1, min(_THREADS, len(os.sched_getaffinity(0)), len(files)))
        self._threads = [
            threading.Thread(target=self._work, daemon=True) for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Waits for the result.

        Raises:
            CommandError: naming each file that differs.
        """
        for thread in self._threads:
            thread.join(_SECONDS_WITHOUT_A_WORD)
        if any(thread.is_alive() for thread in self._threads):
            size = f"{self._bytes / 1e9:.1f} GB"
            print(f"comparing {size} of data with its checksums", file=sys.stderr)
        for thread in self._threads:
            thread.join()
        if self._damaged:
            raise CommandError(
                "The data is damaged, prepare it again: "
                + "; ".join(sorted(self._damaged))
                + "."
            )

    def _work(self) -> None:
        while True:
            with self._lock:
                path, expected = next(self._todo, (None, ""))
            if path is None:
                return
            try:
                actual = file_sha256(path)
            except OSError as error:
                actual = f"nothing: {error.strerror}"
            if actual != expected:
                message = f"{path} (expected sha256 {expected}, found {actual})"
                with self._lock:
                    self._damaged.append(message)


def start_verification(data_dir: str | Path, split: str) -> Verification:
    """Starts to compare a split with its checksums, unless this process has done so.

    Args:
        data_dir: a data directory.
        split: ``"train"`` or ``"held_out"``.

    Raises:
        UsageError: if it is no data directory, or a file has another size.
    """
    manifest = DataManifest.load(data_dir)
    expected = manifest.expected_sha256([split])
    stats = [(path, path.stat()) for path in expected]
    key = (
        str(manifest.directory.resolve()),
        split,
        tuple((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats),
    )
    with _lock:
        if key not in _started:
            _started[key] = Verification(list(expected.items()))
        return _started[key]


def ensure_verified(data_dir: str | Path, split: str) -> None:
    """Compares a split with its checksums, once in the life of this process.

    Raises:
        UsageError: see `start_verification`.
        CommandError: naming each damaged file.
    """
    start_verification(data_dir, split).wait()


def verify(manifest: DataManifest) -> None:
    """Reads every file of a data directory and compares it with its checksum.

    Raises:
        CommandError: naming each file that differs.
    """
    Verification(list(manifest.expected_sha256().items())).wait()
