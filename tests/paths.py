"""Where the tests find the project and, if it is there, the shared test data."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LVBERT_SHARED", REPOSITORY.parent / "shared"))


def require_shared(relative: str) -> Path:
    """Returns the path of a shared file or folder, or skips the test without it."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(
            f"shared test data not here: {relative} "
            "(set LVBERT_SHARED to the folder that holds it)"
        )
    return path


def golden(relative: str) -> Path:
    """Returns a folder or file of golden vectors: ours, or the shared one, or skips."""
    own = REPOSITORY / "tests" / "golden" / relative
    return own if own.exists() else require_shared(f"golden/{relative}")
