"""Raw texts to hidden states, or to one vector each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .inputs import InputError
from .model import Array, OnnxModel

POOLINGS = ("mean", "first")


class OnnxEncoder(OnnxModel):
    """A backbone that takes raw text; arguments as those of `OnnxModel`."""

    kind = "backbone"

    def encode(
        self, texts: Sequence[str], *, batch_size: int = 32
    ) -> list[dict[str, Any]]:
        """Returns the hidden states of each text, in order.

        Args:
            texts: the texts.
            batch_size: texts computed at a time.

        Returns:
            For each ``{"tokens": [...], "hidden": float32 (T, H), "truncated": bool}``:
            its T tokens with [CLS] and [SEP], their hidden states, and whether tokens
            were cut because the text was too long.

        Raises:
            InputError: if an argument is not as described.
        """
        encodings = self._encode("texts", texts)
        rows = [self._single(encoding.ids) for encoding in encodings]
        hidden: list[Array] = [np.zeros((0, 0), "float32") for _ in rows]
        for chosen, batch in self._batches(rows, batch_size):
            states = self._run(batch)["sequence_output"]
            for index, values in zip(chosen, states, strict=True):
                hidden[index] = values[: len(rows[index][0])].copy()
        return [
            {
                "tokens": [self._tokenizer.id_to_token(token) for token in ids],
                "hidden": values,
                "truncated": len(encoding.ids) > self._sequence_length - 2,
            }
            for (ids, _), values, encoding in zip(rows, hidden, encodings, strict=True)
        ]

    def embed(
        self, texts: Sequence[str], *, pooling: str = "mean", batch_size: int = 32
    ) -> Array:
        """Returns one vector for each text, float32 (B, H).

        Args:
            texts: the texts.
            pooling: ``"mean"`` of the hidden states of all tokens, or that of the
                ``"first"`` token, [CLS].
            batch_size: texts computed at a time.

        Raises:
            InputError: if an argument is not as described.
        """
        if pooling not in POOLINGS:
            raise InputError(
                f"pooling: expected {' or '.join(POOLINGS)}. Received: {pooling!r}"
            )
        states = [
            answer["hidden"] for answer in self.encode(texts, batch_size=batch_size)
        ]
        width = self.manifest["task"]["hidden_dim"]
        vectors = [h.mean(axis=0) if pooling == "mean" else h[0] for h in states]
        return np.stack(vectors) if vectors else np.zeros((0, width), "float32")
