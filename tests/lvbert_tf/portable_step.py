"""Runs under any Keras backend, in a process of its own: outputs and a training step.

Usage: ``python -m tests.lvbert_tf.portable_step INPUT.npz OUTPUT.npz``, with
``KERAS_BACKEND`` set. Under another backend than TensorFlow the import of TensorFlow is
blocked. The input holds the ids and every weight by its path.
"""

import os
import sys
from typing import Any

BACKEND = os.environ["KERAS_BACKEND"]
if BACKEND != "tensorflow":
    sys.modules.update(dict.fromkeys(("tensorflow", "tensorflow_text", "tf_keras")))

import keras  # noqa: E402  (after the block)
import numpy as np  # noqa: E402
from keras import ops  # noqa: E402

import lvbert_tf  # noqa: E402

LEARNING_RATE = 0.1


def build() -> tuple[Any, list[Any]]:
    """Returns the backbone and the three heads, built."""
    backbone = lvbert_tf.LVBertBackbone(
        50, "csfcs", 8, 16, 32, 2, kernel_size=5, dropout=0.0, attention_dropout=0.0
    )
    heads = [
        lvbert_tf.MaskedLMHead(50, 8, name="masked_lm"),
        lvbert_tf.ReplacedTokenHead(16, name="replaced"),
        lvbert_tf.SpanHead(3, 8, name="span"),
    ]
    for head in heads:
        head.build((None, None, 16))
    return backbone, heads


def variables(backbone: Any, heads: list[Any]) -> list[Any]:
    """Returns all trainable variables, in one order for all backends."""
    return [v for part in (backbone, *heads) for v in part.trainable_variables]


def outputs(backbone: Any, heads: list[Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Returns hidden states and what the heads make of them."""
    hidden = backbone(inputs, training=True)
    masked_lm, replaced, span = heads
    positions = ops.convert_to_tensor([[1, 3]] * hidden.shape[0], "int32")
    spans = span(hidden, inputs["segment_ids"], inputs["padding_mask"], training=True)
    return {
        "hidden": hidden,
        "mlm": masked_lm(
            hidden, positions, backbone.token_embedding.embeddings, training=True
        ),
        "replaced": replaced(hidden, training=True),
        **spans,
    }


def loss_of(found: dict[str, Any]) -> Any:
    """Returns a scalar that every differentiable output moves."""
    parts = ("hidden", "mlm", "replaced", "unanswerable_logit")
    starts = ops.logsumexp(found["start_logits"], axis=-1)
    return ops.mean(starts) + sum(ops.mean(ops.square(found[n])) for n in parts)


def main(source: str, target: str) -> None:
    """Reads, computes, writes."""
    stored = dict(np.load(source))
    inputs = {
        n: ops.convert_to_tensor(stored.pop(n), "int32") for n in list(stored)[:3]
    }
    backbone, heads = build()
    own = variables(backbone, heads)
    for i, variable in enumerate(own):
        variable.assign(stored[f"weight_{i}"])
    result = {
        k: ops.convert_to_numpy(v) for k, v in outputs(backbone, heads, inputs).items()
    }
    loss, gradients = _gradients(backbone, heads, inputs, own)
    for i, (variable, gradient) in enumerate(zip(own, gradients, strict=True)):
        if gradient is not None:
            variable.assign(variable.value - LEARNING_RATE * gradient)
        result[f"trained_{i}"] = ops.convert_to_numpy(variable.value)
    result["loss"] = np.asarray(loss)
    np.savez(target, **result)


def _gradients(
    backbone: Any, heads: list[Any], inputs: dict[str, Any], own: list[Any]
) -> tuple[Any, list[Any]]:
    """Returns the loss and its gradients, from one compiled step."""
    if BACKEND == "jax":
        import jax

        def loss_with(values: list[Any]) -> Any:
            with keras.StatelessScope(list(zip(own, values, strict=True))):
                return loss_of(outputs(backbone, heads, inputs))

        return jax.jit(jax.value_and_grad(loss_with))([v.value for v in own])
    import tensorflow as tf

    @tf.function(autograph=False)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(outputs(backbone, heads, inputs))
        gradients = tape.gradient(loss, [v.value for v in own])
        return loss, [None if g is None else tf.convert_to_tensor(g) for g in gradients]

    return step()


if __name__ == "__main__":
    main(*sys.argv[1:])
