"""What preparation needs from where it runs: one machine, or Apache Beam."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from training.data.chunk_records import ChunkSettings
from training.data.corpus import Source
from training.data.manifest import Shard
from training.data.observations import Observations


@dataclass(frozen=True)
class Outcome:
    """What became of the corpus.

    Attributes:
        counts: documents, tokens, examples, what was odd.
        observations: for the report.
        duplicate_documents: how many repeat an earlier one.
        shards: the files, in the order of split and number.
        token_counts: int64 (V,), how often each id stands in the training examples.
    """

    counts: dict[str, int]
    observations: Observations
    duplicate_documents: int
    shards: Sequence[Shard]
    token_counts: npt.NDArray[np.int64]


class Folder(Protocol):
    """Where the result is made before it gets its final name."""

    @property
    def pieces(self) -> Path | str:
        """Folder for what is needed on the way."""

    @property
    def result(self) -> Path | str:
        """Folder for the files of the result."""

    def begin(self, fingerprint: Mapping[str, Any]) -> bool:
        """Makes the folder ready; tells whether work of a killed run is in it."""

    def read(self, name: str) -> bytes | None:
        """Returns a file of the result, None if it is not there."""

    def write(self, name: str, content: bytes) -> None:
        """Writes a file of the result, under a temporary name first."""

    def publish(self) -> None:
        """Gives the result its final name and removes everything else."""

    def discard(self) -> None:
        """Removes what was made."""

    def close(self) -> None:
        """Lets another process have the folder."""


class Engine(Protocol):
    """Does the work that grows with the corpus."""

    def work_folder(self) -> Folder:
        """Returns where the result is made."""

    def find_sources(self) -> Sequence[Source]:
        """Returns the corpus; called first."""

    def sample_documents(self, capacity: int, folder: Folder) -> list[bytes]:
        """Returns documents of so many bytes together, or all of them.

        Which ones, and their order, depends on the corpus alone.
        """

    def make_records(self, settings: ChunkSettings, folder: Folder) -> Outcome:
        """Writes the shards into `folder`."""
