"""Proposals for every ``[MASK]`` of a text."""

from collections.abc import Sequence

import numpy as np

from .inputs import InputError
from .model import OnnxModel, Row

MASK = "[MASK]"


class OnnxMaskedLM(OnnxModel):
    """A masked language model that takes raw text; arguments as of `OnnxModel`."""

    kind = "masked_lm"

    def fill(
        self, texts: Sequence[str], *, top_k: int = 5, batch_size: int = 32
    ) -> list[list[list[tuple[str, float]]]]:
        """Proposes tokens for every literal ``[MASK]`` in some texts.

        Args:
            texts: strings, each with at least one ``[MASK]``.
            top_k: proposals for each mask, most probable first.
            batch_size: texts computed at a time.

        Returns:
            For each text, for each of its masks, (token, probability).

        Raises:
            InputError: if an argument is not as described, or a text is so long that
                a mask would be cut off.
        """
        size = self._limits[0]
        if not 1 <= top_k <= size:
            raise InputError(f"top_k: expected 1 to {size}. Received: {top_k}")
        rows = self._rows(texts)
        mask_id = self._special_id(MASK)
        answers: list[list[list[tuple[str, float]]]] = [[] for _ in rows]
        for chosen, batch in self._batches(rows, batch_size):
            places = [np.flatnonzero(row == mask_id) for row in batch["input_ids"]]
            positions = np.zeros((len(chosen), max(map(len, places))), np.int64)
            for row, columns in zip(positions, places, strict=True):
                row[: len(columns)] = columns
            logits = self._run({**batch, "mask_positions": positions})["logits"]
            for index, columns, values in zip(chosen, places, logits, strict=True):
                answers[index] = [
                    self._best(row, top_k) for row in values[: len(columns)]
                ]
        return answers

    def _best(self, logits: np.ndarray, top_k: int) -> list[tuple[str, float]]:
        exponentials = np.exp(logits.astype("float64") - logits.max())
        shares = exponentials / exponentials.sum()
        best = np.argsort(-shares, kind="stable")[:top_k]
        return [
            (str(self._tokenizer.id_to_token(int(i))), float(shares[i])) for i in best
        ]

    def _rows(self, texts: Sequence[str]) -> list[Row]:
        self._encode("texts", texts)  # refuses what is no list of strings
        mask_id = self._special_id(MASK)
        limit = self._sequence_length - 2
        rows = []
        for index, text in enumerate(texts):
            parts = [part.ids for part in self._encode("texts", text.split(MASK))]
            if len(parts) < 2:
                raise InputError(f"texts[{index}]: expected a {MASK} in {text[:60]!r}")
            ids = [*parts[0]]
            for part in parts[1:]:
                ids += [mask_id, *part]
            if mask_id in ids[limit:]:
                raise InputError(
                    f"texts[{index}]: a {MASK} stands behind the {limit} tokens that "
                    f"there is room for. Received: {len(ids)} tokens"
                )
            rows.append(self._single(ids))
        return rows
