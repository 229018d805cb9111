"""Embedding tables in 8 bits, a scale for each row."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.row_quantization import MIN_ROWS, quantize_rows, quantized

pytestmark = pytest.mark.export


def graph_of(table: Any, gathers: int = 1, more: tuple[Any, ...] = ()) -> Any:
    """Returns a model that looks ids up in a table, once or several times."""
    names = [f"out{index}" for index in range(gathers)]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], [name], name=f"look_{name}")
        for name in names
    ]
    graph = helper.make_graph(
        [*nodes, *more],
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["b", "t"])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", "t", "e"])
            for name in names
        ],
        [numpy_helper.from_array(table, "table")],
    )
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10)


def run(model: Any, ids: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"ids": ids})


@pytest.mark.parametrize("gathers", [1, 2])
def test_a_row_is_off_by_at_most_half_its_own_scale(gathers: int) -> None:
    generator = np.random.default_rng(0)
    # Rows of very unlike size: one scale for all would lose the small ones.
    sizes = np.geomspace(1e-6, 1e3, 100)[:, None]
    table = (generator.normal(size=(100, 24)) * sizes).astype("float32")
    table[7] = 0
    model = graph_of(table, gathers)
    before = model.ByteSize()
    assert quantize_rows(model) == ["table"]
    onnx.checker.check_model(model, full_check=True)
    assert model.ByteSize() < 0.45 * before
    ids = np.arange(100).reshape(4, 25)
    for rows in run(model, ids):
        error = np.abs(rows.reshape(100, 24) - table).max(axis=1)
        limit = np.abs(table).max(axis=1) / 127 / 2
        assert (error <= limit * 1.001).all()
        assert not rows.reshape(100, 24)[7].any()


def test_the_largest_values_are_kept_exactly_signed() -> None:
    table = np.array([[-1.0, 1.0, 0.0], [2e-45, 0, 0]], "float32")
    values, scales = quantized(table)
    assert values.tolist()[0] == [-127, 127, 0]
    assert np.isfinite(values * scales).all()


def test_other_tables_stay_as_they_are() -> None:
    small = np.ones((MIN_ROWS - 1, 4), "float32")
    assert quantize_rows(graph_of(small)) == []
    integers = np.ones((100, 4), "int64")
    assert quantize_rows(graph_of(integers)) == []
    # A table that something else reads too, as a tied output matrix does.
    also = helper.make_node("Neg", ["table"], ["negated"])
    assert quantize_rows(graph_of(np.ones((100, 4), "float32"), 1, (also,))) == []
