"""What all predictors share: an artefact, its tokenizer, and batches of rows."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import onnxruntime
import tokenizers

from .artefact import ArtefactError, read_manifest
from .inputs import InputError, integer_matrix

Array = npt.NDArray[Any]
Row = tuple[list[int], list[int]]
"""Token ids and segment ids of one text or pair."""

_INPUTS = ("input_ids", "segment_ids", "padding_mask")


class OnnxModel:
    """An exported model of some kind, on onnxruntime.

    Several threads may call one object: nothing changes after its construction.

    Args:
        directory: what ``python -m export onnx`` or ``quantize`` wrote.
        verify: whether to compare the files with the manifest's checksums.
        threads: threads for one call; 0 takes as many as there are cores.
        providers: onnxruntime's execution providers, the first that works is used.

    Attributes:
        manifest: the whole manifest.

    Raises:
        ArtefactError: if a file is missing, altered or of another format, or the model
            is of another kind.
    """

    kind: ClassVar[str]

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
            kind = task.get("kind", "text_classifier")
            if kind != self.kind:
                raise ArtefactError(
                    f"{folder / 'manifest.json'}: expected a model of kind "
                    f"{self.kind} for {type(self).__name__}. Received: {kind}"
                )
            self._read_task(task)
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
        self._outputs = [output.name for output in self._session.get_outputs()]
        self._cls_id = self._special_id("[CLS]")
        self._sep_id = self._special_id("[SEP]")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles where the files are: another process loads them itself.

        They are compared with the checksums there if they were here; a session of
        onnxruntime cannot be pickled.
        """
        return _load, (type(self), self._arguments)

    def _read_task(self, task: Mapping[str, Any]) -> None:
        """Takes what is needed from the manifest's task."""
        self._sequence_length: int = task["sequence_length"]
        self._longest_input: int = self.manifest["longest_input"]
        self._fixed_length: bool = task["fixed_length"]
        self._limits = (task["vocabulary_size"], task["num_segments"], 2)
        self._pad_id: int = task["pad_token_id"]

    def _checked_tokens(
        self, input_ids: Any, segment_ids: Any = None, padding_mask: Any = None
    ) -> dict[str, Array]:
        """Returns token inputs int64 (B, T), segments 0 and mask 1 by default.

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
        return batch

    def _encode(self, name: str, values: Sequence[str]) -> list[Any]:
        """Tokenizes texts.

        Raises:
            InputError: if they are no list of strings.
        """
        if isinstance(values, (str, bytes)):
            raise InputError(f"{name}: expected a list. Received: one string")
        values = list(values)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise InputError(
                    f"{name}[{index}]: expected str. Received: {type(value).__name__}"
                )
        clean = [without_surrogates(value) for value in values]
        encodings: list[Any] = self._tokenizer.encode_batch(
            clean, add_special_tokens=False
        )
        return encodings

    def _batches(
        self, rows: Sequence[Row], batch_size: int
    ) -> Iterator[tuple[list[int], dict[str, Array]]]:
        """Yields indices of rows and their token inputs.

        Rows of like length go together, so that little is padded.

        Raises:
            InputError: for a batch size below 1.
        """
        if batch_size < 1:
            raise InputError(f"batch_size: expected at least 1. Received: {batch_size}")
        order = sorted(range(len(rows)), key=lambda index: len(rows[index][0]))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            yield chosen, self._padded([rows[index] for index in chosen])

    def _single(self, ids: Sequence[int]) -> Row:
        """Returns the row of one text, cut to the longest that there is room for."""
        row = [self._cls_id, *ids[: self._sequence_length - 2], self._sep_id]
        return row, [0] * len(row)

    def _padded(self, rows: Sequence[Row]) -> dict[str, Array]:
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

    def _run(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        values = self._session.run(self._outputs, dict(batch))
        return dict(zip(self._outputs, values, strict=True))

    def _special_id(self, token: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise ArtefactError(f"tokenizer.json: expected the token {token}")
        return int(token_id)


def without_surrogates(text: str) -> str:
    """Drops lone surrogates, which have no UTF-8 form, as the served graph does."""
    return text.encode("utf-8", "ignore").decode()


def _load(kind: type[OnnxModel], arguments: dict[str, Any]) -> OnnxModel:
    return kind(**arguments)
