"""Preparation with processes of one machine; it goes on where a killed run stopped."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from training.data.chunk_records import ChunkSettings
from training.data.corpus import Chunk, Source, chunks
from training.data.engine import Folder, Outcome
from training.data.observations import Observations, count_duplicates
from training.data.pieces import all_tables, piece_table, read_piece_summary
from training.data.prepare_options import PrepareOptions
from training.data.shard_writing import plan_shards
from training.data.sources import find_sources
from training.data.vocabulary_training import DocumentSample
from training.data.work_folder import WorkFolder
from training.data.worker_pool import Pool, Worker, worker_pool
from training.data.worker_server import number_of_workers
from training.run.progress import Progress

_MEGABYTE = 1_000_000


class OneMachine:
    """The engine that needs nothing but Python.

    The main process reads the corpus and hands chunks to the workers, which write
    pieces; then they merge the pieces into shards. Memory holds a few chunks and one
    shard for each worker, however large the corpus is.

    Args:
        options: what to prepare.
    """

    def __init__(self, options: PrepareOptions) -> None:
        self._options = options
        self._sources: list[Source] = []

    def work_folder(self) -> WorkFolder:
        """Returns a hidden folder beside the output."""
        return WorkFolder(Path(self._options.output), self._options.overwrite)

    def find_sources(self) -> Sequence[Source]:
        """Returns the files and data sets."""
        self._sources = find_sources(self._options.inputs)
        return self._sources

    def sample_documents(self, capacity: int, folder: Folder) -> list[bytes]:
        """Reads the corpus once."""
        sample = DocumentSample(capacity)
        with self._reading("vocabulary") as on_read:
            for chunk in chunks(self._sources, self._options.text_field, on_read):
                for document in chunk.documents:
                    sample.add(document)
        return sample.documents()

    def make_records(self, settings: ChunkSettings, folder: Folder) -> Outcome:
        """Writes pieces, then shards."""
        pieces = Path(folder.pieces)
        worker = Worker(settings, pieces, Path(folder.result))
        with worker_pool(worker, self._number_of_workers()) as pool:
            self._make_pieces(pool, pieces)
            tables = all_tables(pieces)
            jobs = plan_shards(tables, pieces, self._options.shard_bytes)
            shards = []
            with Progress(len(jobs), "shards", "shards") as progress:
                for shard in pool.make_shards(jobs):
                    shards.append(shard)
                    progress.update(1)
        counts: dict[str, int] = {}
        observations = Observations()
        token_counts = np.zeros(len(settings.tokenizer.vocabulary), np.int64)
        for table in tables:
            piece_counts, observed, tokens = read_piece_summary(table)
            token_counts += tokens
            observations.add(observed)
            for name, value in piece_counts.items():
                counts[name] = counts.get(name, 0) + value
        return Outcome(
            counts=dict(sorted(counts.items())),
            observations=observations,
            duplicate_documents=count_duplicates(tables, counts.get("documents", 0)),
            shards=shards,
            token_counts=token_counts,
        )

    def _make_pieces(self, pool: Pool, pieces: Path) -> None:
        options = self._options

        def is_new(chunk: Chunk) -> bool:
            return not piece_table(pieces, chunk.group, chunk.index).exists()

        with self._reading("records") as on_read:
            corpus = chunks(
                self._sources, options.text_field, on_read, options.official
            )
            for _ in pool.make_pieces(filter(is_new, corpus)):
                pass

    def _number_of_workers(self) -> int:
        return self._options.workers or number_of_workers(self._sources)

    @contextmanager
    def _reading(self, label: str) -> Iterator[Callable[[int], None]]:
        """Shows how much of the corpus was read, in MB on disk."""
        total = sum(source.size for source in self._sources)
        done = 0
        steps = max(1, total // _MEGABYTE) if total else None
        with Progress(steps, "MB", label) as progress:

            def on_read(count: int) -> None:
                nonlocal done
                whole = (done + count) // _MEGABYTE - done // _MEGABYTE
                done += count
                if whole:
                    progress.update(whole)

            yield on_read
