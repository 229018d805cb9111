"""The transforms of data preparation on Apache Beam.

The work itself is what one machine does: `group_chunks` reads, `ChunkWorker` makes
pieces, `write_records` sorts and writes a shard. Only how it is spread is Beam's.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from training.data.beam_files import upload, write_remote
from training.data.chunk_records import ChunkSettings, ChunkWorker
from training.data.corpus import Chunk, Source, group_chunks
from training.data.observations import Observations
from training.data.pieces import PieceSplit, pack_entries
from training.data.shard_writing import ShardJob, shard_count, write_records
from training.data.vocabulary_training import DocumentSample

Place = tuple[int, int]
"""Group and number of a chunk: its place in the corpus."""


class ReadChunks(beam.PTransform):
    """Reads the corpus: groups in parallel, the chunks of a group in order.

    Args:
        groups: the corpus.
        text_field: column or field with the text.
        whole_files: make each file one chunk.
    """

    def __init__(
        self, groups: Sequence[Sequence[Source]], text_field: str, whole_files: bool
    ) -> None:
        super().__init__()
        self._groups = list(enumerate(groups))
        self._text_field = text_field
        self._whole = whole_files

    def expand(self, pipeline: Any) -> Any:
        """Returns a collection of chunks."""
        text_field, whole = self._text_field, self._whole

        def read(numbered: tuple[int, Sequence[Source]]) -> Iterator[Chunk]:
            index, group = numbered
            return group_chunks(index, group, text_field, whole=whole)

        return (
            pipeline
            | "groups" >> beam.Create(self._groups, reshuffle=True)
            | "read" >> beam.FlatMap(read)
            # Without it a group's chunks would stay where they were read.
            | "spread" >> beam.Reshuffle()
        )


class SampleDocuments(beam.CombineFn):
    """The sample that a vocabulary is trained on; see `DocumentSample`.

    Args:
        capacity: bytes of text.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity

    def create_accumulator(self) -> DocumentSample:
        """Returns an empty sample."""
        return DocumentSample(self._capacity)

    def add_input(self, sample: DocumentSample, chunk: Chunk) -> DocumentSample:
        """Offers the documents of a chunk."""
        for index, document in enumerate(chunk.documents):
            sample.add(document, (chunk.group, chunk.index, index))
        return sample

    def merge_accumulators(self, samples: Iterable[DocumentSample]) -> DocumentSample:
        """Returns the sample of all that the samples were offered."""
        merged = self.create_accumulator()
        for sample in samples:
            merged.merge(sample)
        return merged

    def extract_output(self, sample: DocumentSample) -> list[bytes]:
        """Returns the documents in the corpus's order."""
        return sample.documents()


class MakePieces(beam.DoFn):
    """Makes the piece of each chunk.

    Main output: (place, splits). Others: `counts`, `observations`, `hashes`,
    `tokens`.

    Args:
        settings: of the pieces.
    """

    def __init__(self, settings: ChunkSettings) -> None:
        super().__init__()
        self._settings = settings
        self._worker: ChunkWorker | None = None

    def setup(self) -> None:
        """Loads the tokenizer, once for each worker."""
        self._worker = ChunkWorker(self._settings)

    def process(self, chunk: Chunk) -> Iterator[Any]:
        """Makes one piece."""
        if self._worker is None:
            raise RuntimeError("setup was not called")
        piece = self._worker.piece(chunk)
        yield beam.pvalue.TaggedOutput("counts", dict(piece.counts))
        yield beam.pvalue.TaggedOutput("observations", piece.observations)
        yield beam.pvalue.TaggedOutput("tokens", piece.token_counts)
        for value in piece.hashes.tolist():
            # Signed: Beam's integers have 64 bits.
            yield beam.pvalue.TaggedOutput("hashes", value - (1 << 63))
        yield (chunk.group, chunk.index), dict(piece.splits)


