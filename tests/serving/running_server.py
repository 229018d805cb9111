"""Starts ``python -m serving serve`` as a process of its own, and stops it."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.paths import REPOSITORY

_START_TIMEOUT_S = 180


class RunningServer:
    """A server process on free ports of the loopback interface.

    Args:
        log: file that takes what the server logs.
        *arguments: more arguments of ``serve``.
        memory_bytes: limit of its address space; 0: none.
    """

    def __init__(self, log: Path, *arguments: str, memory_bytes: int = 0) -> None:
        self.log = log
        command = [sys.executable, "-m", "serving", "serve", *arguments]
        if "--rest-port" not in arguments:
            command += ["--rest-port", "0", "--grpc-port", "0"]
        if memory_bytes:
            limit = ["bash", "-c", 'ulimit -v "$0"; exec "$@"', f"{memory_bytes >> 10}"]
            command = [*limit, *command]
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
            )
        # A server that hangs must not hang the tests.
        watchdog = threading.Timer(_START_TIMEOUT_S, self.process.kill)
        watchdog.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        watchdog.cancel()
        if not line:
            self.process.wait()
            raise AssertionError(f"the server did not start:\n{log.read_text()}")
        self.ready: dict[str, Any] = json.loads(line)

    @property
    def rest_url(self) -> str:
        """``http://host:port``."""
        return str(self.ready["rest"])

    @property
    def grpc_address(self) -> str:
        """``host:port``."""
        return str(self.ready["grpc"])

    def resident_mb(self) -> float:
        """What the process holds in memory, in MiB."""
        return self._memory_mb("VmRSS")

    def peak_mb(self) -> float:
        """The most that it ever held, in MiB."""
        return self._memory_mb("VmHWM")

    def _memory_mb(self, name: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = [line for line in lines if line.startswith(name)]
        return round(int(line.split()[1]) / 1024, 1)

    def stop(self, number: signal.Signals | None = signal.SIGTERM) -> dict[str, Any]:
        """Sends a signal, expects a clean end, and returns the last line's JSON.

        Args:
            number: the signal; None: close the process's standard input.
        """
        if number is not None:
            self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.log.read_text()
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        return result

    def kill(self) -> None:
        """Ends the process whatever it does; for clean-up."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
