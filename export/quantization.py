"""Shrinks an ONNX artefact to 8-bit weights, if its answers stay good enough."""

import platform
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from command_line import CommandError, UsageError
from export.labelled_examples import Example, read_examples
from export.manifest import (
    file_entries,
    read_manifest,
    versions,
    write_manifest,
)
from export.model_card import CARD_FILE
from export.onnx_graph import (
    FILES,
    LABELS_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    onnx_outputs,
)
from export.publication import published
from export.row_quantization import quantize_rows
from export.signatures import TOKEN_INPUTS

Array = npt.NDArray[Any]

# Dense layers; embedding tables are quantised by rows.
_QUANTIZED_OPS = ["MatMul"]
_VNNI_FLAGS = ("avx_vnni", "avx512_vnni")
_CPU_FLAGS = ("avx2", "avx512f", *_VNNI_FLAGS)


class MetricDropError(CommandError):
    """The quantised graph is worse than allowed."""


def quantize(
    source: str | Path,
    output: str | Path,
    evaluation: str | Path,
    max_drop: float = 1.0,
    *,
    batch_size: int = 32,
    max_examples: int | None = None,
    reduce_range: bool | None = None,
) -> dict[str, Any]:
    """Writes an artefact with 8-bit weights beside the one it is made from.

    Args:
        source: directory of an ONNX artefact.
        output: the new directory.
        evaluation: TSV file with the columns text, label and, for pairs, text_pair.
        max_drop: how many points the metric may fall. The metric is accuracy, or
            Pearson's correlation for a regression, both in percent.
        batch_size: examples scored at a time.
        max_examples: take only the first ones; None takes all.
        reduce_range: use 7 bits of the 8. Without VNNI instructions, sums of 8-bit
            products saturate and answers differ between CPUs; None decides by this
            machine's CPU, which is right if it also serves.

    Returns:
        What the command prints: ``path``, ``metric``, ``metric_before``,
        ``metric_after``, ``examples``, ``label_agreement`` (share of examples),
        ``max_abs_difference``, ``bytes_before``, ``bytes_after``, ``reduce_range``.

    Raises:
        UsageError: for an argument or a file that won't do.
        CommandError: if the metric falls by more than `max_drop`. Nothing is left
            then.
    """
    source, final = Path(source), Path(output)
    manifest = read_manifest(source)
    if manifest.get("kind") != "onnx" or "quantization" in manifest:
        raise UsageError(f"--onnx: {source}: expected an ONNX artefact in float32")
    task = manifest["task"]
    examples = read_examples(
        Path(evaluation),
        pairs=task["pairs"],
        labels=None if task["regression"] else task["labels"],
    )[:max_examples]
    cpu = cpu_flags()
    if reduce_range is None:
        reduce_range = _needs_reduced_range(cpu)
    batches = list(_token_batches(source, task, examples, batch_size))
    with published(final) as folder:
        _quantize_weights(source / MODEL_FILE, folder / MODEL_FILE, reduce_range)
        for name in (TOKENIZER_FILE, LABELS_FILE):
            shutil.copyfile(source / name, folder / name)
        before = _scores(source / MODEL_FILE, batches)
        after = _scores(folder / MODEL_FILE, batches)
        metric, metric_before = _metric(before, examples, task)
        _, metric_after = _metric(after, examples, task)
        figures = {
            "metric": metric,
            "metric_before": metric_before,
            "metric_after": metric_after,
            "max_drop": max_drop,
            "examples": len(examples),
            "label_agreement": float(
                np.mean(before.argmax(axis=-1) == after.argmax(axis=-1))
            ),
            "max_abs_difference": float(np.abs(before - after).max()),
            "reduce_range": reduce_range,
        }
        if not metric_before - metric_after <= max_drop:
            raise MetricDropError(
                f"{metric} falls from {metric_before:.2f} to {metric_after:.2f} on "
                f"{len(examples)} examples, --max-drop {max_drop:g}"
            )
        manifest["files"] = file_entries(folder, FILES)
        manifest["quantization"] = {**figures, "bits": 8, "cpu": cpu}
        manifest["versions"] = versions()
        write_manifest(folder, manifest)
        _write_card(source, folder, figures)
    return {
        "path": str(final),
        **figures,
        "bytes_before": (source / MODEL_FILE).stat().st_size,
        "bytes_after": manifest["files"][MODEL_FILE]["bytes"],
    }


