"""Raw texts to labels and scores."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from .artefact import ArtefactError, Fields
from .inputs import InputError
from .model import Array, OnnxModel, Row


class OnnxClassifier(OnnxModel):
    """A classifier, or a regression, that takes raw text.

    Several threads may call one object: nothing changes after its construction.

    Args:
        directory: what ``python -m export onnx`` or ``quantize`` wrote.
        verify: whether to compare the files with the manifest's checksums.
        threads: threads for one call; 0 takes as many as there are cores.
        providers: onnxruntime's execution providers, the first that works is used.

    Attributes:
        labels: names of the C classes, in order; none for a regression.
        pairs: whether it takes pairs of texts.
        regression: whether scores are a value instead of probabilities.
        manifest: the whole manifest.

    Raises:
        ArtefactError: if a file is missing, altered or of another format.
    """

    kind = "text_classifier"

    def _read_task(self, task: Fields) -> None:
        super()._read_task(task)
        self.pairs = task.boolean("pairs")
        self.regression = task.boolean("regression")
        self.labels = [] if self.regression else task.strings("labels")
        # The manifest has no checksum of its own; that of the other file holds.
        file = self._manifest_path.with_name("labels.json")
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ArtefactError(f"{file}: expected JSON: {error}") from None
        if stored != self.labels:
            raise ArtefactError(
                f"{self._manifest_path}: task: labels: expected those of "
                f"{file.name}, {stored}. Received: {self.labels}"
            )

    def predict(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        batch_size: int = 32,
    ) -> list[dict[str, Any]]:
        """Returns an answer for each text, in order.

        Args:
            texts: the texts, or the first of each pair.
            pairs: the second of each pair, for a model that takes pairs.
            batch_size: texts computed at a time.

        Returns:
            For each ``{"label": ..., "scores": [...], "truncated": bool}``: the name
            of the highest of the C scores, the scores, and whether tokens were cut
            because the text or pair was too long. A regression gives no label.

        Raises:
            InputError: if an argument is not as described.
        """
        segments = self._segments(texts, pairs)
        rows = [self._row(*parts) for parts in zip(*segments, strict=True)]
        scores: list[list[float]] = [[] for _ in rows]
        for chosen, batch in self._batches(rows, batch_size):
            values = self._run(batch)["scores"].tolist()
            for index, row in zip(chosen, values, strict=True):
                scores[index] = row
        return [
            self._answer(values, self._truncated(*map(len, parts)))
            for values, parts in zip(scores, zip(*segments, strict=True), strict=True)
        ]

    def predict_one(self, text: str, pair: str | None = None) -> dict[str, Any]:
        """Returns the answer for one text or pair, as `predict` gives it.

        Raises:
            InputError: if an argument is not as described.
        """
        (answer,) = self.predict([text], None if pair is None else [pair])
        return answer

    def predict_tokens(
        self, input_ids: Any, segment_ids: Any = None, padding_mask: Any = None
    ) -> Array:
        """Returns the scores for token ids of your own.

        Args:
            input_ids: integers (B, T), of any integer type, or nested lists.
            segment_ids: the same; None for zeros.
            padding_mask: the same, 1 for real tokens; None for ones.

        Returns:
            float32 (B, C).

        Raises:
            InputError: for a wrong rank, type or shape, too many tokens, or a value
                outside its range, naming the argument.
        """
        batch = self._checked_tokens(input_ids, segment_ids, padding_mask)
        return self._run(batch)["scores"]

    def _segments(
        self, texts: Sequence[str], pairs: Sequence[str] | None
    ) -> list[list[list[int]]]:
        """Returns the token ids of every text, for one or two segments."""
        if self.pairs != (pairs is not None):
            raise InputError(
                "pairs: expected "
                + ("the second texts" if self.pairs else "none: this model takes one")
                + f". Received: {'none' if pairs is None else 'some'}"
            )
        given = {"texts": texts} if pairs is None else {"texts": texts, "pairs": pairs}
        segments = [
            [encoding.ids for encoding in self._encode(name, values)]
            for name, values in given.items()
        ]
        if len(segments) == 2 and len(segments[0]) != len(segments[1]):
            raise InputError(
                f"pairs: expected as many as texts, {len(segments[0])}. "
                f"Received: {len(segments[1])}"
            )
        return segments

    def _answer(self, scores: list[float], truncated: bool) -> dict[str, Any]:
        label = (
            {} if self.regression else {"label": self.labels[int(np.argmax(scores))]}
        )
        return {**label, "scores": scores, "truncated": truncated}

    def _truncated(self, *lengths: int) -> bool:
        """Whether texts of so many tokens do not fit beside [CLS] and the [SEP]s."""
        return sum(lengths) > self._sequence_length - 1 - len(lengths)

    def _row(self, first: list[int], second: list[int] | None = None) -> Row:
        """Returns token and segment ids of one text or pair, cut longest first."""
        if second is None:
            return self._single(first)
        budget = self._sequence_length - 3
        # On equal lengths the second is cut first, as in training.
        kept = min(len(first), max((budget + 1) // 2, budget - len(second)))
        head = [self._cls_id, *first[:kept], self._sep_id]
        tail = [*second[: budget - kept], self._sep_id]
        return head + tail, [0] * len(head) + [1] * len(tail)
