"""The process that imports what workers need, and is forked for each of them.

It imports TensorFlow once for all workers. (Only imports: a process that has run an
operation can't be forked.) Nothing heavy is imported here, so that a command can start
it first and import the same beside it.
"""

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

from common.compression import split_suffixes
from training.data.corpus import Source

_PRELOADED = "training.data.worker_imports"
_BYTES_WORTH_A_WORKER = 32 << 20
_COMPRESSION = 3  # text is about so many times as large as its compressed file


def worker_context() -> ForkServerContext:
    """Returns the context whose processes are forks of the server."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    return context


def start_worker_server() -> None:
    """Starts the server now; else it starts with its first worker."""
    worker_context()
    forkserver.ensure_running()


def number_of_workers(sources: Sequence[Source]) -> int:
    """Returns how many processes suit a corpus and this machine."""
    size = sum(
        source.size * (_COMPRESSION if split_suffixes(source.name)[1] else 1)
        for source in sources
    )
    processors = len(os.sched_getaffinity(0))
    return max(1, min(processors, size // _BYTES_WORTH_A_WORKER))
