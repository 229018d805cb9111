"""8-bit embedding tables, a scale for each row.

onnxruntime's quantiser gives a whole table one scale, or leaves it in float. A row is
looked up alone, so it can have a scale of its own: an integer `Gather` of the row, a
`Gather` of its scale, and their product.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

MIN_ROWS = 16
"""Smaller tables (segments) hold too little to be worth three more operations."""
_LARGEST = 127


def quantize_rows(model: Any) -> list[str]:
    """Replaces look-ups in float32 tables by look-ups in 8-bit ones, in place.

    A table is an initializer (V, E) of at least `MIN_ROWS` rows that nothing reads but
    `Gather` along its rows.

    Args:
        model: an ONNX model; its graph is changed.

    Returns:
        The names of the tables that are 8-bit now.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.output}
    done = []
    for table in list(graph.initializer):
        gathers = readers.get(table.name, [])
        if table.name in outputs or not _is_table(table, gathers):
            continue
        values, scales = quantized(numpy_helper.to_array(table))
        graph.initializer.remove(table)
        rows, factors = f"{table.name}_rows", f"{table.name}_scales"
        graph.initializer.append(numpy_helper.from_array(values, rows))
        graph.initializer.append(numpy_helper.from_array(scales, factors))
        for gather in gathers:
            _replace(graph, gather, rows, factors, helper)
        done.append(table.name)
    return done


def quantized(
    table: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Returns int8 (V, E) and float32 scales (V, 1); their product is near the table.

    A value is off by at most half its row's scale, which is the row's largest absolute
    value / 127. A row of zeros stays exactly that.
    """
    largest = np.abs(table).max(axis=1, keepdims=True)
    scales = (largest / _LARGEST).astype("float32")
    divisors = np.where(scales > 0, scales, 1)
    values = np.clip(np.rint(table / divisors), -_LARGEST, _LARGEST)
    return values.astype("int8"), scales


def _is_table(tensor: Any, readers: list[Any]) -> bool:
    from onnx import TensorProto

    return (
        tensor.data_type == TensorProto.FLOAT
        and len(tensor.dims) == 2
        and tensor.dims[0] >= MIN_ROWS
        and bool(readers)
        and all(
            node.op_type == "Gather"
            and node.input[0] == tensor.name
            and node.input[1] != tensor.name
            and all(item.i == 0 for item in node.attribute if item.name == "axis")
            for node in readers
        )
    )


def _replace(graph: Any, gather: Any, rows: str, factors: str, helper: Any) -> None:
    """Puts four operations where a `Gather` stood, in its place in the order."""
    from onnx import TensorProto

    base, ids, output = gather.output[0], gather.input[1], gather.output[0]
    nodes = [
        helper.make_node("Gather", [rows, ids], [f"{base}_int8"], axis=0),
        helper.make_node(
            "Cast", [f"{base}_int8"], [f"{base}_float"], to=TensorProto.FLOAT
        ),
        helper.make_node("Gather", [factors, ids], [f"{base}_scale"], axis=0),
        helper.make_node("Mul", [f"{base}_float", f"{base}_scale"], [output]),
    ]
    index = list(graph.node).index(gather)
    graph.node.remove(gather)
    for offset, node in enumerate(nodes):
        node.name = f"{gather.name}_{('rows', 'cast', 'scales', 'product')[offset]}"
        graph.node.insert(index + offset, node)
