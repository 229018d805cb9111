"""Labelled texts: those of a table, and a reproducible division of them."""

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from common.files import write_bytes
from common.labelled_tables.examples import TableOptions, read_labelled_table
from training.data.split_rank import split_rank

HEADER = ("text", "label")


@dataclass(frozen=True)
class LabelledText:
    """A text and its class.

    Attributes:
        text: the text.
        label: name of the class.
    """

    text: str
    label: str


def read_labelled(
    path: str | os.PathLike[str], *, quoting: str = "auto"
) -> list[LabelledText]:
    """Reads a table whose header names the columns ``text`` and ``label``.

    Args:
        path: TSV, CSV or JSON lines, by its suffix, maybe compressed.
        quoting: of cells; see `common.labelled_tables.table.read_table`.

    Raises:
        UsageError: naming the file and the lines that are not as expected.
    """
    options = TableOptions(pair_column="", quoting=quoting)
    table = read_labelled_table(Path(path), options)
    return [LabelledText(row.texts[0].strip(), row.label) for row in table.examples]


def write_labelled(path: Path, rows: Iterable[LabelledText]) -> None:
    """Writes the file that `read_labelled` reads; white space becomes single spaces."""
    out = io.StringIO()
    out.write("\t".join(HEADER) + "\n")
    for row in rows:
        out.write(f"{' '.join(row.text.split())}\t{' '.join(row.label.split())}\n")
    write_bytes(path, out.getvalue().encode("utf-8"))


def write_corpus(path: Path, texts: Iterable[str]) -> None:
    """Writes texts as a corpus: a blank line between them, their lines kept."""
    out = io.StringIO()
    for text in texts:
        lines = [line.strip() for line in text.splitlines()]
        out.writelines(f"{line}\n" for line in lines if line)
        out.write("\n")
    write_bytes(path, out.getvalue().encode("utf-8"))


def split_labelled(
    rows: Sequence[LabelledText], held_out: float
) -> tuple[list[LabelledText], list[LabelledText]]:
    """Divides texts into (train, held out) by a hash of the text.

    The same text always falls on the same side, so no duplicate of a held-out text is
    trained on.

    Args:
        rows: labelled texts.
        held_out: share of the second part.

    Raises:
        UsageError: if a part would be empty.
    """
    train: list[LabelledText] = []
    held: list[LabelledText] = []
    for row in rows:
        rank = split_rank("labelled", row.text.encode("utf-8"))
        (held if rank < held_out else train).append(row)
    if not train or not held:
        raise UsageError(
            f"A division of {len(rows)} labelled texts with {held_out:.0%} held out "
            "leaves a part empty. Give more texts."
        )
    return train, held


def label_names(rows: Iterable[LabelledText]) -> list[str]:
    """Returns the classes in alphabetical order: their indices are the class ids."""
    return sorted({row.label for row in rows})
