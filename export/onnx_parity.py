"""Compares an ONNX artefact with Keras: scores, and ids of its tokenizer."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from common.command_line import CommandError
from export.heads import head_of
from export.manifest import other_model, read_manifest
from export.noise import measured_tolerance
from export.parity import (
    ONNX_TOLERANCE,
    Comparison,
    TokenMismatchError,
    reference_texts,
    token_cases,
)
from export.signatures import Signature, onnx_signature
from export.task import Task, describe_task
from export.vocabulary_cases import vocabulary_cases

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
LABELS_FILE = "labels.json"
FILES = (MODEL_FILE, TOKENIZER_FILE, LABELS_FILE)

Array = npt.NDArray[Any]


def compare_onnx(
    model_file: Path, model: Any, task: Task, tolerance: float | None
) -> Comparison:
    """Compares an ONNX graph with Keras over several shapes, and every id.

    Raises:
        ParityError: if they cannot be compared. Whether scores differ too much,
            `Comparison.verify` says.
        CommandError: if onnxruntime can't load it.
    """
    run = onnx_outputs(model_file, onnx_signature(task))
    cases = token_cases(model, task)
    if tolerance is None:
        tolerance = measured_tolerance(model, task, cases, ONNX_TOLERANCE)
    comparison = Comparison(tolerance)
    head = head_of(task)
    for case in (*cases, *vocabulary_cases(model, task)):
        comparison.add(case, head.comparable(case.inputs, run(case.inputs)))
    return comparison


def onnx_outputs(
    model_file: Path, signature: Signature, threads: int = 0
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """Loads an ONNX graph and returns a function from token inputs to outputs.

    Args:
        model_file: the graph.
        signature: what it should take and give.
        threads: of onnxruntime; 0 takes as many as there are cores.

    Raises:
        CommandError: if onnxruntime can't load it, or its inputs have other names.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(
            str(model_file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its exceptions have no common base but this
        raise CommandError(f"{model_file}: onnxruntime cannot load it: {error}") from (
            error
        )
    inputs = [tensor.name for tensor in signature.inputs]
    outputs = [tensor.name for tensor in signature.outputs]
    found = sorted(value.name for value in session.get_inputs())
    if found != sorted(inputs):
        raise CommandError(
            f"{model_file}: expected the inputs {sorted(inputs)}. Received: {found}"
        )

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        feeds = {name: arrays[name].astype("int64") for name in inputs}
        return dict(zip(outputs, session.run(outputs, feeds), strict=True))

    return run


def compare_tokenizer(tokenizer_file: Path, model: Any, task: Task) -> None:
    """Compares the ids of ``tokenizer.json`` with those of the Keras tokenizer.

    Raises:
        TokenMismatchError: naming the first text with other ids.
    """
    import tokenizers

    keras_tokenizer = model.preprocessor.tokenizer
    texts = reference_texts(keras_tokenizer.get_vocabulary(), task.sequence_length)
    portable = tokenizers.Tokenizer.from_str(tokenizer_file.read_text(encoding="utf-8"))
    expected: Iterable[Any] = keras_tokenizer.tokenize(texts)
    encodings = portable.encode_batch(texts, add_special_tokens=False)
    for text, ids, encoding in zip(texts, expected, encodings, strict=True):
        if list(map(int, ids)) != encoding.ids:
            raise TokenMismatchError(
                f"{tokenizer_file.name} gives other ids than Keras for {text[:60]!r}: "
                f"expected {list(map(int, ids))[:20]}. Received: {encoding.ids[:20]}"
            )


def check_onnx(
    directory: Path, model: Any, tolerance: float | None = None
) -> Comparison:
    """Compares a stored artefact with Keras, its checksums first.

    Args:
        directory: what `export_onnx` wrote.
        model: the model.
        tolerance: largest difference of scores; None measures the model's noise.

    Raises:
        CommandError: if a file is missing or altered, labels or token ids differ, or
            the scores cannot be compared.
    """
    manifest = read_manifest(directory)
    task = describe_task(model, manifest["task"]["pairs"])
    kind = manifest["task"].get("kind", task.kind)
    if kind != task.kind:
        raise CommandError(
            f"{directory}: expected a model of kind {task.kind}. Received: {kind}"
        )
    labels = json.loads((directory / LABELS_FILE).read_text(encoding="utf-8"))
    if labels != list(task.labels):
        raise CommandError(
            f"{directory / LABELS_FILE}: expected {list(task.labels)}. "
            f"Received: {labels}"
        )
    compare_tokenizer(directory / TOKENIZER_FILE, model, task)
    comparison = compare_onnx(directory / MODEL_FILE, model, task, tolerance)
    comparison.other_model = other_model(manifest, model)
    return comparison
