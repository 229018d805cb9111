"""The graph that is written layer by layer: what is in it, in any operator set."""

from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime
import pytest

from common.command_line import UsageError
from export import onnx_encoder
from export.onnx_builder import GraphBuilder
from export.onnx_graph import chosen_opset, compare_onnx, convert, onnx_outputs
from export.parity import ONNX_TOLERANCE, token_cases
from export.signatures import onnx_signature
from export.task import describe_task
from tests.export.models import make_classifier, make_model

pytestmark = pytest.mark.export


def written(model: Any, folder: Path, opset: int) -> tuple[Path, Any]:
    task = describe_task(model, pairs=False)
    graph = convert(model, task, onnx_signature(task), opset)
    path = folder / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    compare_onnx(path, model, task, ONNX_TOLERANCE).verify()
    return path, graph


@pytest.mark.parametrize("opset", [13, 17, 18, 19, 20, 23])
@pytest.mark.parametrize("mask_convolution", [True, False])
def test_every_operator_set(tmp_path: Path, opset: int, mask_convolution: bool) -> None:
    model = make_classifier(mask_convolution=mask_convolution)
    _, graph = written(model, tmp_path, opset)
    assert graph.opset_import[0].version == opset
    kinds = Counter(node.op_type for node in graph.graph.node)
    # One of each for embeddings and three layers; one feed-forward layer.
    assert kinds["LayerNormalization"] == (4 if opset >= 17 else 0)
    assert kinds["Gelu"] == (1 if opset >= 20 else 0)
    assert kinds["Erf"] == (0 if opset >= 20 else 1)
    # Products: projection, glu, kernel generator, mixing, output; query-key-value,
    # scores, mixing, output; two of feed-forward; the head.
    assert kinds["MatMul"] == 1 + 4 + 4 + 2 + 1


@pytest.mark.parametrize("opset", [18, 20])
def test_the_approximate_activation(opset: int) -> None:
    values = np.linspace(-6, 6, 101, dtype="float32")
    builder = GraphBuilder(opset)
    output = builder.gelu("x", approximate=True)
    described = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [101])
        for name in ("x", output)
    ]
    graph = builder.model(described[:1], described[1:])
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    (found,) = session.run(None, {"x": values})
    form = keras.activations.gelu(values, approximate=True)
    np.testing.assert_allclose(found, form, atol=1e-6)
    # The exact one is another: the test would see it.
    assert np.abs(found - keras.activations.gelu(values)).max() > 1e-4


def test_a_layer_writes_the_activation_that_it_has(tmp_path: Path) -> None:
    model = make_classifier()
    (feed_forward,) = (
        block.layer
        for block in model.backbone.encoder.layer_list
        if hasattr(block.layer, "approximate_gelu")
    )
    feed_forward.approximate_gelu = True
    _, graph = written(model, tmp_path, 18)
    kinds = Counter(node.op_type for node in graph.graph.node)
    assert (kinds["Tanh"], kinds["Erf"]) == (1, 0)


def test_onnxruntime_fuses_what_older_operator_sets_spell_out(tmp_path: Path) -> None:
    path, _ = written(make_classifier(), tmp_path, 18)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(tmp_path / "optimized.onnx").graph.node
    kinds = {node.op_type for node in nodes}
    assert kinds & {"Gelu", "BiasGelu"}
    assert "Erf" not in kinds


def test_a_small_model_has_few_nodes() -> None:
    import lvbert_tf

    backbone = lvbert_tf.LVBertBackbone.from_size(
        "small", vocabulary_size=100, hidden_dim=32, intermediate_dim=64
    )
    builder = onnx_encoder.GraphBuilder(20)
    onnx_encoder.emit_encoder(builder, backbone, "ids", "segments", "mask")
    # 1,930 when TensorFlow's graph was converted.
    assert len(builder.nodes) < 600


@pytest.mark.parametrize("kind", ["classifier", "masked_lm"])
def test_layers_of_ones_own_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As if no layer were known; both graphs compute the same."""
    model = make_classifier() if kind == "classifier" else make_model(kind)
    task = describe_task(model, pairs=False)
    signature = onnx_signature(task)
    path, _ = written(model, tmp_path, 20)
    own = onnx_outputs(path, signature)
    cases = token_cases(model, task)
    before = [own(case.inputs) for case in cases]
    monkeypatch.setattr(onnx_encoder, "_EMITTERS", {})
    assert chosen_opset(model, None) == 18
    with pytest.raises(UsageError, match="layers of your own"):
        chosen_opset(model, 20)
    path, graph = written(model, tmp_path, 18)
    assert len(graph.graph.node) > 150
    converted = onnx_outputs(path, signature)
    for case, outputs in zip(cases, before, strict=True):
        for name, values in converted(case.inputs).items():
            np.testing.assert_allclose(values, outputs[name], atol=ONNX_TOLERANCE)
