"""Comparing what an artefact computes with what Keras computes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from common.command_line import CommandError
from export.signatures import KERAS_INPUTS, TEXT_INPUTS, TOKEN_INPUTS
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

    def __init__(self, case: str, difference: float, tolerance: float) -> None:
        super().__init__(
            f"{case}: scores differ from Keras by up to {difference:.3g}, "
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
    """Inputs, and the scores that Keras gives for them.

    Attributes:
        name: for messages and manifests, such as ``"tokens 3x33"``.
        inputs: arrays by their names in the signature.
        scores: float32 (B, C).
    """

    name: str
    inputs: dict[str, Array]
    scores: Array


class Comparison:
    """Collects how scores of several cases differ from Keras's.

    Args:
        tolerance: largest difference allowed, for scores of size 1. Values of a
            regression may be larger; there it is multiplied by the largest of them.

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

    def add(self, case: Case, scores: Array) -> None:
        """Measures how the scores of a case differ.

        Raises:
            ParityError: if they cannot be compared.
        """
        if scores.shape != case.scores.shape or scores.dtype != np.float32:
            raise ShapeMismatchError(
                f"{case.name}: expected scores float32 {case.scores.shape}. "
                f"Received: {scores.dtype} {scores.shape}"
            )
        for source, values in (("Keras", case.scores), ("the artefact", scores)):
            if not np.isfinite(values).all():
                raise NotFiniteError(
                    f"{case.name}: {source} gives scores that are not finite"
                )
        difference = float(np.abs(scores - case.scores).max(initial=0.0))
        allowed = self.tolerance * float(np.abs(case.scores).max(initial=1.0))
        self.differences[case.name] = max(
            difference, self.differences.get(case.name, 0.0)
        )
        if difference > allowed:
            self._errors.append(ScoreMismatchError(case.name, difference, allowed))

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


def keras_scores(classifier: Any, task: Task, batch: dict[str, Array]) -> Array:
    """Returns what Keras gives for token inputs: probabilities, or values.

    Args:
        classifier: the model.
        task: what it does.
        batch: int arrays (B, T) by the names in `TOKEN_INPUTS`.

    Returns:
        float32 (B, C).
    """
    widths = {name: batch[name].shape[1] for name in TOKEN_INPUTS}
    missing = task.sequence_length - widths["input_ids"] if task.fixed_length else 0
    fill = dict(zip(TOKEN_INPUTS, (task.pad_token_id, 0, 0), strict=True))
    inputs = {
        keras_name: np.pad(
            batch[name].astype("int32"),
            ((0, 0), (0, missing)),
            constant_values=fill[name],
        )
        for name, keras_name in zip(TOKEN_INPUTS, KERAS_INPUTS, strict=True)
    }
    with warnings.catch_warnings():
        # Keras takes the softmax over the one key of a one-token text for a mistake.
        warnings.filterwarnings("ignore", message="You are using a softmax over axis")
        outputs = np.asarray(classifier(inputs, training=False), dtype="float64")
    if task.logits:
        exponentials = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return outputs.astype("float32")


def token_cases(classifier: Any, task: Task, seed: int = 0) -> list[Case]:
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
        name = f"tokens {rows}x{width}"
        cases.append(Case(name, batch, keras_scores(classifier, task, batch)))
    return cases


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


def text_cases(classifier: Any, task: Task, seed: int = 0) -> list[Case]:
    """Returns cases of raw texts, or pairs, for the text signatures."""
    preprocessor = classifier.preprocessor
    texts = reference_texts(
        preprocessor.tokenizer.get_vocabulary(), task.sequence_length, seed
    )
    cases = []
    for name, rows in (("texts", texts), ("one text", texts[1:2])):
        inputs = {"text": np.array([row.encode() for row in rows], dtype=object)}
        if task.pairs:
            # Each text meets another one, the overlong one also itself.
            partners = [rows[-1], *rows[:-2], rows[-1]] if len(rows) > 1 else rows
            inputs["text_pair"] = np.array(
                [row.encode() for row in partners], dtype=object
            )
        cases.append(Case(name, inputs, keras_text_scores(classifier, task, inputs)))
    return cases


def keras_text_scores(classifier: Any, task: Task, inputs: dict[str, Array]) -> Array:
    """Returns what Keras gives for raw texts, padded as in training: float32 (B, C)."""
    texts = [
        [value.decode() for value in inputs[name]]
        for name in TEXT_INPUTS
        if name in inputs
    ]
    # Alone, a tuple of two would be taken for inputs and labels.
    packed = classifier.preprocessor(tuple(texts) if task.pairs else texts[0], None)
    batch = {
        name: np.asarray(packed[keras_name])
        for name, keras_name in zip(TOKEN_INPUTS, KERAS_INPUTS, strict=True)
    }
    return keras_scores(classifier, task, batch)
