"""SavedModels that compute in bfloat16, if their answers stay good enough."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from common.command_line import UsageError
from common.saved_model_session import SavedModelSession
from export.evaluation import Evaluation, MetricDropError
from export.heads import head_of
from export.labelled_examples import read_examples
from export.parity import Case, text_arrays
from export.signatures import SERVING_DEFAULT
from export.task import Task

PRECISIONS = ("float32", "bfloat16")
_FLAGS = ("amx_bf16", "avx512_bf16")
_FACTOR = 4
"""How far an artefact may be from Keras, against what the precision itself moves."""
_SMALLEST = 1e-3
_ROWS = 32


def bfloat16_flags() -> list[str]:
    """Returns which instructions for bfloat16 this CPU has."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="ignore")
    except OSError:
        return []
    words = set(text.split())
    return [flag for flag in _FLAGS if flag in words]


def precision_tolerance(
    served: Any, reference: Any, task: Task, cases: Iterable[Case]
) -> float:
    """Returns how far a bfloat16 artefact may be from Keras in bfloat16.

    Sums in another order differ by about as much as the precision itself moves
    outputs, which is measured: `_FACTOR` times that, relative to outputs larger than 1.

    Args:
        served: the model in bfloat16.
        reference: the same in float32.
        task: what both do.
        cases: token inputs.
    """
    head = head_of(task)
    noise = 0.0
    for case in cases:
        low, high = (
            head.comparable(case.inputs, head.reference(model, task, case.inputs))
            for model in (served, reference)
        )
        for name, values in high.items():
            difference = float(np.abs(low[name] - values).max(initial=0.0))
            noise = max(noise, difference / float(np.abs(values).max(initial=1.0)))
    return max(_SMALLEST, _FACTOR * noise)


def accuracy_gate(
    session: SavedModelSession,
    reference: Any,
    task: Task,
    evaluation_file: Path,
    max_drop: float,
) -> dict[str, Any]:
    """Compares the metric of an artefact with that of the model in float32.

    Args:
        session: the artefact.
        reference: the model in float32.
        task: what both do.
        evaluation_file: TSV file with the columns text, label and, for pairs,
            text_pair.
        max_drop: how many points the metric may fall.

    Returns:
        ``metric``, ``metric_before``, ``metric_after``, ``examples``,
        ``label_agreement`` and ``max_abs_difference``.

    Raises:
        UsageError: if the model is no classifier, or the file won't do.
        MetricDropError: if the metric falls by more.
    """
    from export.heads.base import packed_texts

    if task.kind != "text_classifier":
        raise UsageError(
            "--precision bfloat16: expected a classifier or a regression, whose metric "
            f"--eval can measure. Received: {task.kind}"
        )
    examples = read_examples(
        evaluation_file,
        pairs=task.pairs,
        labels=None if task.regression else task.labels,
    )
    head = head_of(task)
    names = head.text_input_names(task)
    before, after = [], []
    for start in range(0, len(examples), _ROWS):
        columns = list(
            zip(
                *(example.texts for example in examples[start : start + _ROWS]),
                strict=True,
            )
        )
        batch = packed_texts(reference, columns)
        before.append(head.reference(reference, task, batch)["scores"])
        answer = session.run(SERVING_DEFAULT, text_arrays(names, columns))
        after.append(answer["scores"])
    scores = {"before": np.concatenate(before), "after": np.concatenate(after)}
    data = Evaluation(task, examples, (), {})
    metric, metric_before = data.metric(scores["before"])
    _, metric_after = data.metric(scores["after"])
    if not metric_before - metric_after <= max_drop:
        raise MetricDropError(
            f"{metric} falls from {metric_before:.2f} to {metric_after:.2f} on "
            f"{len(examples)} examples, --max-drop {max_drop:g}"
        )
    best = {name: values.argmax(axis=-1) for name, values in scores.items()}
    return {
        "metric": metric,
        "metric_before": metric_before,
        "metric_after": metric_after,
        "examples": len(examples),
        "label_agreement": float(np.mean(best["before"] == best["after"])),
        "max_abs_difference": float(np.abs(scores["before"] - scores["after"]).max()),
    }


def precision_entry(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the manifest says about the precision."""
    return {"precision": {"dtype": "bfloat16", "cpu": bfloat16_flags(), **figures}}
