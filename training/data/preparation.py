"""Data preparation from corpus to data directory, in resumable steps."""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from command_line import CommandError, UsageError
from lvbert_tf.version import __version__
from lvbert_tf.vocabulary import (
    read_vocabulary,
    vocabulary_bytes,
    vocabulary_sha256,
)
from training.data.chunk_records import (
    SPLITS,
    ChunkSettings,
    ChunkWorker,
    TokenizerSettings,
    run_chunk,
    start_worker,
    write_file,
)
from training.data.chunk_records import piece_table as piece_path
from training.data.corpus import CorpusFile, chunks, find_files
from training.data.corpus_report import (
    PICTURE_FILE,
    REPORT_FILE,
    corpus_report,
    draw,
    table,
)
from training.data.examples import ExampleOptions
from training.data.manifest import FORMAT, INDEX_FILE, VOCABULARY_FILE, Shard
from training.data.shard_writing import shard_count, write_shard
from training.data.vocabulary_training import (
    DocumentSample,
    VocabularyOptions,
    train_vocabulary,
)
from training.data.work_folder import WorkFolder
from training.progress import Progress

SHARD_BYTES = 64 << 20
_BYTES_WORTH_A_WORKER = 32 << 20
_MEGABYTE = 1_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class PrepareOptions:
    """What to prepare and how.

    Attributes:
        inputs: files, folders or glob patterns.
        output: the data directory to make.
        vocabulary: a vocabulary file; None trains one.
        training_vocabulary: how a vocabulary is trained.
        lowercase: lower-case the text.
        strip_accents: drop accents; None means as `lowercase`.
        examples: the rules of example building.
        held_out: share of the documents that is held out.
        seed: of the examples' draws and of the shuffle.
        workers: processes; None chooses by the size of the corpus and the machine.
        overwrite: replace a non-empty output.
        text_field: column or field with the text, in tables and JSON.
        official: build examples exactly as the official code does.
        shard_bytes: aimed size of a shard.
    """

    inputs: Sequence[str]
    output: Path
    vocabulary: Path | None = None
    training_vocabulary: VocabularyOptions = field(default_factory=VocabularyOptions)
    lowercase: bool = True
    strip_accents: bool | None = None
    examples: ExampleOptions = field(default_factory=ExampleOptions)
    held_out: float = 0.02
    seed: int = 0
    workers: int | None = None
    overwrite: bool = False
    text_field: str = "text"
    official: bool = False
    shard_bytes: int = SHARD_BYTES

    def __post_init__(self) -> None:
        """Checks the values."""
        if not 0.0 <= self.held_out < 1.0:
            raise UsageError(
                f"--held-out must be at least 0 and below 1. Received: {self.held_out}."
            )
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers must be at least 1. Received: {self.workers}.")
        if self.seed < 0:
            raise UsageError(f"--seed must not be negative. Received: {self.seed}.")
        if self.shard_bytes < 1:
            raise UsageError(
                f"--shard-megabytes must be positive. Received: {self.shard_bytes}."
            )


def prepare(options: PrepareOptions) -> dict[str, Any]:
    """Makes a data directory from a corpus.

    A killed run goes on where it was when it is started again with the same options
    and files; the result is the same, whatever the number of workers.

    Args:
        options: see `PrepareOptions`.

    Returns:
        The figures that the command prints.

    Raises:
        UsageError: for wrong options, a missing, damaged or empty corpus, and an
            output that isn't empty.
        CommandError: if a worker process dies.
    """
    started = time.monotonic()
    folder = WorkFolder(Path(options.output), options.overwrite)
    try:
        files = find_files(options.inputs)
        given = _given_vocabulary(options)
        resumed = folder.begin(_fingerprint(options, files, given))
        vocabulary = _vocabulary(options, files, given, folder)
        began = time.monotonic()
        counts, pieces = _make_pieces(options, files, vocabulary, folder)
        shards = _make_shards(options, folder, pieces)
        index = _index(options, vocabulary, counts, shards)
        report = corpus_report(pieces, counts, len(vocabulary))
        _write_report(folder, report)
        _write_index(folder, index)
        folder.publish()
    except UsageError:
        folder.discard()
        raise
    except BrokenProcessPool as error:
        raise CommandError(
            "A worker process died (out of memory?). The finished part is kept: run "
            "the same command again, perhaps with fewer --workers."
        ) from error
    finally:
        folder.close()
    seconds = time.monotonic() - began
    return {
        "output": str(options.output),
        **counts,
        "unknown_fraction": counts["unknown_tokens"] / max(1, counts["tokens"]),
        "vocabulary_size": len(vocabulary),
        "vocabulary_sha256": vocabulary_sha256(vocabulary),
        "duplicate_documents": report["duplicate_documents"],
        "shards": len(shards),
        "resumed": resumed,
        "seconds": round(time.monotonic() - started, 3),
        "megabytes_per_second": round(counts["bytes"] / _MEGABYTE / seconds, 3),
    }


