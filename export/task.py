"""What an export must know about a model, read once and checked."""

from dataclasses import dataclass
from typing import Any

from common.command_line import UsageError

# Activations that leave probabilities, by name; "linear" leaves logits.
_PROBABILITIES = ("softmax", "sigmoid")


@dataclass(frozen=True)
class Task:
    """What a model does, and within which limits.

    Attributes:
        labels: a name for each of the C classes; none without classes.
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
        kind: what kind of model it is (`export.heads`).
        hidden_dim: width H of hidden states.
        beam_size: starts K that a span predictor considers; 0 for others.
        stride: tokens from one window of a span predictor to the next.
        max_question_length: tokens that its questions are cut to.
        truncated: whether answers to texts say which of them were cut.
        scores_only: whether there is a signature that gives nothing but scores.
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
    kind: str = "text_classifier"
    hidden_dim: int = 0
    beam_size: int = 0
    stride: int = 0
    max_question_length: int = 0
    truncated: bool = False
    scores_only: bool = False

    @property
    def num_classes(self) -> int:
        """Number of outputs C."""
        return 1 if self.regression else len(self.labels)

    @property
    def longest_input(self) -> int:
        """Most tokens that the token inputs may have."""
        return self.sequence_length if self.fixed_length else self.max_sequence_length


def describe_task(
    model: Any, pairs: bool, *, truncated: bool = False, scores_only: bool = False
) -> Task:
    """Returns what `model` does.

    Args:
        model: what `export.model_directory.load_model` gives, with its preprocessor.
        pairs: whether a classifier was trained on pairs of texts.
        truncated: whether answers to texts shall say which of them were cut.
        scores_only: whether to add a signature that gives nothing but scores.

    Raises:
        UsageError: if it can't be exported, saying why.
    """
    from export.heads import HEADS

    kind = next(
        (
            head.kind
            for head in HEADS.values()
            if head.model_class in {base.__name__ for base in type(model).__mro__}
            or getattr(model, "kind", None) == head.kind
        ),
        None,
    )
    if kind is None:
        raise UsageError(f"no export is known for a {type(model).__name__}")
    backbone = model.backbone
    if model.preprocessor is None:
        raise UsageError(
            "the model has no preprocessor, so that raw text cannot be exported. "
            f"Expected an {type(model).__name__}Preprocessor with its tokenizer"
        )
    sequence_length = model.preprocessor.sequence_length
    if sequence_length > backbone.max_sequence_length:
        raise UsageError(
            f"the preprocessor gives {sequence_length} tokens, the backbone has "
            f"positions for {backbone.max_sequence_length}"
        )
    classifies = kind == "text_classifier"
    two_segments = pairs or kind == "span_predictor"
    if pairs and not classifies:
        raise UsageError("--pairs: only classifiers take pairs of texts")
    if scores_only and not classifies:
        raise UsageError("--scores-only: only classifiers give scores alone")
    if two_segments and backbone.num_segments < 2:
        raise UsageError(
            "two texts need num_segments of at least 2. "
            f"Received: num_segments={backbone.num_segments}"
        )
    activation = _check_outputs(model) if classifies else "linear"
    regression = classifies and model.regression
    spans = kind == "span_predictor"
    return Task(
        labels=_labels(model) if classifies and not regression else (),
        regression=regression,
        logits=classifies and not regression and activation == "linear",
        pairs=pairs,
        sequence_length=sequence_length,
        max_sequence_length=backbone.max_sequence_length,
        vocabulary_size=backbone.vocabulary_size,
        num_segments=backbone.num_segments,
        pad_token_id=model.preprocessor.tokenizer.pad_token_id,
        fixed_length=backbone.sees_padding,
        kind=kind,
        hidden_dim=backbone.hidden_dim,
        beam_size=model.beam_size if spans else 0,
        stride=model.preprocessor.stride if spans else 0,
        max_question_length=model.preprocessor.max_question_length if spans else 0,
        truncated=truncated,
        scores_only=scores_only,
    )


def _check_outputs(classifier: Any) -> str:
    """Returns the name of a classifier's activation."""
    import keras

    activation = str(keras.activations.serialize(classifier.activation))
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
    return activation


def _labels(classifier: Any) -> tuple[str, ...]:
    """Returns a name for each class, its index where the classifier has none.

    Raises:
        UsageError: if a label is no text, is blank, has no UTF-8 form, or names two
            classes: an answer would not say which class it means.
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
        if label != label.encode("utf-8", "ignore").decode():
            raise UsageError(
                f"the classifier's labels: expected a name that UTF-8 can hold for "
                f"class {index}. Received: {label!r}"
            )
        if label in seen:
            raise UsageError(
                f"the classifier's labels: expected another name for class {index} "
                f"than for class {seen[label]}. Received: {label!r} for both"
            )
        seen[label] = index
    return labels
