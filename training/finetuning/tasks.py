"""The fine-tuning tasks: where their examples are and what measures success."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError

TASK_NAMES = (
    *("cola", "mrpc", "mnli", "sst", "rte", "qnli", "qqp", "sts", "wnli"),
    *("squad1", "squad2", "tsv"),
)
"""Every task that the command knows by name; `TASKS` holds those it can do."""


@dataclass(frozen=True)
class Example:
    """A text, or a pair of texts, with its label.

    Attributes:
        texts: one text or two.
        label: the class.
    """

    texts: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class Task:
    """A classification task.

    Attributes:
        name: as on the command line.
        metric: name of the figure that counts, one of `training.metrics`.
        read_train: training examples of a data directory.
        read_dev: examples of a data directory to measure on.
        epochs: times through the training examples, by default.
    """

    name: str
    metric: str
    read_train: Callable[[Path], list[Example]]
    read_dev: Callable[[Path], list[Example]]
    epochs: int = 3


def find(name: str) -> Task:
    """Returns a task.

    Raises:
        UsageError: if there is no such task yet.
    """
    if name not in TASKS:
        raise UsageError(
            f"--task {name}: not there yet in this version; expected one of "
            f"{', '.join(TASKS)}. `tsv` takes train.tsv and dev.tsv of your own"
        )
    return TASKS[name]


def read_tsv(file: Path) -> list[Example]:
    """Reads a TSV with a header that names `text`, `label` and maybe `text_pair`.

    Quote characters mean nothing: a row is a line, a cell what stands between tabs.

    Args:
        file: the file, UTF-8.

    Raises:
        UsageError: naming the file and the line that is not as expected.
    """
    try:
        lines = file.read_text("utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(
            f"{file}: expected a TSV file with the columns text and label, cannot "
            f"read it: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: expected UTF-8, found byte {error.object[error.start]:#04x} at "
            f"offset {error.start}"
        ) from error
    rows = [line.rstrip("\r").split("\t") for line in lines]
    header = [name.strip() for name in rows[0]]
    if not {"text", "label"} <= set(header):
        raise UsageError(
            f"{file}:1: expected a header with the columns text and label (and "
            f"text_pair for pairs), separated by tabs, found {header}"
        )
    columns = [header.index(n) for n in ("text", "text_pair") if n in header]
    label_column = header.index("label")
    examples = []
    for number, cells in enumerate(rows[1:], start=2):
        if cells == [""]:
            continue
        if len(cells) != len(header):
            raise UsageError(
                f"{file}:{number}: expected {len(header)} columns separated by tabs, "
                f"found {len(cells)}"
            )
        label = cells[label_column].strip()
        if not label:
            raise UsageError(f"{file}:{number}: expected a label, found none")
        examples.append(Example(tuple(cells[c] for c in columns), label))
    if not examples:
        raise UsageError(f"{file}: expected at least one example, found none")
    return examples


def label_names(train: Sequence[Example], dev: Sequence[Example]) -> list[str]:
    """Returns the classes in alphabetical order; their places are the class indices.

    Raises:
        UsageError: if there is only one, or `dev` has one that `train` lacks.
    """
    names = sorted({example.label for example in train})
    if len(names) < 2:
        raise UsageError(
            f"train.tsv: expected at least two different labels, found {names}"
        )
    unknown = sorted({example.label for example in dev} - set(names))
    if unknown:
        raise UsageError(
            f"dev.tsv: expected labels that train.tsv has ({', '.join(names[:10])}), "
            f"found {', '.join(unknown[:10])}"
        )
    if len(train[0].texts) != len(dev[0].texts):
        raise UsageError("dev.tsv: expected the columns of train.tsv, found others")
    return names


TASKS: Mapping[str, Task] = {
    "tsv": Task(
        name="tsv",
        metric="accuracy",
        read_train=lambda directory: read_tsv(directory / "train.tsv"),
        read_dev=lambda directory: read_tsv(directory / "dev.tsv"),
    ),
}
