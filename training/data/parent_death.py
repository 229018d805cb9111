"""Ending with the process that started this one, however that one ends."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def die_with_parent() -> None:
    """Lets the kernel kill this process as soon as its parent is gone.

    Only Linux has this. Elsewhere a process in the middle of a long operation lives on
    until its end.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
