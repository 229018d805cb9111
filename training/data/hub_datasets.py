"""Reads data sets of the Hugging Face hub by name, through the `datasets` library."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from common.command_line import UsageError
from training.data.document_formats import divided, to_bytes

PREFIX = "hf:"
_FORM = "hf:NAME, hf:NAME:CONFIGURATION or hf:NAME:CONFIGURATION:SPLIT"


@dataclass(frozen=True)
class HubDataset:
    """One shard of a data set; it is streamed, never downloaded as a whole.

    Attributes:
        path: the name on the hub, or a folder of files.
        configuration: which variant; None for the only one.
        split: which split.
        version: a hash that the library gives to the data.
        shard: number of the shard.
        shards: how many the data set has.
    """

    path: str
    configuration: str | None
    split: str
    version: str
    shard: int
    shards: int

    @property
    def name(self) -> str:
        """How messages call it."""
        parts = [self.path, self.configuration or "", self.split]
        return f"{PREFIX}{':'.join(parts)}"

    @property
    def size(self) -> int:
        """Unknown."""
        return 0

    @property
    def alone(self) -> bool:
        """A shard is a group: sizes, by which files are grouped, are unknown."""
        return True

    def identity(self) -> list[Any]:
        """Name, version and shard."""
        return [self.name, self.version, self.shard, self.shards]

    def documents(
        self, text_field: str, on_read: Callable[[int], None]
    ) -> Iterator[bytes]:
        """Reads the texts of the shard's rows.

        Raises:
            UsageError: for a column that is missing or isn't text.
        """
        import datasets

        rows = datasets.load_dataset(
            self.path, self.configuration, split=self.split, streaming=True
        ).shard(num_shards=self.shards, index=self.shard)
        for index, row in enumerate(rows):
            text = row.get(text_field)
            if text is None and text_field in row:
                continue
            if not isinstance(text, str):
                raise UsageError(
                    f"{self.name}, shard {self.shard}, row {index}: expected text in "
                    f"column {text_field!r} (--text-field). Received: "
                    f"{ {key: type(value).__name__ for key, value in row.items()} }."
                )
            document = to_bytes(text)
            if document and not document.isspace():
                yield from divided(document)


def hub_sources(given: str) -> list[HubDataset]:
    """Returns the shards of the data set that an input names.

    Args:
        given: ``hf:NAME``, ``hf:NAME:CONFIGURATION`` or
            ``hf:NAME:CONFIGURATION:SPLIT``; the split is ``train`` if not given.

    Raises:
        UsageError: if the library isn't installed or finds no such data set.
    """
    path, *rest = given.removeprefix(PREFIX).split(":")
    if not path or len(rest) > 2:
        raise UsageError(f"--input {given}: expected {_FORM}.")
    configuration = rest[0] if rest and rest[0] else None
    split = rest[1] if len(rest) == 2 else "train"
    try:
        import datasets
    except ImportError as error:
        raise UsageError(
            f"--input {given}: needs the Hugging Face library, which is not installed. "
            "Install it with: pip install datasets (the extra 'datasets')."
        ) from error
    try:
        builder = datasets.load_dataset_builder(path, configuration)
        rows = datasets.load_dataset(path, configuration, split=split, streaming=True)
    except (OSError, ValueError) as error:  # the library's own errors are of these
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--input {given}: {type(error).__name__}: {reason}"
        ) from error
    return [
        HubDataset(
            path, configuration, split, str(builder.hash), shard, rows.num_shards
        )
        for shard in range(rows.num_shards)
    ]