def _given_vocabulary(options: PrepareOptions) -> list[str] | None:
    if options.vocabulary is None:
        return None
    duplicates = "last" if options.official else "error"
    try:
        return read_vocabulary(options.vocabulary, duplicates)  # type: ignore[arg-type]
    except OSError as error:
        raise UsageError(
            f"--vocabulary {options.vocabulary}: {error.strerror}."
        ) from error
    except ValueError as error:
        raise UsageError(f"--vocabulary: {error}") from error


def _tokenizer_settings(
    options: PrepareOptions, vocabulary: Sequence[str]
) -> TokenizerSettings:
    return TokenizerSettings(
        vocabulary=tuple(vocabulary),
        lowercase=options.lowercase,
        strip_accents=options.strip_accents,
        duplicates="last" if options.official else "error",
    )


def _stored_options(options: PrepareOptions) -> dict[str, Any]:
    """Returns the options that the content of the result depends on."""
    return {
        **asdict(options.examples),
        "lowercase": options.lowercase,
        "strip_accents": options.strip_accents,
        "duplicates": "last" if options.official else "error",
        "held_out": options.held_out,
        "seed": options.seed,
        "official": options.official,
        "shard_bytes": options.shard_bytes,
        "trained_vocabulary": (
            None
            if options.vocabulary is not None
            else asdict(options.training_vocabulary)
        ),
    }


def _fingerprint(
    options: PrepareOptions, files: Sequence[CorpusFile], given: list[str] | None
) -> dict[str, Any]:
    stats = [(file, file.path.stat()) for file in files]
    return {
        "format": FORMAT,
        "version": __version__,
        "options": _stored_options(options),
        "text_field": options.text_field,
        "vocabulary": None if given is None else vocabulary_sha256(given),
        "files": [
            (str(file.path.resolve()), stat.st_size, stat.st_mtime_ns)
            for file, stat in stats
        ],
    }


def _vocabulary(
    options: PrepareOptions,
    files: Sequence[CorpusFile],
    given: list[str] | None,
    folder: WorkFolder,
) -> list[str]:
    path = folder.result / VOCABULARY_FILE
    if path.exists():
        return read_vocabulary(path, "last")
    vocabulary = given
    if vocabulary is None:
        from lvbert_tf.models.text_normalization import TextNormalization

        sample = DocumentSample(options.training_vocabulary.sample_bytes)
        with _reading(files, "vocabulary") as on_read:
            for chunk in chunks(files, options.text_field, on_read):
                for document in chunk.documents:
                    sample.add(document)
        documents = sample.documents()
        if not documents:
            raise _empty(options)
        strip = options.strip_accents
        vocabulary = train_vocabulary(
            documents,
            options.training_vocabulary,
            TextNormalization(
                options.lowercase, options.lowercase if strip is None else strip
            ),
        )
    write_file(path, vocabulary_bytes(vocabulary))
    return vocabulary


