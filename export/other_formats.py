"""Models as single files: ``.keras``, safetensors and LiteRT, each read back."""

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.command_line import CommandError, UsageError
from export.heads import head_of
from export.parity import ONNX_TOLERANCE, Comparison, token_case
from export.signatures import TOKEN_INPUTS
from export.task import Task, describe_task

Array = npt.NDArray[Any]
_ALIGNMENT = 8


def write_keras(model: Any, file: Path) -> dict[str, Any]:
    """Writes a ``.keras`` file, which `keras.models.load_model` reads.

    Raises:
        CommandError: if what is read back has other weights.
    """
    import keras

    whole = (
        getattr(model, "backbone", model)
        if model.__class__.__name__ == ("TextEncoder")
        else model
    )

    def write(path: Path) -> None:
        whole.save(path)
        loaded = keras.models.load_model(path, compile=False)
        for own, other in zip(whole.weights, loaded.weights, strict=True):
            if not np.array_equal(own.numpy(), other.numpy()):
                raise CommandError(f"{file}: {own.path} was read back otherwise")

    return _written(file, ".keras", write)


def write_safetensors(model: Any, file: Path) -> dict[str, Any]:
    """Writes all weights by their paths, with the backbone's configuration.

    The format is a length, a JSON header and bytes; the header's metadata has
    ``class`` and ``backbone``, the constructor's arguments as JSON.

    Raises:
        CommandError: if what is read back differs.
    """
    arrays = {weight.path: np.asarray(weight.numpy()) for weight in model.weights}
    metadata = {
        "class": type(model).__name__,
        "backbone": json.dumps(model.backbone.get_config(), default=str),
    }

    def write(path: Path) -> None:
        path.write_bytes(safetensors_bytes(arrays, metadata))
        found = read_safetensors(path)
        for name, array in arrays.items():
            if not np.array_equal(found[name], array):
                raise CommandError(f"{file}: {name} was read back otherwise")

    return _written(file, ".safetensors", write)


def safetensors_bytes(
    arrays: Mapping[str, Array], metadata: Mapping[str, str]
) -> bytes:
    """Returns a safetensors file of float32 arrays, sorted by name."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    position, parts = 0, []
    for name in sorted(arrays):
        content = np.ascontiguousarray(arrays[name], "<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(arrays[name].shape),
            "data_offsets": [position, position + len(content)],
        }
        position += len(content)
        parts.append(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def read_safetensors(path: Path) -> dict[str, Array]:
    """Returns the arrays of a file that `safetensors_bytes` made."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    start = 8 + length
    return {
        name: np.frombuffer(
            content[
                start + entry["data_offsets"][0] : start + entry["data_offsets"][1]
            ],
            "<f4",
        ).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def write_litert(
    model: Any, file: Path, pairs: bool, sequence_length: int | None
) -> dict[str, Any]:
    """Writes a LiteRT file for one text of a fixed number of tokens.

    Args:
        model: a classifier or a regression.
        file: the file to write.
        pairs: whether it takes pairs of texts.
        sequence_length: tokens of the input; None takes the preprocessor's.

    Raises:
        UsageError: for a model or a length that won't do.
        CommandError: if it cannot be converted, or differs from Keras.
    """
    task = describe_task(model, pairs)
    length = sequence_length or task.sequence_length
    if task.kind != "text_classifier":
        raise UsageError(
            "--format litert: expected a classifier or a regression: heads of other "
            f"kinds were never run there. Received: {task.kind}"
        )
    if task.fixed_length and length != task.sequence_length:
        raise UsageError(
            f"--sequence-length: this model computes at {task.sequence_length} tokens "
            f"only. Received: {length}"
        )
    if length > task.longest_input:
        raise UsageError(
            f"--sequence-length: expected at most {task.longest_input}. "
            f"Received: {length}"
        )
    comparison = Comparison(ONNX_TOLERANCE)

    def write(path: Path) -> None:
        path.write_bytes(_converted(model, task, length))
        _compare(path, model, task, length, comparison)

    result = _written(file, ".tflite", write)
    return {
        **result,
        "batch": 1,
        "sequence_length": length,
        "max_abs_difference": comparison.max_abs_difference,
        "tolerance": comparison.tolerance,
    }


def _converted(model: Any, task: Task, length: int) -> bytes:
    import tensorflow as tf

    from export.inference_graph import InferenceGraph

    graph = InferenceGraph(model, task)
    function = tf.function(
        lambda **inputs: graph.outputs(inputs), autograph=False
    ).get_concrete_function(
        **{name: tf.TensorSpec([1, length], tf.int32, name) for name in TOKEN_INPUTS}
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], graph)
    try:
        content: bytes = converter.convert()
    except Exception as error:  # the converter's own exceptions have no common base
        reason = str(error).splitlines()[0]
        raise CommandError(f"LiteRT cannot hold this model: {reason}") from error
    return content


def _compare(
    path: Path, model: Any, task: Task, length: int, comparison: Comparison
) -> None:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    generator = np.random.default_rng(0)
    head = head_of(task)
    for used in sorted({1, max(1, length // 2), length}):
        mask = (np.arange(length)[None] < used).astype("int32")
        ids = generator.integers(0, task.vocabulary_size, (1, length)) * mask
        ids = np.where(mask > 0, ids, task.pad_token_id).astype("int32")
        batch = {"input_ids": ids, "segment_ids": ids * 0, "padding_mask": mask}
        case = token_case(f"{used} of {length} tokens", model, task, batch)
        for detail in interpreter.get_input_details():
            (name,) = (name for name in TOKEN_INPUTS if name in detail["name"])
            interpreter.set_tensor(detail["index"], batch[name])
        interpreter.invoke()
        (output,) = interpreter.get_output_details()
        outputs = {"scores": np.asarray(interpreter.get_tensor(output["index"]))}
        comparison.add(case, head.comparable(case.inputs, outputs))
    comparison.verify()


def _written(file: Path, suffix: str, write: Callable[[Path], None]) -> dict[str, Any]:
    """Writes a file under another name, then renames it.

    Raises:
        UsageError: if it exists, or has another suffix.
    """
    if file.suffix != suffix:
        raise UsageError(
            f"--output: expected a name ending in {suffix}. Received: {file.name}"
        )
    if file.exists():
        raise UsageError(f"--output: {file} exists. Expected a new file")
    file.parent.mkdir(parents=True, exist_ok=True)
    # Keras goes by the suffix.
    partial = file.with_name(f".{os.getpid()}-{file.name}")
    try:
        write(partial)
        partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)
    return {"path": str(file), "bytes": file.stat().st_size}
