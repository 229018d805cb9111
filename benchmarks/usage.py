"""Runs a command and writes what it and all its descendants took.

Usage: ``python -m benchmarks.usage FILE COMMAND ...``

A process of its own between a benchmark and what it measures: a new process starts with
the peak memory of the one that started it, so a small one must. It needs nothing but
Python.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

_SET_CHILD_SUBREAPER = 36


def main(file: str, *command: str) -> int:
    """Writes `seconds`, `cpu_seconds` and `peak_mib`; returns the command's status.

    Descendants that outlive the command are adopted and waited for, so that their time
    is counted too. The peak is that of the largest process.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss
    while True:
        try:
            _, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss)
    figures = {"seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak / 1024}
    Path(file).write_text(json.dumps(figures), encoding="utf-8")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
