"""Preparation on Apache Beam: any runner, the shards that one machine would make."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions, TypeOptions

from common.command_line import CommandError, UsageError
from training.data import beam_transforms as transforms
from training.data.beam_files import (
    RemoteFolder,
    is_address,
    read_remote,
    remote_files,
)
from training.data.chunk_records import ChunkSettings
from training.data.corpus import Source, grouped
from training.data.engine import Folder, Outcome
from training.data.manifest import SPLITS, Shard
from training.data.observations import Observations
from training.data.pieces import entries
from training.data.prepare_options import PrepareOptions
from training.data.sources import find_sources
from training.data.work_folder import WorkFolder


class BeamEngine:
    """The engine for a corpus too large for one machine.

    This process finds the files, starts two pipelines (one for the vocabulary, unless
    it is given, and one for the records) and writes report and index. The runner
    repeats what fails; a run that was killed begins again.

    Args:
        options: what to prepare.

    Raises:
        UsageError: for a runner or pipeline options that Beam doesn't take.
    """

    def __init__(self, options: PrepareOptions) -> None:
        self._options = options
        self._sources: list[Source] = []
        self._scratch = ""
        if options.runner is None:
            raise UsageError("--runner: expected the name of a Beam runner.")
        arguments = [f"--runner={options.runner}", *options.runner_arguments]
        try:
            self._pipeline_options = PipelineOptions(arguments)
            # Our annotations are mypy's to check; Beam takes protocols for classes.
            self._pipeline_options.view_as(TypeOptions).pipeline_type_check = False
            beam.runners.create_runner(options.runner)
        except (ValueError, ImportError, SystemExit) as error:
            raise UsageError(f"--runner {options.runner}: {error}") from error

    def work_folder(self) -> Folder:
        """Returns a hidden folder beside the output, or the output's address."""
        output = str(self._options.output)
        if is_address(output):
            return RemoteFolder(output, self._options.overwrite)
        return WorkFolder(Path(output).absolute(), self._options.overwrite)

    def find_sources(self) -> Sequence[Source]:
        """Returns files of this machine (which the workers must see) and others."""
        for given in self._options.inputs:
            if is_address(given):
                self._sources += remote_files(given)
            else:
                self._sources += find_sources([given])
        return self._sources

    def sample_documents(self, capacity: int, folder: Folder) -> list[bytes]:
        """Runs a pipeline that draws the sample."""
        path = f"{folder.pieces}/sample"
        with self._pipeline() as pipeline:
            _ = (
                pipeline
                | "corpus" >> self._read()
                | "sample" >> beam.CombineGlobally(transforms.SampleDocuments(capacity))
                | "write" >> beam.Map(transforms.write_documents, path)
            )
        return [document for _, document in entries(read_remote(path))]

    def make_records(self, settings: ChunkSettings, folder: Folder) -> Outcome:
        """Runs the pipeline that writes the shards."""
        path = f"{folder.pieces}/outcome.json"
        result = str(folder.result)
        shard_bytes = self._options.shard_bytes
        with self._pipeline() as pipeline:
            made = (
                pipeline
                | "corpus" >> self._read()
                | "pieces"
                >> beam.ParDo(transforms.MakePieces(settings)).with_outputs(
                    "counts", "observations", "hashes", "tokens", main="pieces"
                )
            )
            totals = (
                made.pieces
                | "bytes" >> beam.FlatMap(transforms.split_bytes)
                | "total bytes" >> beam.CombinePerKey(sum)
            )
            shards = (
                made.pieces
                | "to shards"
                >> beam.FlatMap(
                    transforms.to_shards, beam.pvalue.AsDict(totals), shard_bytes
                )
                | "shuffle" >> beam.GroupByKey()
                | "write shards" >> beam.Map(transforms.write_shard, result)
            )
            counts = made.counts | beam.CombineGlobally(transforms.SumCounts())
            observations = made.observations | "report" >> beam.CombineGlobally(
                transforms.GatherObservations()
            )
            tokens = made.tokens | "token counts" >> beam.CombineGlobally(
                transforms.SumTokenCounts(len(settings.tokenizer.vocabulary))
            )
            distinct = (
                made.hashes
                | "distinct documents" >> beam.Distinct()
                | "number of documents" >> beam.combiners.Count.Globally()
            )
            _ = (
                pipeline
                | "once" >> beam.Create([None])
                | "write outcome"
                >> beam.Map(
                    transforms.write_outcome,
                    path,
                    beam.pvalue.AsSingleton(counts),
                    beam.pvalue.AsSingleton(observations),
                    beam.pvalue.AsSingleton(distinct),
                    beam.pvalue.AsList(shards),
                    beam.pvalue.AsSingleton(tokens),
                )
            )
        return _outcome(json.loads(read_remote(path)))

    def _read(self) -> transforms.ReadChunks:
        options = self._options
        groups = grouped(self._sources, options.official)
        return transforms.ReadChunks(groups, options.text_field, options.official)

    def _pipeline(self) -> "_Pipeline":
        return _Pipeline(self._pipeline_options)


class _Pipeline:
    """A pipeline that runs to its end, and whose errors are ours."""

    def __init__(self, options: PipelineOptions) -> None:
        self._pipeline = beam.Pipeline(options=options)

    def __enter__(self) -> Any:
        return self._pipeline

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            return
        try:
            self._pipeline.run().wait_until_finish()
        except (UsageError, CommandError):
            raise
        except Exception as failure:
            if (ours := _cause(failure)) is not None:
                raise ours from failure
            raise CommandError(f"The Beam pipeline failed: {failure}") from failure


def _cause(failure: BaseException | None) -> UsageError | None:
    """Returns the error of ours that a runner wrapped, if it was one.

    Runners keep the text of an error, not always its class.
    """
    while failure is not None:
        if isinstance(failure, UsageError):
            return failure
        failure = failure.__cause__ or failure.__context__
    return None


def _outcome(stored: dict[str, Any]) -> Outcome:
    observations = Observations()
    observations.add(stored["observations"])
    counts = stored["counts"]
    shards = [Shard(**shard) for shard in stored["shards"]]
    return Outcome(
        counts=counts,
        observations=observations,
        duplicate_documents=counts.get("documents", 0) - stored["distinct_documents"],
        token_counts=np.array(stored["token_counts"], np.int64),
        shards=sorted(
            shards, key=lambda shard: (SPLITS.index(shard.split), shard.file)
        ),
    )
