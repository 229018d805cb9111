"""Windows of a context, and the best spans over them, by the official rules."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Window:
    """A part of a context that the model sees at once.

    Attributes:
        example: the question it belongs to.
        start: the first token of the context in it.
        length: tokens of the context in it.
        offset: where they start in the row.
    """

    example: int
    start: int
    length: int
    offset: int


def windows_of(
    example: int, question: int, context: int, sequence_length: int, stride: int
) -> list[Window]:
    """Returns the windows of a context.

    Args:
        example: index of the question.
        question: tokens of the question, cut to what is allowed.
        context: tokens of the context.
        sequence_length: tokens of a row.
        stride: tokens from one window's start to the next.
    """
    room = sequence_length - 3 - question
    count = 1 + -(-max(context - room, 0) // stride)
    return [
        Window(example, start, min(context - start, room), question + 2)
        for start in range(0, count * stride, stride)
    ]


def has_most_context(window: Window, token: int, others: Sequence[Window]) -> bool:
    """Whether no other window shows more of what surrounds a token of the context."""

    def score(seen_in: Window) -> float:
        last = seen_in.start + seen_in.length - 1
        return min(token - seen_in.start, last - token) + 0.01 * seen_in.length

    best = max(
        (
            seen_in
            for seen_in in others
            if seen_in.start <= token < seen_in.start + seen_in.length
        ),
        key=score,  # of equal ones the first
    )
    return best is window


def best_spans(
    outputs: Sequence[Mapping[str, Array]],
    windows: Sequence[Window],
    offsets: Sequence[tuple[int, int]],
    max_answer_length: int,
    count: int,
) -> list[tuple[float, int, int]]:
    """Returns (score, first character, character behind the last), best first.

    Args:
        outputs: of the model, one row each, for the windows of one context.
        windows: the windows.
        offsets: characters of the context's tokens.
        max_answer_length: in tokens.
        count: how many to return at most.
    """

    def spans() -> Iterator[tuple[float, int, int]]:
        for row, window in zip(outputs, windows, strict=True):
            yield from _spans(row, window, windows, offsets, max_answer_length)

    return heapq.nlargest(count, spans())


def _spans(
    row: Mapping[str, Array],
    window: Window,
    windows: Sequence[Window],
    offsets: Sequence[tuple[int, int]],
    max_answer_length: int,
) -> Iterator[tuple[float, int, int]]:
    beams = len(row["start_index"])
    for beam in range(beams):
        column = int(row["start_index"][beam])
        first = column - window.offset + window.start
        if not window.start <= first < window.start + window.length:
            continue
        if not has_most_context(window, first, windows):
            continue
        log_probs = row["end_log_probs"][beam]
        # As many ends as starts, as the official code keeps of each.
        for end in np.argsort(-log_probs, kind="stable")[:beams]:
            last = int(end) - window.offset + window.start
            inside = window.start <= last < window.start + window.length
            if inside and first <= last < first + max_answer_length:
                score = float(row["start_log_probs"][beam] + log_probs[end])
                yield score, offsets[first][0], offsets[last][1]
