"""LVBertSpanPredictorPreprocessor: questions and contexts to windows of tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras_hub.models import Preprocessor
from keras_hub.src.utils.tensor_utils import preprocessing_function

from lvbert_tf.layers.arguments import positive_integers
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.fresh_heads import length_that_fits
from lvbert_tf.models.packing import pack_segments
from lvbert_tf.models.span_decoding import Windows
from lvbert_tf.models.text_batches import equal_rows, text_rows
from lvbert_tf.models.token_offsets import TokensWithOffsets
from lvbert_tf.models.tokenizer import LVBertTokenizer


class WindowTensors(NamedTuple):
    """What `Windows` holds, as tensors of a graph, for the windows W of B contexts.

    Attributes:
        inputs: the backbone's inputs, int32 (W, T).
        example: int32 (W,), the question a window belongs to.
        character_start: int32 (W, T), the character of the context where a token
            starts; -1 for tokens that are not of the context.
        character_end: int32 (W, T), the character behind it.
        has_most_context: bool (W, T), whether no other window shows more of what
            surrounds the token.
        question_tokens_cut: int32 (B,), tokens that each question lost.
    """

    inputs: dict[str, tf.Tensor]
    example: tf.Tensor
    character_start: tf.Tensor
    character_end: tf.Tensor
    has_most_context: tf.Tensor
    question_tokens_cut: tf.Tensor


class _Layout(NamedTuple):
    """Which tokens of which context each window W shows."""

    inputs: dict[str, tf.Tensor]  # int32 (W, T)
    example: tf.Tensor  # int32 (W,)
    start: tf.Tensor  # int32 (W,), the first token of the context in the window
    length: tf.Tensor  # int32 (W,)
    offset: tf.Tensor  # int32 (W,), where the context starts in the window
    context: TokensWithOffsets
    question_tokens_cut: tf.Tensor  # int32 (B,)


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertSpanPredictorPreprocessor(Preprocessor):
    """Lays out `[CLS] question [SEP] part of the context [SEP]`.

    A context that does not fit becomes several windows, each `stride` tokens on, so
    that every token is seen with its surroundings in one of them. One example thus
    may give several rows, and no token of a context is lost.

    Args:
        tokenizer: the tokenizer.
        sequence_length: tokens T of a window.
        stride: tokens from one window's start to the next one's.
        max_question_length: tokens a question is cut to.
        **kwargs: arguments of the base class, such as `name`.

    Call arguments:
        x: dict of strings (B,): `question` and `context`.
        y: for training, dict of `answer_start`, integer (B,), the first character of
            the answer in the context, and `answer_text`, strings (B,); -1 and "" for
            a question without answer.
        sample_weight: (B,) or None; every window takes that of its example.

    Returns:
        The backbone's inputs (W, T). With `y`, also `start_positions` among them, and
        targets `start_positions`, `end_positions` and `unanswerable`, int32 (W,). A
        window without the whole answer has both positions 0.

    Raises:
        ValueError: if the lengths leave windows no room, or gaps between them.
        InvalidArgumentError: (a TensorFlow error) if an answer is not in its context
            at the place given.
    """

    backbone_cls = LVBertBackbone
    tokenizer_cls = LVBertTokenizer

    def __init__(
        self,
        tokenizer: LVBertTokenizer,
        sequence_length: int = 512,
        stride: int = 128,
        max_question_length: int = 64,
        **kwargs: Any,
    ) -> None:
        sequence_length, stride, max_question_length = positive_integers(
            sequence_length=sequence_length,
            stride=stride,
            max_question_length=max_question_length,
        )
        room = sequence_length - max_question_length - 3
        if room < 1:
            raise ValueError(
                "`sequence_length` must hold `max_question_length` tokens, 3 special "
                "ones, and at least one of the context. Received: "
                f"sequence_length={sequence_length}, "
                f"max_question_length={max_question_length}"
            )
        if not 1 <= stride <= room:
            raise ValueError(
                f"`stride` must be between 1 and {room}, the tokens of a context that "
                f"surely fit into a window. Received: stride={stride}"
            )
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.stride = stride
        self.max_question_length = max_question_length

    @classmethod
    def _add_missing_kwargs(cls, loader: Any, kwargs: dict[str, Any]) -> Any:
        # KerasHub's hook for a preset that was saved without this preprocessor.
        length_that_fits(loader, kwargs, default=512)
        # Short windows: half of them for the question, at most the default.
        half = max(1, (kwargs["sequence_length"] - 3) // 2)
        kwargs.setdefault("max_question_length", min(64, half))
        room = kwargs["sequence_length"] - kwargs["max_question_length"] - 3
        kwargs.setdefault("stride", min(128, max(1, room // 2)))
        return super()._add_missing_kwargs(loader, kwargs)

    def build(self, input_shape: Any) -> None:
        """Creates nothing."""
        self.built = True

    @preprocessing_function
    def call(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocesses a batch."""
        question, context = _strings(x)
        layout = self._layout(question, context)
        if y is None:
            return layout.inputs
        targets = self._targets(layout, context, y)
        inputs = {**layout.inputs, "start_positions": targets["start_positions"]}
        if sample_weight is not None:
            sample_weight = tf.gather(sample_weight, layout.example)
        return keras.utils.pack_x_y_sample_weight(inputs, targets, sample_weight)

    def windows(self, questions: Sequence[str], contexts: Sequence[str]) -> Windows:
        """Returns the windows of some texts, and where their tokens came from."""
        if not len(questions):
            layout_width = (0, self.sequence_length)
            empty = tf.zeros(layout_width, tf.int32).numpy()
            names = ("token_ids", "segment_ids", "padding_mask")
            return Windows(
                dict.fromkeys(names, empty), empty[:, 0], empty, empty, empty > 0, 0
            )
        with tf.device("cpu"):
            tensors = self.window_tensors(
                tf.constant(list(questions)), tf.constant(list(contexts))
            )
        return Windows(
            {name: value.numpy() for name, value in tensors.inputs.items()},
            tensors.example.numpy(),
            tensors.character_start.numpy(),
            tensors.character_end.numpy(),
            tensors.has_most_context.numpy(),
            int(tensors.question_tokens_cut.numpy().sum()),
        )

    def question_tokens_cut(self, questions: Sequence[str]) -> int:
        """Returns how many tokens questions lose to `max_question_length`."""
        if not len(questions):
            return 0
        with tf.device("cpu"):
            asked = self.tokenizer.tokenize_strings(tf.constant(list(questions)))
            over = tf.maximum(asked.row_lengths() - self.max_question_length, 0)
            return int(tf.reduce_sum(over).numpy())

    def window_tensors(self, question: tf.Tensor, context: tf.Tensor) -> WindowTensors:
        """Returns the windows of strings (B,), in operations that a graph can hold."""
        layout = self._layout(question, context)
        token = self._token_of_column(layout)  # (W, T), -1 outside
        row_start = tf.cast(layout.context.ids.row_starts(), tf.int32)
        flat = (
            tf.maximum(token, 0) + tf.gather(row_start, layout.example)[:, tf.newaxis]
        )

        def at(places: tf.RaggedTensor) -> tf.Tensor:
            values = tf.concat([places.flat_values, [0]], axis=0)
            return tf.where(token >= 0, tf.gather(values, flat), -1)

        return WindowTensors(
            layout.inputs,
            layout.example,
            at(layout.context.starts),
            at(layout.context.ends),
            self._has_most_context(layout, token),
            layout.question_tokens_cut,
        )

    def _layout(self, question: tf.Tensor, context: tf.Tensor) -> _Layout:
        tokens = self.tokenizer.tokenize_with_offsets(context)
        asked = self.tokenizer.tokenize_strings(question)
        kept = asked[:, : self.max_question_length]
        asked_length = tf.cast(kept.row_lengths(), tf.int32)
        total = tf.cast(tokens.ids.row_lengths(), tf.int32)
        room = self.sequence_length - 3 - asked_length  # (B,)
        beyond = tf.maximum(total - room, 0)
        count = 1 + (beyond + self.stride - 1) // self.stride  # windows of each
        example = tf.repeat(tf.range(tf.size(count)), count)  # (W,)
        first_window = tf.cumsum(count, exclusive=True)
        nth = tf.range(tf.size(example)) - tf.gather(first_window, example)
        start = nth * self.stride
        length = tf.minimum(tf.gather(total, example) - start, tf.gather(room, example))
        row_start = tf.cast(tokens.ids.row_starts(), tf.int32)
        from_token = tf.gather(row_start, example) + start
        shown = tf.ragged.range(from_token, from_token + length)
        token_ids, segment_ids, padding_mask = pack_segments(
            tf.gather(kept, example),
            shown.with_flat_values(
                tf.gather(tokens.ids.flat_values, shown.flat_values)
            ),
            sequence_length=self.sequence_length,
            cls_token_id=self.tokenizer.cls_token_id,
            sep_token_id=self.tokenizer.sep_token_id,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        return _Layout(
            {
                "token_ids": token_ids,
                "segment_ids": segment_ids,
                "padding_mask": padding_mask,
            },
            example,
            start,
            length,
            tf.gather(asked_length, example) + 2,
            tokens,
            tf.cast(asked.row_lengths(), tf.int32) - asked_length,
        )

    def _token_of_column(self, layout: _Layout) -> tf.Tensor:
        """Returns the context's token in each column, int32 (W, T); -1 elsewhere."""
        column = tf.range(self.sequence_length)[tf.newaxis]
        token = column - layout.offset[:, tf.newaxis]
        inside = (token >= 0) & (token < layout.length[:, tf.newaxis])
        return tf.where(inside, token + layout.start[:, tf.newaxis], -1)

    def _has_most_context(self, layout: _Layout, token: tf.Tensor) -> tf.Tensor:
        """Returns whether no other window is better for a token, bool (W, T).

        The official score: the lesser number of tokens on either side, plus a
        hundredth of the window's length; of equal ones the first window's.
        """
        last = layout.start + layout.length - 1
        score = tf.cast(
            tf.minimum(
                token - layout.start[:, tf.newaxis], last[:, tf.newaxis] - token
            ),
            tf.float64,
        ) + 0.01 * tf.cast(layout.length[:, tf.newaxis], tf.float64)
        inside = token >= 0
        row_start = tf.cast(layout.context.ids.row_starts(), tf.int32)
        flat = tf.gather(row_start, layout.example)[:, tf.newaxis] + token
        size = tf.size(layout.context.ids.flat_values)
        segment = tf.where(inside, flat, size)
        # Of equal scores the earlier window wins: later ones get a shade less.
        row = tf.cast(tf.range(tf.shape(token)[0]), tf.float64)[:, tf.newaxis]
        rows = tf.cast(tf.shape(token)[0], tf.float64)
        score -= 0.005 * row / tf.maximum(rows, 1.0)
        best = tf.math.unsorted_segment_max(
            tf.reshape(score, [-1]), tf.reshape(segment, [-1]), size + 1
        )
        return inside & (score >= tf.gather(best, segment))

    def _targets(
        self, layout: _Layout, context: tf.Tensor, y: Any
    ) -> dict[str, tf.Tensor]:
        first = tf.cast(y["answer_start"], tf.int32)
        text = tf.convert_to_tensor(y["answer_text"])
        unanswerable = first < 0
        length = tf.strings.length(text, unit="UTF8_CHAR")
        # `substr` refuses places beyond the text: those are wrong like any other.
        beyond = first >= tf.strings.length(context, unit="UTF8_CHAR")
        text_there = tf.strings.substr(
            context,
            tf.where(beyond | unanswerable, 0, first),
            length,
            unit="UTF8_CHAR",
        )
        right = (text_there == text) & ~beyond & (length > 0)
        wrong = ~tf.where(unanswerable, length == 0, right)
        check = tf.debugging.Assert(
            ~tf.reduce_any(wrong),
            [
                "`answer_text` must stand in `context` at `answer_start`, and be empty "
                "where that is negative. Rows of the batch where it is not so:",
                tf.where(wrong)[:, 0],
                "their `answer_start`:",
                tf.boolean_mask(first, wrong),
                "expected there:",
                tf.boolean_mask(text, wrong),
                "found:",
                tf.where(
                    tf.boolean_mask(beyond, wrong),
                    "(the context ends before)",
                    tf.boolean_mask(text_there, wrong),
                ),
            ],
            summarize=10,
        )
        with tf.control_dependencies([] if check is None else [check]):
            last = first + length
        starts, ends = layout.context.starts, layout.context.ends
        # The first token that reaches into the answer, and the last that starts in it.
        begin = tf.reduce_sum(tf.cast(ends <= first[:, tf.newaxis], tf.int32), axis=1)
        end = tf.reduce_sum(tf.cast(starts < last[:, tf.newaxis], tf.int32), axis=1) - 1
        begin, end = (tf.gather(t, layout.example) for t in (begin, end))
        shown = (
            (begin >= layout.start)
            & (end < layout.start + layout.length)
            & (begin <= end)
            & ~tf.gather(unanswerable, layout.example)
        )
        to_column = layout.offset - layout.start
        return {
            "start_positions": tf.where(shown, begin + to_column, 0),
            "end_positions": tf.where(shown, end + to_column, 0),
            "unanswerable": tf.cast(tf.gather(unanswerable, layout.example), tf.int32),
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "sequence_length": self.sequence_length,
            "stride": self.stride,
            "max_question_length": self.max_question_length,
        }


def _strings(x: Any) -> tuple[tf.Tensor, tf.Tensor]:
    if not isinstance(x, dict) or not {"question", "context"} <= set(x):
        given = sorted(x) if isinstance(x, dict) else type(x).__name__
        raise ValueError(
            "Expected a dict with `question` and `context`, each strings (B,). "
            f"Received: {given}"
        )
    question, context = (text_rows(x[name], name) for name in ("question", "context"))
    equal_rows(question, context, names="`question` and `context`")
    if question.shape.rank == 0:
        raise ValueError(
            "`question` and `context` must be strings (B,). Received: single strings. "
            "Wrap each in a list."
        )
    return question, context
