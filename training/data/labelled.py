"""Labelled texts: a TSV file of the user's own, and a reproducible division of it."""

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from common.files import write_bytes
from training.data.compression import decompressed, split_suffixes
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


def read_labelled(path: str | os.PathLike[str]) -> list[LabelledText]:
    """Reads a TSV file whose header names the columns ``text`` and ``label``.

    Quote characters mean nothing: a row is a line, a cell what is between tabs. Other
    columns are ignored. The file may be compressed (.gz, .bz2, .xz, .zst).

    Raises:
        UsageError: naming the file and the line that is not as expected.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file. Expected a TSV with columns text, label."
        )
    rows: list[LabelledText] = []
    with path.open("rb") as raw:
        stream = decompressed(raw, split_suffixes(path.name)[1])
        header: list[str] | None = None
        for number, line in enumerate(stream, start=1):
            cells = line.decode("utf-8", "ignore").rstrip("\r\n").split("\t")
            where = f"{path}:{number}"
            if header is None:
                header = [cell.strip().lstrip("\ufeff") for cell in cells]
                for name in HEADER:
                    if name not in header:
                        raise UsageError(
                            f"{where}: expected a header with the columns text and "
                            f"label, separated by a tab. Received: {header}."
                        )
                columns = [header.index(name) for name in HEADER]
                continue
            if cells == [""]:
                continue
            if len(cells) != len(header):
                raise UsageError(
                    f"{where}: expected {len(header)} columns separated by tabs, as in "
                    f"the header. Received: {len(cells)}."
                )
            text, label = (cells[column].strip() for column in columns)
            for name, value in zip(HEADER, (text, label), strict=True):
                if not value:
                    raise UsageError(f"{where}: the column {name!r} is empty.")
            rows.append(LabelledText(text, label))
    if not rows:
        raise UsageError(f"{path}: the file has no row below its header.")
    return rows


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