class SumCounts(beam.CombineFn):
    """Adds up counts by name."""

    def create_accumulator(self) -> dict[str, int]:
        """Returns no counts."""
        return {}

    def add_input(
        self, total: dict[str, int], counts: Mapping[str, int]
    ) -> dict[str, int]:
        """Adds counts."""
        for name, value in counts.items():
            total[name] = total.get(name, 0) + value
        return total

    def merge_accumulators(self, totals: Iterable[dict[str, int]]) -> dict[str, int]:
        """Adds up totals."""
        merged: dict[str, int] = {}
        for total in totals:
            self.add_input(merged, total)
        return merged

    def extract_output(self, total: dict[str, int]) -> dict[str, int]:
        """Returns the counts, in the order of their names."""
        return dict(sorted(total.items()))


class SumTokenCounts(beam.CombineFn):
    """Adds up how often each id stands in the training examples.

    Args:
        vocabulary_size: V.
    """

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self._vocabulary_size = vocabulary_size

    def create_accumulator(self) -> npt.NDArray[np.int64]:
        """Returns zeros, int64 (V,)."""
        return np.zeros(self._vocabulary_size, np.int64)

    def add_input(
        self, total: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Adds the counts of a piece."""
        return total + counts

    def merge_accumulators(
        self, totals: Iterable[npt.NDArray[np.int64]]
    ) -> npt.NDArray[np.int64]:
        """Adds up totals."""
        return sum(totals, self.create_accumulator())

    def extract_output(self, total: npt.NDArray[np.int64]) -> list[int]:
        """Returns V counts, as JSON can hold them."""
        counts: list[int] = total.tolist()
        return counts


class GatherObservations(beam.CombineFn):
    """Gathers what chunks add to the report."""

    def create_accumulator(self) -> Observations:
        """Returns no observations."""
        return Observations()

    def add_input(self, total: Observations, observed: str) -> Observations:
        """Adds those of a chunk."""
        total.add(observed)
        return total

    def merge_accumulators(self, totals: Iterable[Observations]) -> Observations:
        """Adds up observations."""
        merged = self.create_accumulator()
        for total in totals:
            merged.add(total.to_json())
        return merged

    def extract_output(self, total: Observations) -> str:
        """Returns JSON."""
        return total.to_json()


def split_bytes(
    piece: tuple[Place, Mapping[str, PieceSplit]],
) -> Iterator[tuple[str, int]]:
    """Yields how many bytes of each split a piece has."""
    _, splits = piece
    for name, split in splits.items():
        yield name, len(split.content)


def to_shards(
    piece: tuple[Place, Mapping[str, PieceSplit]],
    totals: Mapping[str, int],
    shard_bytes: int,
) -> Iterator[tuple[tuple[str, int, int], tuple[Place, bytes]]]:
    """Yields the stretches of a piece, by the shard that they belong to."""
    place, splits = piece
    for name, split in splits.items():
        count = shard_count(totals.get(name, 0), shard_bytes)
        if not count:
            continue
        offsets = split.offsets(count).tolist()
        for index in range(count):
            stretch = split.content[offsets[index] : offsets[index + 1]]
            if stretch:
                yield (name, index, count), (place, stretch)


def write_shard(
    shard: tuple[tuple[str, int, int], Iterable[tuple[Place, bytes]]], directory: str
) -> dict[str, Any]:
    """Writes one shard into a folder of any file system; returns its description."""
    key, stretches = shard
    job = ShardJob(*key)
    with tempfile.TemporaryDirectory() as scratch:
        local = Path(scratch, job.file)
        written = write_records(
            local, job.split, (stretch for _, stretch in sorted(stretches))
        )
        upload(local, f"{directory}/{job.file}")
    return asdict(written)


def write_documents(documents: Sequence[bytes], path: str) -> None:
    """Writes documents for the process that started the pipeline."""
    write_remote(path, pack_entries(range(len(documents)), documents))


def write_outcome(
    _: None,
    path: str,
    counts: Mapping[str, int],
    observations: str,
    distinct_documents: int,
    shards: Sequence[Mapping[str, Any]],
    token_counts: Sequence[int],
) -> None:
    """Writes down what became of the corpus, for the same process."""
    outcome = {
        "counts": counts,
        "observations": observations,
        "distinct_documents": distinct_documents,
        "shards": list(shards),
        "token_counts": list(token_counts),
    }
    write_remote(path, json.dumps(outcome).encode("utf-8"))
