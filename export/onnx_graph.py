"""Exports a model as an ONNX graph, with what is needed to run it on raw text."""

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.command_line import CommandError, UsageError
from export.manifest import (
    describe_artefact,
    file_entries,
    versions,
    write_manifest,
)
from export.model_card import write_model_card
from export.onnx_encoder import emit_model, has_emitters
from export.onnx_parity import (
    FILES,
    LABELS_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    compare_onnx,
    compare_tokenizer,
)
from export.publication import published
from export.signatures import Signature, onnx_signature
from export.task import Task, describe_task

DEFAULT_OPSET = 20
"""The first with a GELU."""
NEWEST_OPSET = 23
OLDEST_OPSET = 13
NEWEST_CONVERTED_OPSET = 18
"""tf2onnx writes nothing newer."""

Array = npt.NDArray[Any]


def export_onnx(
    model: Any,
    output: str | Path,
    opset: int | None = None,
    *,
    pairs: bool = False,
    tolerance: float | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Writes an ONNX artefact, after comparing it with Keras.

    Args:
        model: a model of a kind in `export.heads`, with its preprocessor.
        output: the new directory.
        opset: version of ONNX's operator set; None: 20, or 18 for layers that only
            the converter knows.
        pairs: whether a classifier takes pairs of texts.
        tolerance: largest difference of scores from Keras's; None measures the
            model's rounding noise.
        provenance: content of the model directory's ``training.json``, for the card.

    Returns:
        What the command prints: ``path``, ``inputs``, ``outputs``, ``opset``,
        ``bytes``, ``max_abs_difference``, ``tolerance``.

    Raises:
        UsageError: for an argument that won't do.
        CommandError: if the graph is invalid or differs from Keras, or the tokenizer
            gives other ids. Nothing is left then.
    """
    if opset is not None and not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise UsageError(
            f"--opset: expected {OLDEST_OPSET} to {NEWEST_OPSET}. Received: {opset}"
        )
    task = describe_task(model, pairs)
    signature = onnx_signature(task)
    opset = chosen_opset(model, opset)
    final = Path(output)
    with published(final) as folder:
        graph = convert(model, task, signature, opset)
        (folder / MODEL_FILE).write_bytes(graph.SerializeToString())
        tokenizer = model.preprocessor.tokenizer
        (folder / TOKENIZER_FILE).write_text(
            tokenizer.to_tokenizers_json(), encoding="utf-8"
        )
        (folder / LABELS_FILE).write_text(
            json.dumps(task.labels, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        compare_tokenizer(folder / TOKENIZER_FILE, model, task)
        comparison = compare_onnx(folder / MODEL_FILE, model, task, tolerance)
        comparison.verify()
        files = file_entries(folder, FILES)
        manifest = describe_artefact(
            model,
            task,
            comparison,
            kind="onnx",
            files=files,
            opset=opset,
            longest_input=task.longest_input,
            **signature.as_json(),
        )
        write_manifest(folder, manifest)
        write_model_card(folder, manifest, provenance or {})
    return {
        "path": str(final),
        **signature.as_json(),
        "opset": opset,
        "bytes": files[MODEL_FILE]["bytes"],
        "max_abs_difference": comparison.max_abs_difference,
        "tolerance": comparison.tolerance,
    }


def chosen_opset(model: Any, asked: int | None) -> int:
    """Returns the operator set to write.

    Raises:
        UsageError: if a layer that only the converter knows is to be written in a
            newer one than it writes.
    """
    if has_emitters(model.backbone):
        return DEFAULT_OPSET if asked is None else asked
    if asked is not None and asked > NEWEST_CONVERTED_OPSET:
        raise UsageError(
            f"--opset: this model has layers of your own, which tf2onnx converts: "
            f"expected at most {NEWEST_CONVERTED_OPSET}. Received: {asked}"
        )
    return NEWEST_CONVERTED_OPSET if asked is None else asked


def convert(model: Any, task: Task, signature: Signature, opset: int) -> Any:
    """Returns the ONNX graph, valid and with the table's names.

    Raises:
        CommandError: if it cannot be converted, or the result is invalid.
    """
    import onnx

    try:
        if has_emitters(model.backbone):
            graph = emit_model(model, task, signature, opset)
        else:
            graph = _converted(model, task, signature, opset)
        _name_axes(graph, signature)
        graph.producer_name = "lvbert-tf"
        graph.producer_version = versions()["lvbert-tf"]
        onnx.checker.check_model(graph, full_check=True)
    except (ValueError, RuntimeError, onnx.checker.ValidationError) as error:
        raise CommandError(f"the conversion to ONNX failed: {error}") from error
    return graph


def _converted(model: Any, task: Task, signature: Signature, opset: int) -> Any:
    """Returns what tf2onnx makes of the TensorFlow graph."""
    import tensorflow as tf
    import tf2onnx

    from export.inference_graph import InferenceGraph

    graph = InferenceGraph(model, task)
    dtypes = {tensor.name: tensor.dtype for tensor in signature.outputs}

    def outputs(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        names = [tensor.name for tensor in signature.inputs]
        given = {
            name: tf.cast(tensor, tf.int32)
            for name, tensor in zip(names, tensors, strict=True)
        }
        return {
            name: tf.cast(tensor, dtypes[name])
            for name, tensor in graph.outputs(given).items()
        }

    specs = [
        tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name)
        for tensor in signature.inputs
    ]
    function = tf.function(outputs, input_signature=specs, autograph=False)
    with warnings.catch_warnings(), _without_graph_copies():
        # tf2onnx's own, about NumPy.
        warnings.simplefilter("ignore")
        converted, _ = tf2onnx.convert.from_function(
            function, input_signature=specs, opset=opset
        )
    return converted


@contextmanager
def _without_graph_copies() -> Iterator[None]:
    """Lets tf2onnx's optimizers fail instead of copying the graph before each.

    The copies, weights included, take most of the conversion's time.
    """
    name = "TF2ONNX_CATCH_ERRORS"
    before = os.environ.get(name)
    os.environ[name] = "FALSE"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _name_axes(model: Any, signature: Signature) -> None:
    """Checks the graph's names and types, and names its free axes."""
    import onnx

    for received, expected in (
        (model.graph.input, signature.inputs),
        (model.graph.output, signature.outputs),
    ):
        found = [value.name for value in received]
        if found != [tensor.name for tensor in expected]:
            raise CommandError(
                f"the ONNX graph: expected {[tensor.name for tensor in expected]}. "
                f"Received: {found}"
            )
        for value, tensor in zip(received, expected, strict=True):
            dtype = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
            if value.type.tensor_type.elem_type != dtype:
                raise CommandError(f"{tensor.name}: expected {tensor.dtype}")
            value.CopyFrom(
                onnx.helper.make_tensor_value_info(tensor.name, dtype, tensor.axes)
            )
    # The converter's guesses about inner shapes carry names of their own.
    del model.graph.value_info[:]
