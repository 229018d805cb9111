"""What to prepare and how: the options of ``python -m training prepare``, checked."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from lvbert_tf.version import __version__
from lvbert_tf.vocabulary import Duplicates, read_vocabulary, vocabulary_sha256
from training.data.chunk_records import ChunkSettings
from training.data.chunk_tokenizer import TokenizerSettings
from training.data.corpus import Source
from training.data.examples import ExampleOptions
from training.data.manifest import FORMAT
from training.data.vocabulary_training import VocabularyOptions

SHARD_BYTES = 64 << 20
_PIECES_FORMAT = 3
"""Of what a killed run leaves; another release may not be able to go on with it."""


@dataclass(frozen=True)
class PrepareOptions:
    """What to prepare and how.

    Attributes:
        inputs: files, folders, glob patterns, names of data sets (``hf:NAME``), or, on
            Beam, addresses.
        output: the data directory to make; on Beam it may be an address.
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
        runner: the Beam runner to use; None uses processes of this machine.
        runner_arguments: options of the Beam pipeline, as its runner documents them.
    """

    inputs: Sequence[str]
    output: Path | str
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
    runner: str | None = None
    runner_arguments: Sequence[str] = ()

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
        if self.runner is not None and self.workers is not None:
            raise UsageError(
                "--workers is for one machine. With --runner give the runner's own "
                "option in --runner-arguments."
            )
        if self.runner is None and self.runner_arguments:
            raise UsageError("--runner-arguments needs --runner.")

    @property
    def duplicates(self) -> Duplicates:
        """What a repeated entry of the vocabulary means."""
        return "last" if self.official else "error"

    def given_vocabulary(self) -> list[str] | None:
        """Reads the vocabulary file, if there is one.

        Raises:
            UsageError: naming file and line of what is wrong in it.
        """
        if self.vocabulary is None:
            return None
        try:
            return read_vocabulary(self.vocabulary, self.duplicates)
        except OSError as error:
            raise UsageError(
                f"--vocabulary {self.vocabulary}: {error.strerror}."
            ) from error
        except ValueError as error:
            raise UsageError(f"--vocabulary: {error}") from error

    def chunk_settings(self, vocabulary: Sequence[str]) -> ChunkSettings:
        """Returns what a worker must know."""
        return ChunkSettings(
            tokenizer=TokenizerSettings(
                vocabulary=tuple(vocabulary),
                lowercase=self.lowercase,
                strip_accents=self.strip_accents,
                duplicates=self.duplicates,
            ),
            examples=self.examples,
            held_out=self.held_out,
            seed=self.seed,
            official=self.official,
        )

    def stored(self) -> dict[str, Any]:
        """Returns the options that the content of the result depends on."""
        return {
            **asdict(self.examples),
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "duplicates": self.duplicates,
            "held_out": self.held_out,
            "seed": self.seed,
            "official": self.official,
            "shard_bytes": self.shard_bytes,
            "trained_vocabulary": (
                None
                if self.vocabulary is not None
                else asdict(self.training_vocabulary)
            ),
        }

    def fingerprint(
        self, sources: Sequence[Source], given: Sequence[str] | None
    ) -> dict[str, Any]:
        """Returns everything that the work of a killed run depends on.

        Args:
            sources: the corpus.
            given: the vocabulary, if it was given.
        """
        return {
            "format": FORMAT,
            "pieces": _PIECES_FORMAT,
            "version": __version__,
            "options": self.stored(),
            "text_field": self.text_field,
            "vocabulary": None if given is None else vocabulary_sha256(given),
            "sources": [source.identity() for source in sources],
        }

    def empty(self) -> UsageError:
        """Returns the error for a corpus without text."""
        return UsageError(
            f"--input {' '.join(self.inputs)}: the corpus is empty: no document in it "
            "has any text."
        )
