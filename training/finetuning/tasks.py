"""The fine-tuning tasks: what each predicts and what measures success."""

from collections.abc import Mapping
from dataclasses import dataclass

from common.command_line import UsageError

KINDS = ("classification", "regression", "multi_label", "span")
TABLES = ("tsv", "csv", "jsonl")
"""Tasks that are tables of the user's own, by their format."""


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: as on the command line.
        kind: one of `KINDS`.
        metric: name of the figure that counts.
        epochs: times through the training examples, by default.
        labels: the classes in the order of their indices; None where the training
            examples say which there are.
        both_orders: whether pairs are trained on in both orders.
    """

    name: str
    kind: str
    metric: str
    epochs: int = 3
    labels: tuple[str, ...] | None = None
    both_orders: bool = False


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_METRICS = {
    "classification": "accuracy",
    "regression": "spearman",
    "multi_label": "micro_f1",
    "span": "f1",
}

GLUE: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("cola", "classification", "mcc", labels=_BINARY),
        Task("mrpc", "classification", "accuracy", labels=_BINARY, both_orders=True),
        Task(
            "mnli",
            "classification",
            "accuracy",
            labels=("contradiction", "entailment", "neutral"),
        ),
        Task("sst", "classification", "accuracy", labels=_BINARY),
        Task("rte", "classification", "accuracy", epochs=10, labels=_ENTAILMENT),
        Task("qnli", "classification", "accuracy", labels=_ENTAILMENT),
        Task("qqp", "classification", "accuracy", labels=_BINARY),
        Task("sts", "regression", "spearman", epochs=10, both_orders=True),
        Task("wnli", "classification", "accuracy", labels=_BINARY),
    )
}
SQUAD: Mapping[str, Task] = {
    "squad1": Task("squad1", "span", "f1", epochs=2),
    "squad2": Task("squad2", "span", "f1", epochs=2),
}
TASK_NAMES = (*GLUE, *SQUAD, *TABLES)
"""Every task that the command knows."""


def find(name: str, kind: str = "classification") -> Task:
    """Returns a task.

    Args:
        name: one of `TASK_NAMES`.
        kind: of a table of the user's own.

    Raises:
        UsageError: if there is no such task.
    """
    if name in GLUE:
        return GLUE[name]
    if name in SQUAD:
        return SQUAD[name]
    if name not in TABLES:
        raise UsageError(
            f"--task {name}: expected one of {', '.join(TASK_NAMES)}, found {name!r}"
        )
    return Task(name, kind, _METRICS[kind], epochs=2 if kind == "span" else 3)
