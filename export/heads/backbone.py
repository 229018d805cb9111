"""Exporting backbones: texts to hidden states."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from export.heads.base import Array, EncodedGraph, Head, keras_names, packed_texts
from export.signatures import BATCH, SEQUENCE, TOKEN_INPUTS, Tensor

if TYPE_CHECKING:
    from export.parity import Case
    from export.task import Task


class BackboneHead(Head):
    """`LVBertBackbone`: the hidden state of every token, and of the first one.

    Hidden states in the padding of a batch mean nothing and are zero.
    """

    kind = "backbone"
    model_class = "LVBertBackbone"
    title = "encoder"

    def token_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns ``sequence_output`` (B, T, H) and ``pooled_output`` (B, H)."""
        width = task.hidden_dim
        return (
            Tensor("sequence_output", "float32", (BATCH, SEQUENCE, width)),
            Tensor("pooled_output", "float32", (BATCH, width)),
        )

    def text_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns the same and ``padding_mask``, which tokens are real."""
        # Where outputs depend on padding, all texts are padded to one length.
        length = task.sequence_length if task.fixed_length else SEQUENCE
        states, pooled = self.token_outputs(task)
        return (
            Tensor(states.name, states.dtype, (BATCH, length, task.hidden_dim)),
            pooled,
            Tensor("padding_mask", "int32", (BATCH, length)),
        )

    def compute(
        self, model: Any, task: "Task", inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Computes hidden states."""
        import tensorflow as tf

        hidden = model.backbone(keras_names(inputs), training=False)
        hidden = tf.cast(hidden, tf.float32)
        real = tf.cast(inputs["padding_mask"], tf.float32)[..., tf.newaxis]
        return {"sequence_output": hidden * real, "pooled_output": hidden[:, 0]}

    def finish(self, task: "Task", outputs: dict[str, Any], length: Any) -> Any:
        """Cuts the hidden states to as many tokens as were given."""
        return {**outputs, "sequence_output": outputs["sequence_output"][:, :length]}

    def text_answer(self, graph: Any, texts: Sequence[Any]) -> dict[str, Any]:
        """Adds the padding mask."""
        inputs, truncated = graph.packed(texts)
        outputs = graph.run(dict(zip(TOKEN_INPUTS, inputs, strict=True)))
        return {**outputs, "padding_mask": inputs[2], "truncated": truncated}

    def emit(self, graph: "EncodedGraph") -> dict[str, str]:
        """Writes both outputs."""
        builder = graph.builder
        with builder.scope("head"):
            real = builder.op("Cast", graph.inputs["padding_mask"], to=1)
            real = builder.op("Unsqueeze", real, builder.integers(2))
            return {
                "sequence_output": builder.op("Mul", graph.hidden, real),
                "pooled_output": graph.first_token(),
            }

    def keras_outputs(
        self, model: Any, task: "Task", inputs: dict[str, Array]
    ) -> dict[str, Array]:
        """Returns the same as `compute`."""
        hidden = np.asarray(model.backbone(inputs, training=False), dtype="float32")
        real = inputs["padding_mask"].astype("float32")[..., None]
        return {"sequence_output": hidden * real, "pooled_output": hidden[:, 0]}

    def text_cases(self, model: Any, task: "Task", seed: int = 0) -> "list[Case]":
        """Returns texts that exercise a tokenizer, one at a time and together."""
        from export.parity import Case, reference_texts, text_arrays

        texts = reference_texts(
            model.preprocessor.tokenizer.get_vocabulary(), task.sequence_length, seed
        )
        cases = []
        for name, rows in (("texts", texts), ("one text", texts[1:2])):
            batch = packed_texts(model, [rows])
            if not task.fixed_length:
                # As wide as the longest text: what the signature gives.
                width = int(batch["padding_mask"].sum(axis=1).max())
                batch = {name: values[:, :width] for name, values in batch.items()}
            inputs = text_arrays(self.text_input_names(task), [rows])
            cases.append(Case(name, inputs, self.reference(model, task, batch)))
        return cases
