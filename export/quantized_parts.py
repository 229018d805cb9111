"""Which products of an ONNX graph get 8-bit weights, and how."""

import logging
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from export.row_quantization import quantize_rows

METHODS = ("dynamic", "static")
OTHER = "other"
"""The products outside the encoder's layers: projection and head."""
_LAYER = re.compile(r"(?:^|/)layer_\d+_(\w)(?:_\d+)?/")
_VNNI_FLAGS = ("avx_vnni", "avx512_vnni")
_CPU_FLAGS = ("avx2", "avx512f", *_VNNI_FLAGS)


@dataclass(frozen=True)
class Quantizer:
    """Makes 8-bit graphs of one float32 graph.

    Attributes:
        source: the float32 graph.
        method: ``"dynamic"``: scales of activations are computed as they come;
            ``"static"``: they are constants, from `calibration`.
        reduce_range: whether to use 7 bits of the 8.
        calibration: token inputs that show what activations there are.
    """

    source: Path
    method: str
    reduce_range: bool
    calibration: Sequence[dict[str, Any]]

    def write(self, target: Path, nodes: Iterable[str], tables: bool) -> None:
        """Writes a graph in which some products have 8-bit weights.

        Args:
            target: file to write.
            nodes: names of the products.
            tables: whether embedding tables are 8-bit too.
        """
        import onnx

        chosen = list(nodes)
        if chosen:
            # An empty choice would mean all of them.
            with _without_advice():
                if self.method == "static":
                    self._static(target, chosen)
                else:
                    self._dynamic(target, chosen)
            model = onnx.load(target)
        else:
            model = onnx.load(self.source)
        if tables:
            quantize_rows(model)
        onnx.checker.check_model(model, full_check=True)
        target.write_bytes(model.SerializeToString())

    def _dynamic(self, target: Path, nodes: list[str]) -> None:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(
            self.source,
            target,
            op_types_to_quantize=["MatMul"],
            nodes_to_quantize=nodes,
            per_channel=True,
            weight_type=QuantType.QInt8,
            reduce_range=self.reduce_range,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )

    def _static(self, target: Path, nodes: list[str]) -> None:
        import onnx
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

        quantize_static(
            self.source,
            target,
            _Reader(self.calibration),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["MatMul"],
            nodes_to_quantize=nodes,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=self.reduce_range,
            calibration_providers=["CPUExecutionProvider"],
            extra_options={
                "DefaultTensorType": onnx.TensorProto.FLOAT,
                # Only inputs of products: sums and activations stay in float.
                "OpTypesToExcludeOutputQuantization": ["MatMul"],
            },
        )


@contextmanager
def _without_advice() -> Iterator[None]:
    """Hides the advice to infer shapes first, which the graph does not need."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


class _Reader:
    """Gives onnxruntime the texts to calibrate on."""

    def __init__(self, batches: Sequence[dict[str, Any]]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, Any] | None:
        """Returns the next token inputs, None at the end."""
        batch = next(self._batches, None)
        if batch is None:
            return None
        return {name: np.asarray(value, "int64") for name, value in batch.items()}


def products_by_letter(model_file: Path) -> dict[str, list[str]]:
    """Returns the names of the products with weights, by the letter of their layer.

    Those outside of layers come under `OTHER`.
    """
    import onnx

    graph = onnx.load(model_file).graph
    weights = {tensor.name for tensor in graph.initializer}
    groups: dict[str, list[str]] = {}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            found = _LAYER.search(node.name)
            groups.setdefault(found[1] if found else OTHER, []).append(node.name)
    return groups


def cpu_flags() -> list[str]:
    """Returns which of the instructions that matter to 8-bit products this CPU has."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="ignore")
    except OSError:
        return []
    words = set(text.split())
    return [flag for flag in _CPU_FLAGS if flag in words]


def needs_reduced_range(flags: Sequence[str]) -> bool:
    """Whether sums of 8-bit products saturate on a CPU with these instructions."""
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
    return x86 and not any(flag in flags for flag in _VNNI_FLAGS)
