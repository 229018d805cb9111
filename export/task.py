"""What an export must know about a classifier, read once and checked."""

from dataclasses import dataclass
from typing import Any

from common.command_line import UsageError

# Activations that leave probabilities, by name; "linear" leaves logits.
_PROBABILITIES = ("softmax", "sigmoid")


@dataclass(frozen=True)
class Task:
    """What a classifier does, and within which limits.

    Attributes:
        labels: a name for each of the C classes; none for a regression.
        regression: whether the output is a number instead of classes.
        logits: whether the Keras model gives logits, of which the export makes
            probabilities by softmax.
        pairs: whether it takes two texts.
        sequence_length: tokens of the preprocessor: longer texts are cut.
        max_sequence_length: rows of the position table: more tokens are refused.
        vocabulary_size: rows V of the token table.
        num_segments: rows of the segment table.
        pad_token_id: id of [PAD].
        fixed_length: whether outputs depend on how much padding follows, so that every
            example is padded to `sequence_length`, as in training.
    """

    labels: tuple[str, ...]
    regression: bool
    logits: bool
    pairs: bool
    sequence_length: int
    max_sequence_length: int
    vocabulary_size: int
    num_segments: int
    pad_token_id: int
    fixed_length: bool

    @property
    def num_classes(self) -> int:
        """Number of outputs C."""
        return 1 if self.regression else len(self.labels)

    @property
    def longest_input(self) -> int:
        """Most tokens that the token inputs may have."""
        return self.sequence_length if self.fixed_length else self.max_sequence_length


def describe_task(classifier: Any, pairs: bool) -> Task:
    """Returns what `classifier` does.

    Args:
        classifier: an `LVBertTextClassifier` with its preprocessor.
        pairs: whether it was trained on pairs of texts.

    Raises:
        UsageError: if it can't be exported, saying why.
    """
    import keras

    backbone = classifier.backbone
    if classifier.preprocessor is None:
        raise UsageError(
            "the classifier has no preprocessor, so that raw text cannot be exported. "
            "Expected an LVBertTextClassifierPreprocessor with its tokenizer"
        )
    activation = keras.activations.serialize(classifier.activation)
    if not classifier.regression:
        if classifier.num_classes < 2:
            raise UsageError(
                "expected a classifier of at least 2 classes, or a regression. "
                f"Received: num_classes={classifier.num_classes}"
            )
        if activation not in ("linear", *_PROBABILITIES):
            raise UsageError(
                "the exported scores are probabilities: expected an output activation "
                f"of None, {' or '.join(_PROBABILITIES)}. Received: {activation}"
            )
    sequence_length = classifier.preprocessor.sequence_length
    if sequence_length > backbone.max_sequence_length:
        raise UsageError(
            f"the preprocessor gives {sequence_length} tokens, the backbone has "
            f"positions for {backbone.max_sequence_length}"
        )
    if pairs and backbone.num_segments < 2:
        raise UsageError(
            "a pair task needs num_segments of at least 2. "
            f"Received: num_segments={backbone.num_segments}"
        )
    return Task(
        labels=() if classifier.regression else _labels(classifier),
        regression=classifier.regression,
        logits=not classifier.regression and activation == "linear",
        pairs=pairs,
        sequence_length=sequence_length,
        max_sequence_length=backbone.max_sequence_length,
        vocabulary_size=backbone.vocabulary_size,
        num_segments=backbone.num_segments,
        pad_token_id=classifier.preprocessor.tokenizer.pad_token_id,
        # Attention ignores padding by its own mask, feed-forward never sees any.
        fixed_length=not backbone.mask_convolution
        and bool(set(backbone.architecture) - {"s", "f"}),
    )


def _labels(classifier: Any) -> tuple[str, ...]:
    """Returns a name for each class, its index where the classifier has none.

    Raises:
        UsageError: if a label is no text, is blank, or names two classes: an answer
            would not say which class it means.
    """
    if classifier.labels is None:
        return tuple(map(str, range(classifier.num_classes)))
    labels = tuple(classifier.labels)
    seen: dict[str, int] = {}
    for index, label in enumerate(labels):
        if not isinstance(label, str) or not label.strip():
            raise UsageError(
                f"the classifier's labels: expected a name for class {index}. "
                f"Received: {label!r}"
            )
        if label in seen:
            raise UsageError(
                f"the classifier's labels: expected another name for class {index} "
                f"than for class {seen[label]}. Received: {label!r} for both"
            )
        seen[label] = index
    return labels