def _make_pieces(
    options: PrepareOptions,
    files: Sequence[CorpusFile],
    vocabulary: Sequence[str],
    folder: WorkFolder,
) -> tuple[dict[str, int], list[Path]]:
    settings = ChunkSettings(
        directory=folder.pieces,
        tokenizer=_tokenizer_settings(options, vocabulary),
        examples=options.examples,
        held_out=options.held_out,
        seed=options.seed,
        official=options.official,
    )
    totals: dict[str, int] = {}
    pieces: list[Path] = []
    with _reading(files, "records") as on_read:
        corpus = chunks(files, options.text_field, on_read, options.official)
        for counts in _map(
            run_chunk, corpus, settings, _number_of_workers(options, files)
        ):
            pieces.append(piece_path(folder.pieces, len(pieces)))
            for name, value in counts.items():
                totals[name] = totals.get(name, 0) + value
    if not totals.get("examples"):
        if totals.get("held_out_examples"):
            raise UsageError(
                "Every document of the corpus fell into the held-out set: it has only "
                f"{totals['documents']}. Give more text or a smaller --held-out."
            )
        raise _empty(options)
    return totals, pieces


def _make_shards(
    options: PrepareOptions, folder: WorkFolder, pieces: Sequence[Path]
) -> list[Shard]:
    jobs = [
        (split, index, count)
        for split in SPLITS
        for count in [shard_count(pieces, split, options.shard_bytes)]
        for index in range(count)
    ]
    shards = []
    with Progress(len(jobs), "shards", "shards") as progress:
        for split, index, count in jobs:
            shards.append(write_shard(folder.result, pieces, split, index, count))
            progress.update(1)
    return shards


def _index(
    options: PrepareOptions,
    vocabulary: Sequence[str],
    counts: dict[str, int],
    shards: Sequence[Shard],
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "made_by": f"lvbert-tf {__version__}",
        "options": _stored_options(options),
        "counts": counts,
        "vocabulary": {
            "file": VOCABULARY_FILE,
            "size": len(vocabulary),
            "sha256": vocabulary_sha256(vocabulary),
        },
        "shards": [asdict(shard) for shard in shards],
    }


def _write_index(folder: WorkFolder, index: dict[str, Any]) -> None:
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    write_file(folder.result / INDEX_FILE, text.encode("utf-8"))


def _write_report(folder: WorkFolder, report: dict[str, Any]) -> None:
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    write_file(folder.result / REPORT_FILE, text.encode("utf-8"))
    draw(report, folder.result / PICTURE_FILE)
    print(table(report), file=sys.stderr)


def _number_of_workers(options: PrepareOptions, files: Sequence[CorpusFile]) -> int:
    if options.workers is not None:
        return options.workers
    size = sum(file.size for file in files)
    return max(1, min(len(os.sched_getaffinity(0)), size // _BYTES_WORTH_A_WORKER))


def _map(
    function: Callable[[Any], T],
    items: Iterable[Any],
    settings: ChunkSettings,
    workers: int,
) -> Iterator[T]:
    """Applies `run_chunk` in order: here, or in processes, a few items ahead."""
    if workers == 1:
        worker = ChunkWorker(settings)
        for item in items:
            yield worker.run(item)  # type: ignore[misc]
        return
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=start_worker,
        initargs=(settings,),
    )
    waiting: list[Future[T]] = []
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            # So many chunks of text are in memory, no more.
            if len(waiting) >= 2 * workers:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _reading(
    files: Sequence[CorpusFile], label: str
) -> Iterator[Callable[[int], None]]:
    """Shows how much of the corpus was read, in MB on disk."""
    total = sum(file.size for file in files)
    done = 0
    with Progress(max(1, total // _MEGABYTE), "MB", label) as progress:

        def on_read(count: int) -> None:
            nonlocal done
            whole = (done + count) // _MEGABYTE - done // _MEGABYTE
            done += count
            if whole:
                progress.update(whole)

        yield on_read


def _empty(options: PrepareOptions) -> UsageError:
    return UsageError(
        f"--input {' '.join(options.inputs)}: the corpus is empty: no document in it "
        "has any text."
    )
