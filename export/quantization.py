"""Shrinks an ONNX artefact to 8-bit weights, if its answers stay good enough."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from common.command_line import UsageError
from common.model_card import CARD_FILE
from export.evaluation import Evaluation, MetricDropError, evaluation, token_batches
from export.labelled_examples import read_examples, read_texts
from export.manifest import file_entries, read_manifest, versions, write_manifest
from export.onnx_parity import (
    FILES,
    LABELS_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    onnx_outputs,
)
from export.publication import published
from export.quantized_parts import (
    OTHER,
    Quantizer,
    cpu_flags,
    needs_reduced_range,
    products_by_letter,
)
from export.signatures import onnx_signature
from export.task import Task
from export.timing import interleaved

Array = npt.NDArray[Any]

SLOWER = 1.02
"""A letter whose 8-bit products take the whole graph longer than this times its time
in float32 stays in float32, unless it is asked for."""
_CALIBRATION_EXAMPLES = 256


def quantize(
    source: str | Path,
    output: str | Path,
    evaluation_file: str | Path,
    max_drop: float = 1.0,
    *,
    method: str = "dynamic",
    calibration_file: str | Path | None = None,
    letters: str = "auto",
    batch_size: int = 32,
    max_examples: int | None = None,
    sequence_length: int | None = None,
    reduce_range: bool | None = None,
) -> dict[str, Any]:
    """Writes an artefact with 8-bit weights beside the one it is made from.

    Args:
        source: directory of an ONNX artefact.
        output: the new directory.
        evaluation_file: TSV file with the columns text, label and, for pairs,
            text_pair.
        max_drop: how many points the metric may fall. The metric is accuracy, or
            Pearson's correlation for a regression, both in percent.
        method: ``"dynamic"`` or ``"static"``, see `Quantizer`.
        calibration_file: texts that static scales are taken from, one a line; None
            takes the first examples of `evaluation_file`.
        letters: letters of the layers to quantise; ``"auto"``: those that do not lose
            time here; ``"all"``.
        batch_size: examples scored at a time.
        max_examples: take only the first ones; None takes all.
        sequence_length: tokens of the input that latencies are measured with; None
            takes the median of the examples.
        reduce_range: use 7 bits of the 8. Without VNNI instructions, sums of 8-bit
            products saturate and answers differ between CPUs; None decides by this
            machine's CPU, which is right if it also serves.

    Returns:
        What the command prints: ``path``, ``metric``, ``metric_before``,
        ``metric_after``, ``examples``, ``label_agreement`` (share of examples),
        ``max_abs_difference``, ``latency_ms_before``, ``latency_ms_after``,
        ``latency_ratio``, ``letters`` (a row a letter: what quantising it alone costs
        and gains), ``bytes_before``, ``bytes_after``, ``reduce_range`` ...

    Raises:
        UsageError: for an argument or a file that won't do.
        CommandError: if the metric falls by more than `max_drop`. Nothing is left
            then.
    """
    source, final = Path(source), Path(output)
    manifest = read_manifest(source)
    if manifest.get("kind") != "onnx" or "quantization" in manifest:
        raise UsageError(f"--onnx: {source}: expected an ONNX artefact in float32")
    task = Task(**manifest["task"])
    if task.kind != "text_classifier":
        raise UsageError(
            f"--onnx: {source}: expected a classifier or a regression, whose metric "
            f"--eval can measure. Received: {task.kind}"
        )
    examples = read_examples(
        Path(evaluation_file),
        pairs=task.pairs,
        labels=None if task.regression else task.labels,
    )[:max_examples]
    cpu = cpu_flags()
    if reduce_range is None:
        reduce_range = needs_reduced_range(cpu)
    groups = products_by_letter(source / MODEL_FILE)
    chosen = _asked(letters, groups)
    data = evaluation(source, task, examples, batch_size, sequence_length)
    calibrated = (
        examples[:_CALIBRATION_EXAMPLES]
        if calibration_file is None
        else read_texts(Path(calibration_file), pairs=task.pairs)
    )
    calibration = (
        list(token_batches(source, task, calibrated, batch_size))
        if method == "static"
        else []
    )
    quantizer = Quantizer(source / MODEL_FILE, method, reduce_range, calibration)
    with published(final) as folder:
        before = data.scores(source / MODEL_FILE)
        rows = _letter_rows(quantizer, groups, data, before)
        if chosen is None:
            chosen = {row["letter"] for row in rows if row["latency_ratio"] <= SLOWER}
        for row in rows:
            row["quantized"] = row["letter"] in chosen
        nodes = [
            name
            for letter, names in groups.items()
            if letter in chosen or letter == OTHER
            for name in names
        ]
        quantizer.write(folder / MODEL_FILE, nodes, tables=True)
        for name in (TOKENIZER_FILE, LABELS_FILE):
            shutil.copyfile(source / name, folder / name)
        measured = _measured(source / MODEL_FILE, folder / MODEL_FILE, data, before)
        figures = {
            **measured,
            "max_drop": max_drop,
            "examples": len(examples),
            "method": method,
            "calibration_examples": len(calibrated) if method == "static" else 0,
            "reduce_range": reduce_range,
            "letters": rows,
        }
        drop = figures["metric_before"] - figures["metric_after"]
        if not drop <= max_drop:
            raise MetricDropError(
                f"{figures['metric']} falls from {figures['metric_before']:.2f} to "
                f"{figures['metric_after']:.2f} on {len(examples)} examples, "
                f"--max-drop {max_drop:g}"
            )
        manifest["files"] = file_entries(folder, FILES)
        manifest["quantization"] = {**figures, "bits": 8, "cpu": cpu}
        manifest["versions"] = versions()
        write_manifest(folder, manifest)
        _write_card(source, folder, figures)
    return {"path": str(final), **figures}


def _asked(letters: str, groups: Mapping[str, object]) -> set[str] | None:
    """Returns the letters that were asked for; None: to be measured.

    Raises:
        UsageError: if the model has no such layers.
    """
    known = set(groups) - {OTHER}
    if letters == "auto":
        return None
    if letters == "all":
        return known
    if not letters or set(letters) - known:
        raise UsageError(
            f"--letters: expected auto, all, or letters of {''.join(sorted(known))}, "
            f"which this model has. Received: {letters!r}"
        )
    return set(letters)


def _letter_rows(
    quantizer: Quantizer,
    groups: Mapping[str, list[str]],
    data: Evaluation,
    before: Array,
) -> list[dict[str, Any]]:
    """Returns what quantising the layers of each letter alone costs and gains."""
    rows = []
    with TemporaryDirectory() as folder:
        target = Path(folder) / MODEL_FILE
        for letter in sorted(set(groups) - {OTHER}):
            quantizer.write(target, groups[letter], tables=False)
            measured = _measured(quantizer.source, target, data, before)
            rows.append({"letter": letter, "products": len(groups[letter]), **measured})
    return rows


def _measured(
    float_file: Path, file: Path, data: Evaluation, before: Array
) -> dict[str, Any]:
    """Returns metric, agreement, size and latency of a graph beside the float32 one."""
    after = data.scores(file)
    metric, metric_before = data.metric(before)
    _, metric_after = data.metric(after)
    signature = onnx_signature(data.task)
    runs = {
        name: onnx_outputs(path, signature)
        for name, path in (("before", float_file), ("after", file))
    }
    times = interleaved({name: partial(run, data.single) for name, run in runs.items()})
    return {
        "metric": metric,
        "metric_before": metric_before,
        "metric_after": metric_after,
        "label_agreement": float(
            np.mean(before.argmax(axis=-1) == after.argmax(axis=-1))
        ),
        "max_abs_difference": float(np.abs(before - after).max()),
        "bytes_before": float_file.stat().st_size,
        "bytes_after": file.stat().st_size,
        "latency_tokens": data.single["input_ids"].shape[1],
        "latency_ms_before": times["before"].milliseconds,
        "latency_ms_after": times["after"].milliseconds,
        "latency_ratio": times["after"].ratio,
    }


def _write_card(source: Path, folder: Path, figures: dict[str, Any]) -> None:
    """Writes the source's model card with what quantising changed.

    A source that an older version exported has none; then nothing is written.
    """
    if not (source / CARD_FILE).is_file():
        return
    kept = [row["letter"] for row in figures["letters"] if not row["quantized"]]
    stays = f" Layers {', '.join(kept)} stay in float32." if kept else ""
    card = (source / CARD_FILE).read_text(encoding="utf-8")
    card += (
        "\n## 8-bit weights\n\n"
        f"{figures['metric'].capitalize()} on {figures['examples']} examples: "
        f"{figures['metric_before']:.2f} before, {figures['metric_after']:.2f} after; "
        f"scores move by up to {figures['max_abs_difference']:.2g}. One text of "
        f"{figures['latency_tokens']} tokens took {figures['latency_ratio']:.2f} times "
        f"as long as in float32 on the machine that made it.{stays} What stands above "
        "was measured before, in float32.\n"
    )
    (folder / CARD_FILE).write_text(card, encoding="utf-8")
