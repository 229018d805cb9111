"""Processes that make pieces and shards on one machine."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from training.data.chunk_records import ChunkSettings, ChunkWorker
from training.data.corpus import Chunk
from training.data.manifest import Shard
from training.data.parent_death import die_with_parent
from training.data.pieces import piece_table, write_piece
from training.data.shard_writing import ShardJob, write_shard
from training.data.worker_server import worker_context

T = TypeVar("T")
R = TypeVar("R")


class Pool(Protocol):
    """Does the two kinds of work, in order, some items ahead of the caller."""

    def make_pieces(self, chunks: Iterable[Chunk]) -> Iterator[None]:
        """Writes the piece of each chunk."""

    def make_shards(self, jobs: Iterable[ShardJob]) -> Iterator[Shard]:
        """Writes each shard."""


class Worker:
    """What does the work: in a process of its own, or in this one.

    Args:
        settings: of the pieces.
        pieces: folder of the pieces.
        result: folder of the shards.
    """

    def __init__(self, settings: ChunkSettings, pieces: Path, result: Path) -> None:
        self._settings = settings
        self._pieces = pieces
        self._result = result
        self._chunk_worker: ChunkWorker | None = None

    def make_piece(self, chunk: Chunk) -> None:
        """Writes the piece of one chunk."""
        if self._chunk_worker is None:
            self._chunk_worker = ChunkWorker(self._settings)
        piece = self._chunk_worker.piece(chunk)
        write_piece(piece_table(self._pieces, chunk.group, chunk.index), piece)

    def make_shard(self, job: ShardJob) -> Shard:
        """Writes one shard."""
        return write_shard(job, self._pieces, self._result)


@contextmanager
def worker_pool(worker: Worker, workers: int) -> Iterator[Pool]:
    """Gives a pool of so many processes; for one, the work is done here."""
    if workers == 1:
        yield _Here(worker)
        return
    executor = ProcessPoolExecutor(
        workers, mp_context=worker_context(), initializer=_start, initargs=(worker,)
    )
    try:
        yield _Processes(executor, workers)
    finally:
        executor.shutdown(cancel_futures=True)


class _Here:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def make_pieces(self, chunks: Iterable[Chunk]) -> Iterator[None]:
        return map(self._worker.make_piece, chunks)

    def make_shards(self, jobs: Iterable[ShardJob]) -> Iterator[Shard]:
        return map(self._worker.make_shard, jobs)


class _Processes:
    def __init__(self, executor: ProcessPoolExecutor, workers: int) -> None:
        self._executor = executor
        # So many chunks of text are in memory, no more.
        self._ahead = 2 * workers

    def make_pieces(self, chunks: Iterable[Chunk]) -> Iterator[None]:
        return self._map(_make_piece, chunks)

    def make_shards(self, jobs: Iterable[ShardJob]) -> Iterator[Shard]:
        return self._map(_make_shard, jobs)

    def _map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        waiting: list[Future[R]] = []
        for item in items:
            waiting.append(self._executor.submit(function, item))
            if len(waiting) >= self._ahead:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()


_worker: Worker | None = None


def _start(worker: Worker) -> None:
    """Prepares a worker process; several share a machine, so each has one thread."""
    global _worker
    die_with_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _worker = worker


def _end_with_parent() -> None:
    """Ends this process when the one that started it is gone.

    A killed parent can't tell its workers; they would wait for work for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _started() -> Worker:
    if _worker is None:
        raise RuntimeError("this process was not prepared as a worker")
    return _worker


def _make_piece(chunk: Chunk) -> None:
    _started().make_piece(chunk)


def _make_shard(job: ShardJob) -> Shard:
    return _started().make_shard(job)
