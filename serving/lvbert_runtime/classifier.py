"""The predictor: raw texts to labels and scores, by onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import tokenizers

from .artefact import ArtefactError, read_manifest
from .inputs import InputError, integer_matrix

Array = npt.NDArray[Any]

_INPUTS = ("input_ids", "segment_ids", "padding_mask")


class OnnxClassifier:
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

    def __init__(
        self,
        directory: str | Path,
        *,
        verify: bool = True,
        threads: int = 0,
        providers: Sequence[str] = ("CPUExecutionProvider",),
    ) -> None:
        folder = Path(directory)
        self._arguments = {
            "directory": folder.absolute(),
            "verify": verify,
            "threads": threads,
            "providers": tuple(providers),
        }
        self.manifest = read_manifest(folder, verify)
        try:
            task = self.manifest["task"]
            self.pairs: bool = task["pairs"]
            self.regression: bool = task["regression"]
            self.labels: list[str] = [] if self.regression else list(task["labels"])
            self._sequence_length: int = task["sequence_length"]
            self._longest_input: int = self.manifest["longest_input"]
            self._fixed_length: bool = task["fixed_length"]
            self._limits = (task["vocabulary_size"], task["num_segments"], 2)
            self._pad_id: int = task["pad_token_id"]
        except (KeyError, TypeError) as error:
            raise ArtefactError(
                f"{folder / 'manifest.json'}: expected the field {error}"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(
                str(folder / "tokenizer.json")
            )
            self._session = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), options, providers=list(providers)
            )
        except Exception as error:  # neither library has an exception of its own
            raise ArtefactError(f"{folder}: cannot be loaded: {error}") from error
        self._cls_id = self._special_id("[CLS]")
        self._sep_id = self._special_id("[SEP]")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles where the files are: another process loads them itself.

        They are compared with the checksums there if they were here; a session of
        onnxruntime cannot be pickled.
        """
        return _load, (type(self), self._arguments)

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
        if batch_size < 1:
            raise InputError(f"batch_size: expected at least 1. Received: {batch_size}")
        rows = [self._row(*parts) for parts in zip(*segments, strict=True)]
        # Texts of like length go together, so that little is padded.
        order = sorted(range(len(rows)), key=lambda index: len(rows[index][0]))
        scores: list[list[float]] = [[] for _ in rows]
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = self._padded([rows[index] for index in chosen])
            for index, values in zip(chosen, self._run(batch).tolist(), strict=True):
                scores[index] = values
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
        ids = integer_matrix("input_ids", input_ids)
        if not 1 <= ids.shape[1] <= self._longest_input:
            raise InputError(
                f"input_ids: expected 1 to {self._longest_input} tokens. "
                f"Received: {ids.shape[1]}"
            )
        given = {"segment_ids": segment_ids, "padding_mask": padding_mask}
        batch = {"input_ids": ids}
        for name, default in (("segment_ids", 0), ("padding_mask", 1)):
            value = given[name]
            batch[name] = (
                np.full_like(ids, default)
                if value is None
                else integer_matrix(name, value)
            )
            if batch[name].shape != ids.shape:
                raise InputError(
                    f"{name}: expected the shape of input_ids, {ids.shape}. "
                    f"Received: {batch[name].shape}"
                )
        for (name, values), limit in zip(batch.items(), self._limits, strict=True):
            if values.size and (values.min() < 0 or values.max() >= limit):
                raise InputError(
                    f"{name}: expected values from 0 to {limit - 1}. "
                    f"Received: values from {values.min()} to {values.max()}"
                )
        return self._run(batch)

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
        segments = []
        for name, values in given.items():
            if isinstance(values, (str, bytes)):
                raise InputError(f"{name}: expected a list. Received: one string")
            values = list(values)
            for index, value in enumerate(values):
                if not isinstance(value, str):
                    raise InputError(
                        f"{name}[{index}]: expected str. Received: "
                        f"{type(value).__name__}"
                    )
            # Lone surrogates have no UTF-8 form: dropped, as the served graph drops
            # bytes that are none.
            clean = [value.encode("utf-8", "ignore").decode() for value in values]
            encodings = self._tokenizer.encode_batch(clean, add_special_tokens=False)
            segments.append([encoding.ids for encoding in encodings])
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

    def _row(
        self, first: list[int], second: list[int] | None = None
    ) -> tuple[list[int], list[int]]:
        """Returns token and segment ids of one text or pair, cut longest first."""
        if second is None:
            ids = [self._cls_id, *first[: self._sequence_length - 2], self._sep_id]
            return ids, [0] * len(ids)
        budget = self._sequence_length - 3
        # On equal lengths the second is cut first, as in training.
        kept = min(len(first), max((budget + 1) // 2, budget - len(second)))
        head = [self._cls_id, *first[:kept], self._sep_id]
        tail = [*second[: budget - kept], self._sep_id]
        return head + tail, [0] * len(head) + [1] * len(tail)

    def _padded(self, rows: Sequence[tuple[list[int], list[int]]]) -> dict[str, Array]:
        """Returns a batch as wide as its longest row, or as training was."""
        width = (
            self._sequence_length
            if self._fixed_length
            else max(len(ids) for ids, _ in rows)
        )
        batch = {
            name: np.full((len(rows), width), fill, dtype=np.int64)
            for name, fill in zip(_INPUTS, (self._pad_id, 0, 0), strict=True)
        }
        for index, (ids, segments) in enumerate(rows):
            batch["input_ids"][index, : len(ids)] = ids
            batch["segment_ids"][index, : len(ids)] = segments
            batch["padding_mask"][index, : len(ids)] = 1
        return batch

    def _run(self, batch: dict[str, Array]) -> Array:
        scores: Array = self._session.run(["scores"], batch)[0]
        return scores

    def _special_id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ArtefactError(f"tokenizer.json: expected the token {token}")
        return int(found)


def _load(kind: type[OnnxClassifier], arguments: dict[str, Any]) -> OnnxClassifier:
    return kind(**arguments)
