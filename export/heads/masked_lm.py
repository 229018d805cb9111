"""Exporting masked language models: proposals for every ``[MASK]`` of a text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from export.heads.base import Array, EncodedGraph, Head, keras_names
from export.signatures import BATCH, KERAS_INPUTS, MASKS, TOKEN_INPUTS, Tensor

if TYPE_CHECKING:
    from export.parity import Case
    from export.task import Task

TOP = 5
"""Proposals for each mask in answers to texts."""
MASK_TOKEN = "[MASK]"


class MaskedLMHead(Head):
    """`LVBertMaskedLM`: logits at some positions, or words for ``[MASK]`` in a text."""

    kind = "masked_lm"
    model_class = "LVBertMaskedLM"
    title = "masked language model"

    def token_inputs(self, task: "Task", dtype: str) -> tuple[Tensor, ...]:
        """Returns the token inputs and ``mask_positions`` (B, M)."""
        positions = Tensor("mask_positions", dtype, (BATCH, MASKS))
        return (*super().token_inputs(task, dtype), positions)

    def token_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns ``logits`` (B, M, V)."""
        return (Tensor("logits", "float32", (BATCH, MASKS, task.vocabulary_size)),)

    def text_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns ``scores`` and ``tokens`` (B, M, K), most probable first."""
        top = min(TOP, task.vocabulary_size)
        return (
            Tensor("scores", "float32", (BATCH, MASKS, top)),
            Tensor("tokens", "string", (BATCH, MASKS, top)),
        )

    def compute(
        self, model: Any, task: "Task", inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Computes logits."""
        import tensorflow as tf

        logits = tf.cast(model(keras_names(inputs), training=False), tf.float32)
        return {"logits": tf.ensure_shape(logits, [None, None, task.vocabulary_size])}

    def text_answer(self, graph: Any, texts: Sequence[Any]) -> dict[str, Any]:
        """Fills every literal ``[MASK]``; rows with fewer end in "" and 0."""
        import tensorflow as tf

        tokenizer = graph.model.preprocessor.tokenizer
        ids = masked_ids(tokenizer, texts[0])
        inputs, truncated = graph.packed_ids([ids])
        is_mask = tf.equal(inputs[0], tokenizer.special.mask)
        column = tf.broadcast_to(
            tf.range(tf.shape(is_mask)[1])[tf.newaxis], tf.shape(is_mask)
        )
        places = tf.ragged.boolean_mask(column, is_mask)
        used = tf.sequence_mask(places.row_lengths())
        logits = graph.run(
            {
                **dict(zip(TOKEN_INPUTS, inputs, strict=True)),
                "mask_positions": tf.cast(places.to_tensor(), tf.int32),
            }
        )["logits"]
        top = min(TOP, graph.task.vocabulary_size)
        shares, best = tf.math.top_k(tf.nn.softmax(logits), top)
        words = tf.gather(tf.constant(tokenizer.get_vocabulary()), best)
        return {
            "scores": tf.where(used[..., tf.newaxis], shares, 0.0),
            "tokens": tf.where(used[..., tf.newaxis], words, ""),
            "truncated": truncated,
        }

    def emit(self, graph: "EncodedGraph") -> dict[str, str]:
        """Writes the head, whose product takes the table of the embeddings."""
        builder, head = graph.builder, graph.model.masked_lm_head
        table = "embeddings/token_embedding"
        if table not in builder.initializers:
            raise ValueError(f"the encoder's graph has no {table}")
        with builder.scope("head"):
            # Gathers rows b of positions (B, M) from (B, T, H).
            positions = graph.inputs["mask_positions"]
            at = builder.op("Unsqueeze", positions, builder.integers(2))
            hidden = builder.op("GatherND", graph.hidden, at, batch_dims=1)
            dense = head.dense
            inner = builder.gelu(
                builder.dense(hidden, dense.kernel, dense.bias, "dense")
            )
            normal = builder.layer_norm(inner, head.layer_norm)
            transposed = builder.op("Transpose", table, perm=[1, 0])
            logits = builder.op("MatMul", normal, transposed)
            bias = builder.weight("output_bias", head.output_bias)
            return {"logits": builder.op("Add", logits, bias)}

    def keras_outputs(
        self, model: Any, task: "Task", inputs: dict[str, Array]
    ) -> dict[str, Array]:
        """Returns float32 logits (B, M, V)."""
        return {"logits": np.asarray(model(inputs, training=False), dtype="float32")}

    def more_inputs(self, task: "Task", batch: dict[str, Array]) -> dict[str, Array]:
        """Returns as positions the first real token, the last one and one between."""
        last = batch["padding_mask"].sum(axis=1, keepdims=True) - 1
        positions = np.concatenate([last * 0, last // 2, last], axis=1)
        return {"mask_positions": positions.astype("int32")}

    def text_cases(self, model: Any, task: "Task", seed: int = 0) -> "list[Case]":
        """Returns texts with masks at either end, side by side, and inside words."""
        from export.parity import Case, text_arrays

        words = [
            word
            for word in model.preprocessor.tokenizer.get_vocabulary()
            if word.isalnum()
        ][-3:] or ["a"]
        texts = [
            f"{words[0]} [MASK] {words[-1]}.",
            "[MASK]",
            f"[MASK][MASK] {words[-1]} no[MASK]naïve [MASK]",
        ]
        # `fill` refuses what the length would cut off.
        texts = [text for text in texts if len(text) < task.sequence_length] or texts[
            1:2
        ]
        top = min(TOP, task.vocabulary_size)
        blanks = model.preprocessor.blanks(texts)
        used = blanks.pop("mask_weights") > 0
        names = dict(zip(KERAS_INPUTS, TOKEN_INPUTS, strict=True))
        batch = {names.get(name, name): value for name, value in blanks.items()}
        logits = self.reference(model, task, batch)["logits"].astype("float64")
        exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
        shares = exponentials / exponentials.sum(axis=-1, keepdims=True)
        best = -np.sort(-shares, axis=-1)[..., :top]
        scores = np.where(used[..., None], best, 0).astype("float32")
        inputs = text_arrays(self.text_input_names(task), [texts])
        return [Case("texts", inputs, {"scores": scores})]

    def check_answers(
        self, case: "Case", answer: Mapping[str, Array], task: "Task"
    ) -> None:
        """Checks that there is a token where there is a score, and only there."""
        from export.parity import LabelMismatchError

        if "tokens" not in answer:  # an answer to token inputs
            return
        if ((answer["tokens"] != b"") != (answer["scores"] > 0)).any():
            raise LabelMismatchError(
                f"{case.name}: expected a token for every score. "
                f"Received: {answer['tokens'].tolist()}"
            )


def masked_ids(tokenizer: Any, text: Any) -> Any:
    """Tokenizes strings (B,) in a graph; every literal ``[MASK]`` is one masked token.

    Text never gives special tokens, so it is cut at the masks and put together again.
    """
    import tensorflow as tf

    # With one more at the end, no string is empty, and every part but the last, which
    # is empty, is followed by a mask.
    parts = tf.strings.split(tf.strings.join([text, MASK_TOKEN]), MASK_TOKEN)
    ids = tokenizer.tokenize_strings(parts.flat_values)
    masks = tf.fill([ids.nrows(), 1], tf.cast(tokenizer.special.mask, ids.dtype))
    joined = tf.concat([ids, tf.RaggedTensor.from_tensor(masks)], axis=1)
    rows = parts.with_flat_values(joined).merge_dims(1, 2)
    return rows[:, :-2]
