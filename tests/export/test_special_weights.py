"""ONNX graphs of models whose weights are special: zero, repeated, never trained.

A converter may simplify an operation away where a constant is zero or one, and break
what stood beside it. Perturbed weights never show that.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lvbert_tf
from export.onnx_graph import convert
from export.onnx_parity import compare_onnx
from export.parity import ONNX_TOLERANCE
from export.signatures import onnx_signature
from export.task import describe_task
from tests.export.models import VOCABULARY, make_classifier, perturb

pytestmark = pytest.mark.export


def untrained(architecture: str = "csf", mask_convolution: bool = True) -> Any:
    """Returns a classifier whose weights are as initialised."""
    backbone = lvbert_tf.LVBertBackbone(
        len(VOCABULARY),
        architecture,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=64,
        num_heads=4,
        max_sequence_length=64,
        mask_convolution=mask_convolution,
    )
    return lvbert_tf.LVBertTextClassifier(
        backbone,
        2,
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(
            lvbert_tf.LVBertTokenizer(VOCABULARY), sequence_length=40
        ),
    )


def filled(value: float) -> Callable[[Any], None]:
    """Returns what sets every weight of a model to one value."""
    return lambda model: model.set_weights(
        [np.full_like(weight, value) for weight in model.get_weights()]
    )


def zeroed(*names: str) -> Callable[[Any], None]:
    """Returns what perturbs a model and zeroes the weights of the given names."""

    def change(model: Any) -> None:
        perturb(model, seed=1, size=0.2)
        for weight in model.weights:
            if weight.path.rsplit("/", 1)[-1] in names:
                weight.assign(np.zeros(weight.shape, "float32"))

    return change


def exported(model: Any, folder: Path, opset: int = 20) -> float:
    """Converts, compares with Keras and returns the largest difference."""
    task = describe_task(model, pairs=False)
    graph = convert(model, task, onnx_signature(task), opset)
    path = folder / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    comparison = compare_onnx(path, model, task, ONNX_TOLERANCE)
    comparison.verify()
    return comparison.max_abs_difference


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda model: None, id="as initialised"),
        pytest.param(filled(0.0), id="all zero"),
        pytest.param(filled(0.5), id="one value repeated", marks=pytest.mark.slow),
        pytest.param(zeroed("bias", "beta"), id="biases zero"),
        pytest.param(zeroed("kernel"), id="kernels zero", marks=pytest.mark.slow),
    ],
)
def test_special_values_give_what_keras_gives(
    tmp_path: Path, change: Callable[[Any], None]
) -> None:
    model = untrained()
    change(model)
    exported(model, tmp_path)


def test_an_untrained_model_of_official_convolutions(tmp_path: Path) -> None:
    exported(untrained(mask_convolution=False), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_each_weight_alone_may_be_zero_or_one(tmp_path: Path, value: float) -> None:
    model = make_classifier()
    failed = []
    for weight in model.weights:
        kept = weight.numpy()
        weight.assign(np.full_like(kept, value))
        try:
            exported(model, tmp_path)
        except Exception as error:
            failed.append(f"{weight.path}: {error}")
        weight.assign(kept)
    assert not failed
