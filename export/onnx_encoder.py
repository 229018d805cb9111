"""The encoder as ONNX nodes: a handful for each layer.

What the layers compute is theirs to say (`lvbert_tf.layers`); here it is arranged for
inference. Products of the same input are one product, two linear maps in a row are
one, and sizes are computed once for all layers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from export.heads import head_of
from export.onnx_builder import GraphBuilder
from export.signatures import SEQUENCE, TOKEN_INPUTS, Signature, Tensor
from export.task import Task
from lvbert_tf.layers.dynamic_conv import DynamicConv
from lvbert_tf.layers.feed_forward import FeedForward
from lvbert_tf.layers.local_mixing import BLOCK_TOKENS
from lvbert_tf.layers.masks import MASKED_SCORE
from lvbert_tf.layers.self_attention import SelfAttention


@dataclass(frozen=True)
class Shared:
    """Tensors that all layers of a graph share.

    Attributes:
        mask: float32 (B, T, 1), 1 for real tokens.
        bias: float32 (B, 1, 1, T), what is added to attention scores.
        tokens: int64 (1,), the number of tokens T.
        missing: int64 (1,), tokens up to a whole number of blocks.
        block: tokens of a block.
    """

    mask: str
    bias: str
    tokens: str
    missing: str
    block: int


def has_emitters(backbone: Any) -> bool:
    """Whether every layer is one that this module can write.

    Layers that users registered are not, nor are subclasses: they may compute
    anything.
    """
    return type(backbone).__name__ == "LVBertBackbone" and all(
        type(layer.layer) in _EMITTERS for layer in backbone.encoder.layer_list
    )


def emit_model(model: Any, task: Task, signature: Signature, opset: int) -> Any:
    """Returns a model as an ONNX graph.

    Args:
        model: a model for whose backbone `has_emitters` holds.
        task: what it does.
        signature: what the graph takes and gives.
        opset: version of ONNX's operator set.
    """
    from onnx import helper

    builder = GraphBuilder(opset)
    given = {tensor.name: tensor.name for tensor in signature.inputs}
    inputs = _padded(builder, task, given) if task.fixed_length else given
    hidden = emit_encoder(builder, model.backbone, *(inputs[n] for n in TOKEN_INPUTS))
    outputs = head_of(task).emit(builder, model, task, hidden, inputs)
    for tensor in signature.outputs:
        output = outputs[tensor.name]
        if task.fixed_length and SEQUENCE in tensor.axes:
            length = builder.slice(builder.op("Shape", TOKEN_INPUTS[0]), 0, 1, 2)
            output = builder.slice(output, tensor.axes.index(SEQUENCE), 0, length)
        builder.named(output, tensor.name)

    def described(tensors: Iterable[Tensor]) -> list[Any]:
        return [
            helper.make_tensor_value_info(
                tensor.name,
                helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)),
                tensor.axes,
            )
            for tensor in tensors
        ]

    return builder.model(described(signature.inputs), described(signature.outputs))


def _padded(
    builder: GraphBuilder, task: Task, inputs: Mapping[str, str]
) -> dict[str, str]:
    """Gives token inputs the one length and the padding of training."""
    with builder.scope("padding"):
        mask = inputs["padding_mask"]
        real = builder.op("Cast", mask, to=9)  # bool
        tokens = builder.slice(builder.op("Shape", mask), 0, 1, 2)
        missing = builder.op("Sub", builder.integers(task.sequence_length), tokens)
        pads = builder.op("Concat", builder.integers(0, 0, 0), missing, axis=0)
        padded = dict(inputs)
        for name, fill in zip(TOKEN_INPUTS, (task.pad_token_id, 0, 0), strict=True):
            value = builder.constant(fill, "int64")
            kept = builder.op("Where", real, inputs[name], value)
            padded[name] = builder.op("Pad", kept, pads, value)
    return padded


def emit_encoder(
    builder: GraphBuilder, backbone: Any, ids: str, segments: str, mask: str
) -> str:
    """Writes a backbone.

    Args:
        builder: takes the nodes.
        backbone: an `LVBertBackbone` for which `has_emitters` holds.
        ids: int64 (B, T).
        segments: int64 (B, T).
        mask: int64 (B, T).

    Returns:
        The hidden states, float32 (B, T, H).
    """
    with builder.scope("sizes"):
        shared = _shared(builder, backbone, mask)
    with builder.scope("embeddings"):
        x = _embeddings(builder, backbone.embeddings, ids, segments, shared)
    projection = backbone.encoder.projection
    if projection is not None:
        x = builder.dense(x, projection.kernel, projection.bias, "projection")
    for index, (letter, layer) in enumerate(
        zip(backbone.architecture, backbone.encoder.layer_list, strict=True)
    ):
        with builder.scope(f"layer_{index}_{letter}"):
            emit = _EMITTERS[type(layer.layer)]
            sum_ = builder.op("Add", x, emit(builder, layer.layer, x, shared))
            x = builder.layer_norm(sum_, layer.layer_norm)
    return x


def _shared(builder: GraphBuilder, backbone: Any, mask: str) -> Shared:
    real = builder.op("Cast", mask, to=1)
    one = builder.constant(1.0, "float32")
    padded = builder.op("Sub", one, real)
    bias = builder.op("Mul", padded, builder.constant(MASKED_SCORE, "float32"))
    tokens = builder.slice(builder.op("Shape", mask), 0, 1, 2)
    block = max(BLOCK_TOKENS, backbone.kernel_size - 1)
    size = builder.integers(block)
    above = builder.op("Add", tokens, builder.integers(block - 1))
    blocks = builder.op("Div", above, size)
    return Shared(
        mask=builder.op("Unsqueeze", real, builder.integers(2)),
        bias=builder.op("Unsqueeze", bias, builder.integers(1, 2)),
        tokens=tokens,
        missing=builder.op("Sub", builder.op("Mul", blocks, size), tokens),
        block=block,
    )


def _embeddings(
    builder: GraphBuilder, layer: Any, ids: str, segments: str, shared: Shared
) -> str:
    def table(name: str) -> str:
        return builder.weight(name, getattr(layer, name).embeddings)

    tokens = builder.op("Gather", table("token_embedding"), ids)
    positions = builder.op(
        "Range",
        builder.constant(0, "int64"),
        builder.op("Squeeze", shared.tokens, builder.integers(0)),
        builder.constant(1, "int64"),
    )
    at = builder.op("Gather", table("position_embedding"), positions)
    kinds = builder.op("Gather", table("segment_embedding"), segments)
    sum_ = builder.op("Add", builder.op("Add", tokens, at), kinds)
    return builder.layer_norm(sum_, layer.layer_norm)


def _feed_forward(builder: GraphBuilder, layer: Any, x: str, shared: Shared) -> str:
    inner = layer.intermediate
    hidden = builder.dense(x, inner.kernel, inner.bias, "intermediate")
    hidden = builder.gelu(hidden, layer.approximate_gelu)
    output = layer.output_dense
    return builder.dense(hidden, output.kernel, output.bias, "output_dense")


def _self_attention(builder: GraphBuilder, layer: Any, x: str, shared: Shared) -> str:
    heads, size = layer.num_heads, layer.hidden_dim // layer.num_heads
    scale = size**-0.5
    kernels = [
        np.asarray(part.kernel) for part in (layer.query, layer.key, layer.value)
    ]
    biases = [np.asarray(part.bias) for part in (layer.query, layer.key, layer.value)]
    kernels[0], biases[0] = kernels[0] * scale, biases[0] * scale
    joined = builder.dense(
        x, np.concatenate(kernels, axis=1), np.concatenate(biases), "query_key_value"
    )
    parts = builder.ops(
        "Split", joined, builder.integers(*[layer.hidden_dim] * 3), outputs=3, axis=-1
    )
    query, key, value = (
        builder.op("Transpose", builder.reshape(part, 0, 0, heads, size), perm=perm)
        for part, perm in zip(
            parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True
        )
    )
    scores = builder.op("Add", builder.op("MatMul", query, key), shared.bias)
    mixed = builder.op("MatMul", builder.op("Softmax", scores, axis=-1), value)
    joined = builder.reshape(
        builder.op("Transpose", mixed, perm=[0, 2, 1, 3]), 0, 0, layer.hidden_dim
    )
    output = layer.output_dense
    return builder.dense(joined, output.kernel, output.bias, "output_dense")


def _dynamic_conv(builder: GraphBuilder, layer: Any, x: str, shared: Shared) -> str:
    hidden, heads, size = layer.hidden_dim, layer.num_heads, layer.kernel_size
    block, window = shared.block, shared.block + size - 1
    linear, gate = layer.glu_linear, layer.glu_gate
    both = builder.dense(
        x,
        np.concatenate([linear.kernel, gate.kernel], axis=1),
        np.concatenate([linear.bias, gate.bias]),
        "glu",
    )
    parts = builder.ops(
        "Split", both, builder.integers(hidden, hidden), outputs=2, axis=-1
    )
    values = builder.op("Mul", parts[0], builder.op("Sigmoid", parts[1]))
    if layer.mask_convolution:
        values = builder.op("Mul", values, shared.mask)
    kernels = _kernels(builder, layer, values)  # (B, T, N * K)

    def padded(tensor: str, before: int, after: str) -> str:
        """Pads (B, T, ...) along the tokens."""
        pads = builder.op(
            "Concat",
            builder.integers(0, before, 0, 0),
            after,
            builder.integers(0),
            axis=0,
        )
        return builder.op("Pad", tensor, pads)

    # Kernels of a block as a band of S rows and S + K - 1 columns: row i is moved to
    # the right by i by reading rows of S + K numbers with one column less.
    bands = builder.reshape(
        padded(kernels, 0, shared.missing), 0, -1, block, heads, size
    )
    bands = builder.op("Transpose", bands, perm=[0, 1, 3, 2, 4])
    bands = builder.op("Pad", bands, builder.integers(*[0] * 9, block))
    bands = builder.reshape(bands, 0, 0, heads, block * (block + size))
    bands = builder.slice(bands, 3, 0, block * window)
    bands = builder.reshape(bands, 0, 0, heads, block, window)

    after = builder.op("Add", shared.missing, builder.integers(block - size // 2))
    pieces = builder.reshape(padded(values, size // 2, after), 0, -1, block, hidden)
    following = builder.slice(builder.slice(pieces, 1, 1, 2**31 - 1), 2, 0, size - 1)
    windows = builder.op("Concat", builder.slice(pieces, 1, 0, -1), following, axis=2)
    windows = builder.reshape(windows, 0, 0, window, heads, hidden // heads)
    windows = builder.op("Transpose", windows, perm=[0, 1, 3, 2, 4])

    mixed = builder.op("MatMul", bands, windows)  # (B, blocks, N, S, D)
    mixed = builder.op("Transpose", mixed, perm=[0, 1, 3, 2, 4])
    mixed = builder.slice(builder.reshape(mixed, 0, -1, hidden), 1, 0, shared.tokens)
    output = layer.output_dense
    return builder.dense(mixed, output.kernel, output.bias, "output_dense")


def _kernels(builder: GraphBuilder, layer: Any, values: str) -> str:
    """Returns the predicted kernels (B, T, N * K) for values (B, T, H).

    Between the depthwise convolution and the softmax stand two linear maps, the
    pointwise one and the kernel generator, which are one here.
    """
    heads, size, hidden = layer.num_heads, layer.kernel_size, layer.hidden_dim
    depthwise = np.asarray(layer.depthwise_kernel).T.reshape(hidden, 1, size)
    context = builder.op(
        "Conv",
        builder.op("Transpose", values, perm=[0, 2, 1]),
        builder.weight("depthwise_kernel", depthwise),
        group=hidden,
        kernel_shape=[size],
        pads=[size // 2, size // 2],
    )
    context = builder.op("Transpose", context, perm=[0, 2, 1])
    pointwise, generator = layer.pointwise, layer.kernel_generator
    # In double precision, so that it costs no accuracy.
    second = np.asarray(generator.kernel, "float64")
    logits = builder.dense(
        context,
        np.asarray(pointwise.kernel, "float64") @ second,
        np.asarray(pointwise.bias, "float64") @ second + np.asarray(generator.bias),
        "kernel_generator",
    )
    kernels = builder.op("Softmax", builder.reshape(logits, 0, 0, heads, size), axis=-1)
    return builder.reshape(kernels, 0, 0, heads * size)


Emitter = Callable[[GraphBuilder, Any, str, Shared], str]
_EMITTERS: dict[type, Emitter] = {
    DynamicConv: _dynamic_conv,
    SelfAttention: _self_attention,
    FeedForward: _feed_forward,
}
