"""Data preparation from corpus to data directory, in resumable steps."""

import hashlib
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.command_line import CommandError, UsageError
from lvbert_tf.version import __version__
from lvbert_tf.vocabulary import vocabulary_bytes, vocabulary_sha256
from training.data.corpus_report import (
    PICTURE_FILE,
    REPORT_FILE,
    corpus_report,
    picture,
    table,
)
from training.data.engine import Engine, Folder, Outcome
from training.data.finished import recall, remember
from training.data.manifest import FORMAT, INDEX_FILE, VOCABULARY_FILE
from training.data.prepare_options import PrepareOptions
from training.data.sources import find_sources
from training.data.token_counts import (
    TOKEN_COUNTS_FILE,
    token_counts_bytes,
)
from training.data.vocabulary_training import train_vocabulary

__all__ = ["PrepareOptions", "prepare"]

_MEGABYTE = 1_000_000


def prepare(options: PrepareOptions) -> dict[str, Any]:
    """Makes a data directory from a corpus.

    A killed run goes on where it was when it is started again with the same options
    and files; the result is the same, whatever the number of workers, and the same on
    Beam.

    Args:
        options: see `PrepareOptions`.

    Returns:
        The figures that the command prints.

    Raises:
        UsageError: for wrong options, a missing, damaged or empty corpus, and an
            output that isn't empty.
        CommandError: if a worker process dies or a file can't be written.
    """
    started = time.monotonic()
    finished = _finished(options)
    if finished is not None:
        print(f"prepare: {options.output} is finished already", file=sys.stderr)
        return finished
    engine = _engine(options)
    folder = engine.work_folder()
    try:
        sources = engine.find_sources()
        given = options.given_vocabulary()
        fingerprint = options.fingerprint(sources, given)
        resumed = folder.begin(fingerprint)
        vocabulary = _vocabulary(options, engine, given, folder)
        began = time.monotonic()
        outcome = engine.make_records(options.chunk_settings(vocabulary), folder)
        _check(options, outcome.counts)
        report = corpus_report(outcome, len(vocabulary))
        _write_report(folder, report)
        token_counts = token_counts_bytes(outcome.token_counts)
        folder.write(TOKEN_COUNTS_FILE, token_counts)
        digest = hashlib.sha256(token_counts).hexdigest()
        _write_index(folder, _index(options, vocabulary, outcome, digest))
        folder.publish()
    except UsageError:
        folder.discard()
        raise
    except BrokenProcessPool as error:
        raise CommandError(
            "A worker process died (out of memory?). The finished part is kept: run "
            "the same command again, perhaps with fewer --workers."
        ) from error
    except OSError as error:
        raise CommandError(
            f"{error.filename or options.output}: can't be written or read: "
            f"{error.strerror or error}. The finished part is kept: when there is room "
            "again, run the same command again."
        ) from error
    finally:
        folder.close()
    seconds = time.monotonic() - began
    counts = outcome.counts
    result = {
        "output": str(options.output),
        **counts,
        "unknown_fraction": report["unknown_fraction"],
        "vocabulary_size": len(vocabulary),
        "vocabulary_sha256": vocabulary_sha256(vocabulary),
        "duplicate_documents": report["duplicate_documents"],
        "warnings": report["warnings"],
        "shards": len(outcome.shards),
        "resumed": resumed,
        "seconds": round(time.monotonic() - started, 3),
        "megabytes_per_second": round(counts["bytes"] / _MEGABYTE / seconds, 3),
    }
    if isinstance(options.output, Path):
        remember(options.output, fingerprint, result)
    return result


def _finished(options: PrepareOptions) -> dict[str, Any] | None:
    """Returns the result of an earlier call that made the same directory, if any."""
    output = options.output
    if options.overwrite or not isinstance(output, Path) or not output.is_dir():
        return None
    if options.runner is not None or not any(output.iterdir()):
        return None
    sources = find_sources(options.inputs)
    return recall(output, options.fingerprint(sources, options.given_vocabulary()))


def _engine(options: PrepareOptions) -> Engine:
    if options.runner is None:
        from training.data.one_machine import OneMachine

        return OneMachine(options)
    try:
        import apache_beam  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"--runner {options.runner}: needs Apache Beam, which is not installed. "
            "Install it with: pip install 'apache-beam>=2.70' (the extra 'beam')."
        ) from error
    from training.data.beam_engine import BeamEngine

    return BeamEngine(options)


def _vocabulary(
    options: PrepareOptions,
    engine: Engine,
    given: Sequence[str] | None,
    folder: Folder,
) -> list[str]:
    stored = folder.read(VOCABULARY_FILE)
    if stored is not None:
        return stored.decode("utf-8").split("\n")[:-1]
    if given is not None:
        vocabulary = list(given)
    else:
        from lvbert_tf.models.text_normalization import TextNormalization

        capacity = options.training_vocabulary.sample_bytes
        documents = engine.sample_documents(capacity, folder)
        if not documents:
            raise options.empty()
        strip = options.strip_accents
        vocabulary = train_vocabulary(
            documents,
            options.training_vocabulary,
            TextNormalization(
                options.lowercase, options.lowercase if strip is None else strip
            ),
        )
    folder.write(VOCABULARY_FILE, vocabulary_bytes(vocabulary))
    return vocabulary


def _check(options: PrepareOptions, counts: dict[str, int]) -> None:
    if not counts.get("examples"):
        if counts.get("held_out_examples"):
            raise UsageError(
                "Every document of the corpus fell into the held-out set: it has only "
                f"{counts['documents']}. Give more text or a smaller --held-out."
            )
        raise options.empty()


def _index(
    options: PrepareOptions,
    vocabulary: Sequence[str],
    outcome: Outcome,
    token_counts_sha256: str,
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "made_by": f"lvbert-tf {__version__}",
        "options": options.stored(),
        "counts": outcome.counts,
        "vocabulary": {
            "file": VOCABULARY_FILE,
            "size": len(vocabulary),
            "sha256": vocabulary_sha256(vocabulary),
        },
        "token_counts": {"file": TOKEN_COUNTS_FILE, "sha256": token_counts_sha256},
        "shards": [asdict(shard) for shard in outcome.shards],
    }


def _write_index(folder: Folder, index: dict[str, Any]) -> None:
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    folder.write(INDEX_FILE, text.encode("utf-8"))


def _write_report(folder: Folder, report: dict[str, Any]) -> None:
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    folder.write(REPORT_FILE, text.encode("utf-8"))
    folder.write(PICTURE_FILE, picture(report))
    print(table(report), file=sys.stderr)
