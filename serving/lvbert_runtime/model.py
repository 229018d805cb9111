"""What all predictors share: an artefact, its tokenizer, and batches of rows."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import onnxruntime
import tokenizers

from .artefact import ArtefactError, Fields, read_manifest
from .inputs import InputError, integer_matrix, string_list, whole_number

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
        InputError: if `threads` or `providers` will not do.
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
        threads = whole_number("threads", threads, 0)
        providers = _available(providers)
        self._arguments = {
            "directory": folder.absolute(),
            "verify": verify,
            "threads": threads,
            "providers": tuple(providers),
        }
        self.manifest = read_manifest(folder, verify)
        self._manifest_path = folder / "manifest.json"
        task = Fields(f"{self._manifest_path}: task", self.manifest.get("task"))
        kind = task.text("kind", "text_classifier")
        if kind != self.kind:
            raise ArtefactError(
                f"{self._manifest_path}: expected a model of kind {self.kind} for "
                f"{type(self).__name__}. Received: {kind}"
            )
        self._read_task(task)
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

    def _read_task(self, task: Fields) -> None:
        """Takes what is needed from the manifest's task."""
        whole = Fields(str(self._manifest_path), self.manifest)
        self._longest_input = whole.integer("longest_input", 1)
        # Room for [CLS] and [SEP].
        self._sequence_length = task.integer("sequence_length", 2, self._longest_input)
        self._fixed_length = task.boolean("fixed_length")
        vocabulary_size = task.integer("vocabulary_size", 1)
        self._limits = (vocabulary_size, task.integer("num_segments", 1), 2)
        self._pad_id = task.integer("pad_token_id", 0, vocabulary_size - 1)

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
        encodings: list[Any] = self._tokenizer.encode_batch(
            string_list(name, values), add_special_tokens=False
        )
        return encodings

    def _batches(
        self, rows: Sequence[Row], batch_size: int
    ) -> Iterator[tuple[list[int], dict[str, Array]]]:
        """Yields indices of rows and their token inputs.

        Rows of like length go together, so that little is padded.

        Raises:
            InputError: for a batch size that is no integer from 1.
        """
        batch_size = whole_number("batch_size", batch_size, 1)
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


def _available(providers: Sequence[str]) -> list[str]:
    """Returns those of onnxruntime's execution providers that are there, in order.

    Raises:
        InputError: if none is.
    """
    known = onnxruntime.get_available_providers()
    found = [name for name in string_list("providers", providers) if name in known]
    if not found:
        raise InputError(
            f"providers: expected one of {', '.join(known)}. "
            f"Received: {list(providers)}"
        )
    return found


def _load(kind: type[OnnxModel], arguments: dict[str, Any]) -> OnnxModel:
    return kind(**arguments)
