"""Hides what TensorFlow writes to stderr of a healthy run, and nothing else.

These lines come from C++, before any level that can be set from here counts.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_STDERR = 2
_NOTES = (
    b"All log messages before absl::InitializeLog() is called are written to STDERR",
    b"MLIR V1 optimization pass is not enabled",
    b"Ignored output_format.",
    b"Ignored drop_control_dependency.",
    b"Created TensorFlow Lite XNNPACK delegate",
)


@contextmanager
def without_notes() -> Iterator[None]:
    """Holds back what the process writes to stderr, and gives the rest at the end.

    For calls that take a moment: nothing is seen before they end.
    """
    sys.stderr.flush()
    original = os.dup(_STDERR)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), _STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(original, _STDERR)
            os.close(original)
            held.seek(0)
            for line in held:
                if not any(note in line for note in _NOTES):
                    os.write(_STDERR, line)
