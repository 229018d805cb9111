"""The hidden folder in which data is made before it gets its final name."""

import fcntl
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from common.command_line import UsageError
from common.files import write_bytes


class WorkFolder:
    """A folder beside the output that survives a kill, so that a rerun goes on in it.

    Args:
        output: the final directory.
        overwrite: whether a non-empty output may be replaced.

    Raises:
        UsageError: if the output exists and isn't empty, or another process is
            writing the same one.
    """

    def __init__(self, output: Path, overwrite: bool) -> None:
        self._output = output
        if output.exists() and not output.is_dir():
            raise UsageError(f"--output {output}: it is a file. Expected a folder.")
        if output.is_dir() and any(output.iterdir()) and not overwrite:
            raise UsageError(
                f"--output {output}: the folder isn't empty. Nothing was changed; give "
                "another one, or --overwrite to replace it."
            )
        self.path = output.parent / f".{output.name}.partial"
        self.pieces = self.path / "pieces"
        self.result = self.path / "result"
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()

    def _take_lock(self) -> IO[str]:
        lock = (self.path / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise UsageError(
                f"--output {self._output}: another process is writing it."
            ) from None
        return lock

    def begin(self, fingerprint: Mapping[str, Any]) -> bool:
        """Makes the folder ready for a job.

        Args:
            fingerprint: everything that the result depends on.

        Returns:
            Whether work of an earlier, killed run of the same job is there.
        """
        path = self.path / "fingerprint.json"
        text = json.dumps(fingerprint, sort_keys=True)
        resumed = path.is_file() and path.read_text("utf-8") == text
        if not resumed:
            for folder in (self.pieces, self.result):
                shutil.rmtree(folder, ignore_errors=True)
            path.unlink(missing_ok=True)
        self.pieces.mkdir(exist_ok=True)
        self.result.mkdir(exist_ok=True)
        for folder in (self.pieces, self.result):
            for leftover in (*folder.glob("*.tmp*"), *folder.glob("*.partial")):
                leftover.unlink()
        if not resumed:
            temporary = path.with_suffix(".tmp")
            temporary.write_text(text, "utf-8")
            temporary.replace(path)
        return resumed

    def read(self, name: str) -> bytes | None:
        """Returns a file of the result, None if it is not there."""
        path = self.result / name
        return path.read_bytes() if path.exists() else None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file of the result, under a temporary name first."""
        write_bytes(self.result / name, content)

    def publish(self) -> None:
        """Gives the result its final name and removes everything else."""
        if self._output.is_dir():
            self._output.rename(self.path / "replaced")
        self.result.rename(self._output)
        self.discard()

    def discard(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Lets another process have the folder."""
        self._lock.close()
