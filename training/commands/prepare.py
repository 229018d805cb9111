"""``python -m training prepare``: from text files to a data directory."""

import argparse
import shlex
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    corpus = parser.add_argument_group("corpus")
    corpus.add_argument(
        "--input",
        nargs="+",
        required=True,
        metavar="PATH",
        help="files, folders or glob patterns: .txt (a blank line between documents), "
        ".jsonl, .csv, .tsv, .parquet, .tar, each also compressed (.gz .bz2 .xz .zst); "
        "hf:NAME[:CONFIGURATION[:SPLIT]], a data set of the Hugging Face hub; with "
        "--runner also addresses such as gs://bucket/books-*.txt.gz",
    )
    corpus.add_argument(
        "--text-field",
        default="text",
        metavar="NAME",
        help="column or field that holds the text in tables and JSON (default: text)",
    )
    corpus.add_argument(
        "--held-out",
        type=float,
        default=0.02,
        metavar="SHARE",
        help="share of the documents kept for evaluation, by a hash of their text "
        "(default: 0.02)",
    )
    vocabulary = parser.add_argument_group("vocabulary")
    source = vocabulary.add_mutually_exclusive_group()
    source.add_argument(
        "--vocabulary",
        type=Path,
        metavar="FILE",
        help="a vocabulary file, one token a line; without it one is trained",
    )
    source.add_argument(
        "--vocabulary-size",
        type=int,
        default=30522,
        metavar="N",
        help="entries of the vocabulary to train, at most (default: 30522)",
    )
    vocabulary.add_argument(
        "--min-frequency",
        type=int,
        default=2,
        metavar="N",
        help="a piece must occur as often to enter the vocabulary (default: 2)",
    )
    vocabulary.add_argument(
        "--unused-tokens",
        type=int,
        default=0,
        metavar="N",
        help="reserve entries [unused0]... (default: 0)",
    )
    vocabulary.add_argument(
        "--vocabulary-sample-megabytes",
        type=int,
        default=100,
        metavar="N",
        help="text to train the vocabulary on; more is sampled (default: 100)",
    )
    vocabulary.add_argument(
        "--cased", action="store_true", help="keep upper case (default: lower-case)"
    )
    vocabulary.add_argument(
        "--strip-accents",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="drop accents (default: when lower-casing, as in BERT)",
    )
    examples = parser.add_argument_group("examples")
    examples.add_argument(
        "--sequence-length",
        type=int,
        default=128,
        metavar="T",
        help="greatest number of tokens of an example (default: 128)",
    )
    examples.add_argument(
        "--short-probability",
        "--short-seq-prob",
        type=float,
        default=0.05,
        metavar="P",
        help="share of examples with a random shorter length (default: 0.05)",
    )
    examples.add_argument(
        "--single-probability",
        "--single-seg-prob",
        type=float,
        default=0.1,
        metavar="P",
        help="share of examples with one segment instead of two (default: 0.1)",
    )
    examples.add_argument(
        "--join-documents",
        action="store_true",
        help="let examples cross the ends of documents (default: none does)",
    )
    examples.add_argument(
        "--official",
        action="store_true",
        help="build examples exactly as the official code does: text beyond an "
        "example's length is lost, files are read as a whole, and a repeated entry of "
        "the vocabulary has the id of its later line",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output",
        type=_folder,
        required=True,
        metavar="DIR",
        help="the data directory; with --runner also an address such as gs://bucket/data",
    )
    output.add_argument(
        "--overwrite", action="store_true", help="replace a non-empty output folder"
    )
    output.add_argument(
        "--shard-megabytes",
        type=int,
        default=64,
        metavar="N",
        help="aimed size of a record file (default: 64)",
    )
    output.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes (default: by the size of corpus and machine); the result does "
        "not depend on it",
    )
    output.add_argument("--seed", type=int, default=0, metavar="N")
    output.add_argument(
        "--runner",
        metavar="NAME",
        help="use Apache Beam (the extra 'beam') with this runner instead of processes "
        "of this machine: DirectRunner, DataflowRunner, FlinkRunner, SparkRunner, ...; "
        "the result is the same",
    )
    output.add_argument(
        "--runner-arguments",
        default="",
        metavar="TEXT",
        help="options of the pipeline in one string, for example "
        "'--project=p --region=europe-west4 --temp_location=gs://bucket/tmp'",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command and returns its result."""
    if arguments.runner is None:
        _start_workers(arguments)
    from training.data.examples import ExampleOptions
    from training.data.preparation import prepare
    from training.data.prepare_options import PrepareOptions
    from training.data.vocabulary_training import VocabularyOptions

    return prepare(
        PrepareOptions(
            inputs=arguments.input,
            output=arguments.output,
            vocabulary=arguments.vocabulary,
            training_vocabulary=VocabularyOptions(
                size=arguments.vocabulary_size,
                min_frequency=arguments.min_frequency,
                unused_tokens=arguments.unused_tokens,
                sample_bytes=arguments.vocabulary_sample_megabytes * 1_000_000,
            ),
            lowercase=not arguments.cased,
            strip_accents=arguments.strip_accents,
            examples=ExampleOptions(
                sequence_length=arguments.sequence_length,
                short_probability=arguments.short_probability,
                single_probability=arguments.single_probability,
                join_documents=arguments.join_documents,
            ),
            held_out=arguments.held_out,
            seed=arguments.seed,
            workers=arguments.workers,
            overwrite=arguments.overwrite,
            text_field=arguments.text_field,
            official=arguments.official,
            shard_bytes=arguments.shard_megabytes << 20,
            runner=arguments.runner,
            runner_arguments=shlex.split(arguments.runner_arguments),
        )
    )


def _start_workers(arguments: argparse.Namespace) -> None:
    """Lets workers import TensorFlow while this process does.

    It looks for the files first, so that a wrong name is an error at once.
    """
    from training.data.hub_datasets import PREFIX
    from training.data.sources import find_sources
    from training.data.worker_server import number_of_workers, start_worker_server

    workers = arguments.workers
    # A data set of the hub is not opened twice for this.
    if not any(path.startswith(PREFIX) for path in arguments.input):
        sources = find_sources(arguments.input)
        workers = workers or number_of_workers(sources)
    if workers is not None and workers > 1:
        start_worker_server()


def _folder(text: str) -> Path | str:
    """Returns a path, or an address as it is: a path would lose a slash of it."""
    return text if "://" in text else Path(text)