def _write_card(source: Path, folder: Path, figures: dict[str, Any]) -> None:
    """Writes the source's model card with what quantising changed.

    A source that an older version exported has none; then nothing is written.
    """
    if not (source / CARD_FILE).is_file():
        return
    card = (source / CARD_FILE).read_text(encoding="utf-8")
    card += (
        "\n## 8-bit weights\n\n"
        f"{figures['metric'].capitalize()} on {figures['examples']} examples: "
        f"{figures['metric_before']:.2f} before, {figures['metric_after']:.2f} after; "
        f"scores move by up to {figures['max_abs_difference']:.2g}. What stands above "
        "was measured before, in float32.\n"
    )
    (folder / CARD_FILE).write_text(card, encoding="utf-8")


def cpu_flags() -> list[str]:
    """Returns which of the instructions that matter to 8-bit products this CPU has."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="ignore")
    except OSError:
        return []
    words = set(text.split())
    return [flag for flag in _CPU_FLAGS if flag in words]


def _needs_reduced_range(flags: Sequence[str]) -> bool:
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
    return x86 and not any(flag in flags for flag in _VNNI_FLAGS)


def _quantize_weights(source: Path, target: Path, reduce_range: bool) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = target.with_name("prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantize_dynamic(
        prepared,
        target,
        op_types_to_quantize=_QUANTIZED_OPS,
        per_channel=True,
        weight_type=QuantType.QInt8,
        reduce_range=reduce_range,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    prepared.unlink()
    model = onnx.load(target)
    quantize_rows(model)
    onnx.checker.check_model(model, full_check=True)
    target.write_bytes(model.SerializeToString())


def _token_batches(
    source: Path,
    task: dict[str, Any],
    examples: Sequence[Example],
    batch_size: int,
) -> Iterator[dict[str, Array]]:
    """Turns examples into token inputs with the artefact's own tokenizer."""
    import tensorflow as tf
    import tokenizers

    from lvbert_tf.models.packing import pack_segments

    tokenizer = tokenizers.Tokenizer.from_file(str(source / TOKENIZER_FILE))
    special = tokenizer.get_vocab()
    for start in range(0, len(examples), batch_size):
        columns = zip(
            *(example.texts for example in examples[start : start + batch_size]),
            strict=True,
        )
        segments = [
            tf.ragged.constant(
                [
                    encoding.ids
                    for encoding in tokenizer.encode_batch(
                        list(column), add_special_tokens=False
                    )
                ],
                dtype=tf.int32,
                ragged_rank=1,
            )
            for column in columns
        ]
        packed = pack_segments(
            *segments,
            sequence_length=task["sequence_length"] if task["fixed_length"] else None,
            max_sequence_length=task["sequence_length"],
            cls_token_id=special["[CLS]"],
            sep_token_id=special["[SEP]"],
            pad_token_id=task["pad_token_id"],
        )
        yield {
            name: tensor.numpy()
            for name, tensor in zip(TOKEN_INPUTS, packed, strict=True)
        }


def _scores(model_file: Path, batches: Sequence[dict[str, Array]]) -> Array:
    """Returns float32 (examples, C)."""
    run = onnx_outputs(model_file, SIGNATURE)
    return np.concatenate([run(batch)["scores"] for batch in batches])


def _metric(
    scores: Array, examples: Sequence[Example], task: dict[str, Any]
) -> tuple[str, float]:
    """Returns name and value, in percent, of the metric that suits the task."""
    if not np.isfinite(scores).all():
        raise MetricDropError("the graph gives scores that are not finite")
    if not task["regression"]:
        labels = np.array(task["labels"])[scores.argmax(axis=-1)]
        gold = np.array([example.label for example in examples])
        return "accuracy", 100 * float(np.mean(labels == gold))
    gold = np.array([float(example.label) for example in examples])
    values = scores[:, 0].astype("float64")
    if len(gold) < 2 or np.ptp(gold) == 0 or np.ptp(values) == 0:
        raise UsageError(
            "--eval: expected at least two examples whose labels, and whose scores, "
            "are not all the same: the correlation is undefined"
        )
    return "pearson", 100 * float(np.corrcoef(values, gold)[0, 1])
