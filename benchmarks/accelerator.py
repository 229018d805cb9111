"""``c`` against ``s`` on an accelerator, in bfloat16, under JAX.

``KERAS_BACKEND=jax python -m benchmarks.accelerator [--tokens 128,512]``

It needs jax, keras and keras-hub, not TensorFlow, and prints a table for the documents
and one JSON object. On a CPU it runs too, and says so.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

TOTAL_TOKENS = 64 * 512
"""Tokens of a batch, whatever their length, so that times are of equal work."""


def step_of(letter: str, tokens: int, hidden: int, heads: int, total: int) -> Any:
    """Returns a compiled forward+backward of one layer with its residual."""
    import jax
    import keras
    from keras import ops

    from lvbert_tf.layers.encoder import make_residual_layer
    from lvbert_tf.layers.registry import LayerOptions

    options = LayerOptions(hidden, 4 * hidden, heads, attention_dropout=0.0)
    layer = make_residual_layer(letter, options, 0.0, "mixed_bfloat16", letter)
    batch = max(1, total // tokens)
    layer.build((batch, tokens, hidden))
    own = layer.trainable_variables
    mask = ops.ones((batch, tokens), "int32")
    x = keras.random.normal((batch, tokens, hidden), dtype="bfloat16", seed=1)

    def loss(values: list[Any], x: Any) -> Any:
        with keras.StatelessScope(list(zip(own, values, strict=True))):
            y = layer(x, padding_mask=mask, training=True)
        return ops.sum(ops.square(ops.cast(y, "float32")))

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
    values = [v.value for v in own]
    return lambda: jax.block_until_ready(gradient(values, x))


def milliseconds(work: Callable[[], Any], repetitions: int) -> float:
    """Returns the median of some calls, after two to compile and warm up."""
    work()
    work()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def run(
    lengths: list[int], hidden: int, heads: int, total: int, repetitions: int
) -> dict[str, Any]:
    """Measures both layers at every length."""
    import jax

    rows = []
    for tokens in lengths:
        row = {"tokens": tokens, "batch": max(1, total // tokens)}
        for letter in "cs":
            work = step_of(letter, tokens, hidden, heads, total)
            row[letter] = milliseconds(work, repetitions)
        rows.append({**row, "c_to_s": row["c"] / row["s"]})
    device = jax.devices()[0]
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "hidden_dim": hidden,
        "num_heads": heads,
        "dtype": "mixed_bfloat16",
        "rows": rows,
    }


def main() -> int:
    """Parses arguments, measures, prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accelerator")
    parser.add_argument("--tokens", default="128,256,512,1024,2048")
    parser.add_argument("--hidden-dim", type=int, default=256)
    parser.add_argument("--num-heads", type=int, default=4)
    parser.add_argument("--total-tokens", type=int, default=TOTAL_TOKENS)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    result = run(
        [int(n) for n in arguments.tokens.split(",")],
        arguments.hidden_dim,
        arguments.num_heads,
        arguments.total_tokens,
        arguments.repetitions,
    )
    print(
        "| T | batch | c, ms | s, ms | c / s |\n|---|---|---|---|---|", file=sys.stderr
    )
    for row in result["rows"]:
        print(
            f"| {row['tokens']} | {row['batch']} | {row['c']:.2f} | {row['s']:.2f} "
            f"| {row['c_to_s']:.2f} |",
            file=sys.stderr,
        )
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
