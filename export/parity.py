"""Comparing what an artefact computes with what Keras computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from common.command_line import CommandError
from export.heads import head_of
from export.task import Task

Array = npt.NDArray[Any]

SAVED_MODEL_TOLERANCE = 1e-5
"""At most: same kernels, another padding, so only the order of sums differs."""
ONNX_TOLERANCE = 1e-4
"""At most: `erf`, `softmax` and matrix products of other kernels round differently."""


class ParityError(CommandError):
    """The artefact does not compute what Keras computes."""


class ShapeMismatchError(ParityError):
    """An output has another shape or type."""


class NotFiniteError(ParityError):
    """A score is NaN or infinite."""


class ScoreMismatchError(ParityError):
    """Scores differ by more than the tolerance."""

    def __init__(
        self, case: str, difference: float, tolerance: float, name: str = "scores"
    ) -> None:
        super().__init__(
            f"{case}: {name} differ from Keras by up to {difference:.3g}, "
            f"tolerance {tolerance:.3g}"
        )
        self.difference = difference
        self.tolerance = tolerance


class LabelMismatchError(ParityError):
    """A label is not that of the highest score."""


class TokenMismatchError(ParityError):
    """The artefact's tokenizer gives other ids."""


@dataclass(frozen=True)
class Case:
    """Inputs, and the numbers that Keras gives for them.

    Attributes:
        name: for messages and manifests, such as ``"tokens 3x33"``.
        inputs: arrays by their names in the signature.
        outputs: arrays by their names in the signature, first axis B.
    """

    name: str
    inputs: dict[str, Array]
    outputs: dict[str, Array]


class Comparison:
    """Collects how outputs of several cases differ from Keras's.

    Args:
        tolerance: largest difference allowed, for outputs of size 1. Where they are
            larger, as values of a regression, it is multiplied by the largest of them.

    Attributes:
        tolerance: the argument.
        differences: largest difference of each case, by its name.
        other_model: what the artefact's manifest says against its being made from
            this model, a sentence each; None where there is no manifest.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.differences: dict[str, float] = {}
        self.other_model: list[str] | None = None
        self._errors: list[ScoreMismatchError] = []

    @property
    def max_abs_difference(self) -> float:
        """The largest difference of all cases."""
        return max(self.differences.values(), default=0.0)

    def add(self, case: Case, outputs: Mapping[str, Array]) -> None:
        """Measures how the outputs of a case differ.

        Raises:
            ParityError: if they cannot be compared.
        """
        for name, expected in case.outputs.items():
            self._add(case.name, name, expected, outputs[name])

    def _add(self, case: str, name: str, expected: Array, received: Array) -> None:
        if received.shape != expected.shape or received.dtype != expected.dtype:
            raise ShapeMismatchError(
                f"{case}: expected {name} {expected.dtype} {expected.shape}. "
                f"Received: {received.dtype} {received.shape}"
            )
        for source, values in (("Keras", expected), ("the artefact", received)):
            if not np.isfinite(values).all():
                raise NotFiniteError(
                    f"{case}: {source} gives {name} that are not finite"
                )
        difference = float(np.abs(received - expected).max(initial=0.0))
        allowed = self.tolerance * float(np.abs(expected).max(initial=1.0))
        self.differences[case] = max(difference, self.differences.get(case, 0.0))
        if difference > allowed:
            self._errors.append(ScoreMismatchError(case, difference, allowed, name))

    @property
    def mismatch(self) -> ScoreMismatchError | None:
        """The worst difference that is too large, None if there is none."""
        return max(self._errors, key=lambda error: error.difference, default=None)

    def verify(self) -> None:
        """Raises `ScoreMismatchError` if a difference is too large."""
        if self.mismatch is not None:
            raise self.mismatch


def check_labels(case: Case, scores: Array, labels: Array, task: Task) -> None:
    """Compares an artefact's labels, bytes (B,), with its own highest scores.

    Raises:
        LabelMismatchError: if they differ.
    """
    expected = [task.labels[index] for index in np.argmax(scores, axis=-1)]
    received = [label.decode("utf-8") for label in labels]
    if received != expected:
        raise LabelMismatchError(
            f"{case.name}: expected the labels {expected}. Received: {received}"
        )


def token_cases(model: Any, task: Task, seed: int = 0) -> list[Case]:
    """Returns cases of several batch sizes and lengths, some rows padded.

    The first row of a batch is full, the last one half padding.
    """
    generator = np.random.default_rng(seed)
    longest = task.longest_input
    cases = []
    for rows, tokens in ((1, 1), (1, 7), (3, 33), (5, longest)):
        width = min(tokens, longest)
        lengths = np.linspace(width, (width + 1) // 2, rows).astype(int)[:, None]
        position = np.arange(width)[None]
        mask = (position < lengths).astype("int32")
        # A second segment from a third of the row on, as in pairs.
        segments = ((position >= (lengths + 2) // 3) & (mask > 0)).astype("int32")
        ids = generator.integers(0, task.vocabulary_size, (rows, width))
        batch = {
            "input_ids": np.where(mask > 0, ids, task.pad_token_id).astype("int32"),
            "segment_ids": np.minimum(segments, task.num_segments - 1),
            "padding_mask": mask,
        }
        cases.append(token_case(f"tokens {rows}x{width}", model, task, batch))
    return cases


def token_case(name: str, model: Any, task: Task, batch: dict[str, Array]) -> Case:
    """Returns a case of token inputs, with what else the kind of model takes."""
    head = head_of(task)
    inputs = {**batch, **head.more_inputs(task, batch)}
    outputs = head.reference(model, task, inputs)
    return Case(name, inputs, head.comparable(inputs, outputs))


def reference_texts(
    vocabulary: Sequence[str], sequence_length: int, seed: int = 0
) -> list[str]:
    """Returns texts that exercise a tokenizer: empty, odd, ordinary and overlong."""
    generator = np.random.default_rng(seed)
    words = [token for token in vocabulary if token.isalnum() and token.islower()]
    words = words or ["a"]
    ordinary = [
        " ".join(generator.choice(words, size=size)) + "." for size in (3, 12, 25)
    ]
    return [
        *ordinary,
        "",
        "A naïve café “quoted”, 中文字, Straße №5 ½ ﬁ ΟΔΟΣ",
        "a literal [MASK] [SEP] and\ttabs,\nlines\u200b and soft\u00adhyphens",
        "b" * 201 + " !?",
        " ".join(generator.choice(words, size=2 * sequence_length)),
    ]


def text_arrays(
    names: Sequence[str], columns: Sequence[Sequence[str]]
) -> dict[str, Array]:
    """Returns texts as the inputs of a text signature: object arrays of bytes (B,)."""
    return {
        name: np.array([text.encode() for text in column], dtype=object)
        for name, column in zip(names, columns, strict=True)
    }
