"""Writing an ONNX graph node by node."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LAYER_NORM_OPSET = 17
_GELU_OPSET = 20


class GraphBuilder:
    """Collects nodes and weights; every method returns the name of a tensor.

    Args:
        opset: version of the operator set that nodes are written for.

    Attributes:
        opset: the argument.
        nodes: the nodes so far, in an order that can be computed.
        initializers: weights and constants by name.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._scopes: list[str] = []
        self._names: set[str] = set()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Puts ``name/`` before the names of everything made inside."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output."""
        (output,) = self.ops(kind, *inputs, outputs=1, **attributes)
        return output

    def ops(
        self, kind: str, *inputs: str, outputs: int, **attributes: Any
    ) -> tuple[str, ...]:
        """Adds a node with several outputs."""
        from onnx import helper

        name = self._free(kind)
        results = (
            (name,)
            if outputs == 1
            else tuple(f"{name}:{index}" for index in range(outputs))
        )
        self.nodes.append(helper.make_node(kind, inputs, results, name, **attributes))
        return results

    def weight(self, name: str, value: Any) -> str:
        """Adds a weight in float32."""
        from onnx import numpy_helper

        name = self._free(name)
        array = np.ascontiguousarray(np.asarray(value), dtype="float32")
        self.initializers[name] = numpy_helper.from_array(array, name)
        return name

    def constant(self, value: Any, dtype: str) -> str:
        """Adds a constant; equal ones are stored once."""
        from onnx import numpy_helper

        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self.initializers[name] = numpy_helper.from_array(array, name)
            self._constants[key] = name
        return self._constants[key]

    def integers(self, *values: int) -> str:
        """Adds an int64 vector, as shapes, axes and bounds are given."""
        return self.constant(values, "int64")

    def dense(self, inputs: str, kernel: Any, bias: Any, name: str) -> str:
        """Returns ``inputs @ kernel + bias``; without bias where that is None."""
        with self.scope(name):
            product = self.op("MatMul", inputs, self.weight("kernel", kernel))
            if bias is None:
                return product
            return self.op("Add", product, self.weight("bias", bias))

    def reshape(self, inputs: str, *shape: int) -> str:
        """Reshapes; 0 keeps an axis, -1 takes what is left."""
        return self.op("Reshape", inputs, self.integers(*shape))

    def slice(self, inputs: str, axis: int, start: int, end: int | str) -> str:
        """Returns ``[start:end]`` along an axis; `end` may name a tensor."""
        stop = end if isinstance(end, str) else self.integers(end)
        return self.op("Slice", inputs, self.integers(start), stop, self.integers(axis))

    def gelu(self, inputs: str, approximate: bool = False) -> str:
        """Returns ``x * Phi(x)``, by one node where the operator set has it.

        Args:
            inputs: the tensor.
            approximate: whether Phi is approximated by tanh.
        """
        if self.opset >= _GELU_OPSET:
            form = {"approximate": "tanh"} if approximate else {}
            return self.op("Gelu", inputs, **form)
        if approximate:
            return self._gelu_by_tanh(inputs)
        # The form that onnxruntime takes for a GELU, and computes as one.
        quotient = self.op("Div", inputs, self.constant(2**0.5, "float32"))
        one = self.constant(1.0, "float32")
        sum_ = self.op("Add", self.op("Erf", quotient), one)
        product = self.op("Mul", inputs, sum_)
        return self.op("Mul", product, self.constant(0.5, "float32"))

    def _gelu_by_tanh(self, inputs: str) -> str:
        """Returns ``x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))``."""
        half, one = self.constant(0.5, "float32"), self.constant(1.0, "float32")
        cube = self.op("Mul", inputs, self.op("Mul", inputs, inputs))
        cubic = self.op("Mul", cube, self.constant(0.044715, "float32"))
        scale = self.constant((2 / math.pi) ** 0.5, "float32")
        inner = self.op("Mul", self.op("Add", inputs, cubic), scale)
        sum_ = self.op("Add", self.op("Tanh", inner), one)
        return self.op("Mul", self.op("Mul", inputs, half), sum_)

    def layer_norm(self, inputs: str, layer: Any) -> str:
        """Returns a Keras `LayerNormalization` over the last axis."""
        with self.scope("layer_norm"):
            scale = self.weight("gamma", layer.gamma)
            offset = self.weight("beta", layer.beta)
            if self.opset >= _LAYER_NORM_OPSET:
                return self.op(
                    "LayerNormalization",
                    inputs,
                    scale,
                    offset,
                    axis=-1,
                    epsilon=layer.epsilon,
                )
            mean = self.op("ReduceMean", inputs, axes=[-1], keepdims=1)
            centred = self.op("Sub", inputs, mean)
            square = self.op("Mul", centred, centred)
            variance = self.op("ReduceMean", square, axes=[-1], keepdims=1)
            epsilon = self.constant(layer.epsilon, "float32")
            deviation = self.op("Sqrt", self.op("Add", variance, epsilon))
            normal = self.op("Div", centred, deviation)
            return self.op("Add", self.op("Mul", normal, scale), offset)

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Returns the ONNX model.

        Args:
            inputs: descriptions of the inputs (`ValueInfoProto`).
            outputs: those of the outputs, which nodes of the same names give.
        """
        from onnx import helper

        graph = helper.make_graph(
            self.nodes,
            "lvbert",
            list(inputs),
            list(outputs),
            list(self.initializers.values()),
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
        )

    def named(self, tensor: str, name: str) -> None:
        """Gives a tensor the name of an output."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [tensor], [name], name))

    def _free(self, name: str) -> str:
        """Returns the name within the scopes, numbered if it is taken."""
        base = "/".join((*self._scopes, name))
        full, count = base, 1
        while full in self._names:
            count += 1
            full = f"{base}_{count}"
        self._names.add(full)
        return full
