"""What the quickstart tells at its end: a table, pictures, answers, a verdict."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from lvbert_tf import Architecture
from lvbert_tf.drawing import draw_architecture

MARGIN = 0.10
"""By how much the classifier must beat guessing the most frequent class."""

_FIGURES = {
    "data": ("corpus", "labelled_train", "labelled_held_out"),
    "prepare": ("examples", "held_out_examples", "vocabulary_size"),
    "supernet": ("steps", "loss", "unigram_loss", "accuracy", "examples_per_second"),
    "search": ("best", "evaluations"),
    "pretrain": ("steps", "mlm_accuracy", "discriminator_auc", "tokens_per_second"),
    "finetune": ("median", "majority", "dev_examples"),
    "export": ("saved_model", "onnx"),
    "serve": ("answers",),
}
_NAMES = {"median": "accuracy", "labelled_held_out": "held out"}


def summarize(
    results: Mapping[str, Mapping[str, Any]], run_dir: Path
) -> dict[str, Any]:
    """Returns the quickstart's result from those of its stages.

    Args:
        results: name of the stage to its result with `seconds`.
        run_dir: where they lie; the architecture is drawn into ``figures``.
    """
    winner = results["search"]["best"]["architecture"]
    pattern = results["search"].get("pattern", "?" * len(winner))
    fixed = {i: x for i, x in enumerate(pattern, start=1) if x != "?"}
    draw_architecture(
        Architecture.parse(winner),
        "The architecture that the search found",
        run_dir / "figures" / "architecture.png",
        fixed=fixed,
    )
    fine = results["finetune"]
    pictures = sorted(
        str(path)
        for path in run_dir.rglob("*.png")
        if not path.name.endswith(".partial.png")
    )
    return {
        "passed": fine["median"] >= fine["majority"] + MARGIN,
        "accuracy": fine["median"],
        "majority": fine["majority"],
        "architecture": winner,
        "fixed": {str(position): letter for position, letter in fixed.items()},
        "seconds": math.fsum(result["seconds"] for result in results.values()),
        "stages": dict(results),
        "answers": results["serve"]["answers"],
        "pictures": pictures,
        "model": fine["model"],
        "saved_model": results["export"]["saved_model"]["path"],
        "onnx": results["export"]["onnx"]["path"],
    }


def print_summary(summary: Mapping[str, Any], stream: TextIO) -> None:
    """Prints the table, the pictures and the answers for a person."""
    rows = [
        (name, f"{result['seconds']:.0f}", _figures(name, result))
        for name, result in summary["stages"].items()
    ]
    rows.append(("total", f"{summary['seconds']:.0f}", ""))
    rows.insert(0, ("stage", "seconds", "figures"))
    print(file=stream)
    for name, seconds, figures in rows:
        print(f"{name:<10}{seconds:>8}  {figures}".rstrip(), file=stream)
    print("\npictures:", file=stream)
    for picture in summary["pictures"]:
        print(f"  {picture}", file=stream)
    print("\nserved answers:", file=stream)
    for answer in summary["answers"]:
        shown = ", ".join(
            f"{key} {_shown(value)}" for key, value in answer.items() if key != "text"
        )
        text = answer["text"]
        text = text if len(text) <= 70 else text[:67] + "..."
        print(f"  {shown}: {text}", file=stream)
    if summary["fixed"]:
        places = ", ".join(f"{i}: {x}" for i, x in summary["fixed"].items())
        print(f"\nlayers that were fixed, not found: {places}", file=stream)
    points = 100 * (summary["accuracy"] - summary["majority"])
    print(
        f"\nThe classifier gets {summary['accuracy']:.1%} of the held-out texts right, "
        f"{abs(points):.1f} points {'more' if points >= 0 else 'FEWER'} than the most "
        f"frequent class ({summary['majority']:.1%}): it "
        f"{'PASSES' if summary['passed'] else 'DOES NOT PASS'}, which takes "
        f"{100 * MARGIN:.0f}.",
        file=stream,
    )


def _figures(name: str, result: Mapping[str, Any]) -> str:
    parts = []
    for key in _FIGURES.get(name, ()):
        value = result.get(key)
        if value is None:
            continue
        if isinstance(value, Mapping):
            inner = ("architecture", "loss", "accuracy", "max_abs_difference")
            value = " ".join(_shown(value[k]) for k in inner if k in value)
        elif isinstance(value, list):
            value = len(value)
        parts.append(f"{_NAMES.get(key, key).replace('_', ' ')} {_shown(value)}")
    return ", ".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return str(value)
