"""The head of a span predictor as ONNX nodes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from export.onnx_builder import GraphBuilder
from lvbert_tf.layers.span_head import NO_BEAM, NO_CANDIDATE


def emit_span_head(
    builder: GraphBuilder, head: Any, hidden: str, inputs: Mapping[str, str]
) -> dict[str, str]:
    """Writes a `SpanHead`, step by step as it computes.

    Args:
        builder: takes the nodes.
        head: the layer.
        hidden: float32 (B, T, H).
        inputs: names of the token inputs, int64 (B, T).

    Returns:
        Names of tensors by names of outputs.
    """
    with builder.scope("head"):
        first = builder.integers(0)
        last = builder.integers(-1)
        one = builder.constant(1.0, "float32")
        dense = head.start
        start = builder.dense(hidden, dense.kernel, dense.bias, "start")
        start = builder.op("Squeeze", start, last)  # (B, T)
        context = builder.op(
            "Cast",
            builder.op("Mul", inputs["segment_ids"], inputs["padding_mask"]),
            to=1,
        )
        # The first token, of segment 0, stands for "no answer".
        tokens = builder.slice(builder.op("Shape", start), 0, 1, 2)
        position = builder.op(
            "Range",
            builder.constant(0, "int64"),
            builder.op("Squeeze", tokens, first),
            builder.constant(1, "int64"),
        )
        is_first = builder.op("Equal", position, builder.constant(0, "int64"))
        possible = builder.op("Max", context, builder.op("Cast", is_first, to=1))
        excluded = builder.op(
            "Mul",
            builder.op("Sub", one, possible),
            builder.constant(NO_CANDIDATE, "float32"),
        )
        start = builder.op("Sub", start, excluded)
        log_probs = builder.op("LogSoftmax", start, axis=-1)
        index, best = _best_starts(builder, log_probs, head.beam_size)
        ends = _end_logits(builder, head, hidden, index)
        ends = builder.op(
            "Sub", ends, builder.op("Unsqueeze", excluded, builder.integers(1))
        )
        return {
            "start_logits": start,
            "unanswerable_logit": _unanswerable(builder, head, hidden, start),
            "start_index": index,
            "start_log_probs": best,
            "end_log_probs": builder.op("LogSoftmax", ends, axis=-1),
        }


def _best_starts(builder: GraphBuilder, log_probs: str, beam: int) -> tuple[str, str]:
    none = builder.constant(NO_BEAM, "float32")
    padded = builder.op("Pad", log_probs, builder.integers(0, 0, 0, beam), none)
    values, index = builder.ops(
        "TopK", padded, builder.integers(beam), outputs=2, axis=-1
    )
    known = builder.op("Greater", values, none)
    zero = builder.constant(0, "int64")
    return builder.op("Where", known, index, zero), values


def _end_logits(builder: GraphBuilder, head: Any, hidden: str, index: str) -> str:
    kernel = np.asarray(head.end_hidden_kernel)
    width = kernel.shape[0] // 2
    of_end = builder.dense(hidden, kernel[width:], head.end_hidden_bias, "of_end")
    at = builder.op("Unsqueeze", index, builder.integers(2))
    at_start = builder.op("GatherND", hidden, at, batch_dims=1)  # (B, K, H)
    of_start = builder.dense(at_start, kernel[:width], None, "of_start")
    both = builder.op(
        "Add",
        builder.op("Unsqueeze", of_end, builder.integers(1)),
        builder.op("Unsqueeze", of_start, builder.integers(2)),
    )  # (B, K, T, F)
    logits = builder.dense(builder.gelu(both), head.end.kernel, head.end.bias, "end")
    return builder.op("Squeeze", logits, builder.integers(-1))


def _unanswerable(builder: GraphBuilder, head: Any, hidden: str, start: str) -> str:
    shares = builder.op("Softmax", start, axis=-1)
    shares = builder.op("Unsqueeze", shares, builder.integers(1))
    expected = builder.op("MatMul", shares, hidden)  # (B, 1, H)
    first = builder.slice(hidden, 1, 0, 1)
    both = builder.op("Concat", first, expected, axis=-1)
    inner = head.unanswerable_hidden
    hidden = builder.gelu(
        builder.dense(both, inner.kernel, inner.bias, "unanswerable_hidden")
    )
    output = head.unanswerable
    logit = builder.dense(hidden, output.kernel, output.bias, "unanswerable")
    return builder.op("Squeeze", logit, builder.integers(1, 2))
