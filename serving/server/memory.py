"""Gives freed memory back to the system, which the C library does not do by itself."""

import ctypes
import gc

# Of <malloc.h>: how many arenas threads may share.
_M_ARENA_MAX = -8


def limit_arenas(count: int = 4) -> None:
    """Keeps the C library from opening an arena for each thread.

    Each arena holds on to what its thread has freed, and this server has many threads.
    """
    library = _library()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, count)


def release() -> None:
    """Collects cycles, then returns free pages to the system."""
    gc.collect()
    trim()


def trim() -> None:
    """Returns free pages to the system."""
    library = _library()
    if library is not None:
        library.malloc_trim(0)


def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "malloc_trim") else None
