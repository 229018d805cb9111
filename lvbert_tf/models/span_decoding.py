"""From scores of starts and ends to the answers they mean; no TensorFlow."""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """A span of the context.

    Attributes:
        text: the answer as it stands in the context.
        start: its first character.
        end: the character behind its last one.
        score: log-probability of start and end.
        unanswerable_score: the least logit of "no answer" over the question's windows.
    """

    text: str
    start: int
    end: int
    score: float
    unanswerable_score: float


@dataclass(frozen=True)
class Windows:
    """Model inputs for the windows W of some contexts, and what they came from.

    Attributes:
        inputs: the backbone's inputs, int32 (W, T).
        example: int32 (W,), the question a window belongs to.
        character_start: int32 (W, T), the character of the context where a token
            starts; -1 for tokens that are not of the context.
        character_end: int32 (W, T), the character behind it.
        has_most_context: bool (W, T), whether no other window shows more of what
            surrounds the token.
        question_tokens_cut: tokens that questions lost, int.
    """

    inputs: Mapping[str, Array]
    example: Array
    character_start: Array
    character_end: Array
    has_most_context: Array
    question_tokens_cut: int


def best_answers(
    outputs: Mapping[str, Array],
    windows: Windows,
    contexts: Sequence[str],
    *,
    max_answer_length: int = 30,
    n_best: int = 1,
    no_answer_threshold: float | None = None,
) -> list[list[Answer]]:
    """Returns each context's best answers, best first, by the official rules.

    A start counts only in the window that shows most of its surroundings; an answer
    ends at or behind its start and has at most `max_answer_length` tokens; the same
    text counts once.

    Args:
        outputs: of the model without `start_positions`, first axis W.
        windows: what the outputs belong to.
        contexts: the texts.
        max_answer_length: in tokens.
        n_best: most answers for a context.
        no_answer_threshold: see `LVBertSpanPredictor.answer`.
    """
    rows_of: list[list[int]] = [[] for _ in contexts]
    for row, example in enumerate(windows.example):
        rows_of[int(example)].append(row)
    answers: list[list[Answer]] = []
    scores = unanswerable_scores(outputs, windows, len(contexts))
    for context, rows, unanswerable in zip(contexts, rows_of, scores, strict=True):
        if no_answer_threshold is not None and unanswerable > no_answer_threshold:
            answers.append([])
            continue
        spans = (
            span
            for row in rows
            for span in _spans(outputs, windows, row, max_answer_length)
        )
        by_text: dict[str, Answer] = {}
        # Several spans of tokens may read the same: look at more than will be kept.
        for score, start, end in heapq.nlargest(20 * n_best, spans):
            text = context[start:end]
            if text.strip() and text not in by_text:
                by_text[text] = Answer(text, start, end, score, unanswerable)
        answers.append(list(by_text.values())[:n_best])
    return answers


def unanswerable_scores(
    outputs: Mapping[str, Array], windows: Windows, questions: int
) -> list[float]:
    """Returns each question's least logit of "no answer" over its windows."""
    scores = [math.inf] * questions
    for row, example in enumerate(windows.example):
        logit = float(outputs["unanswerable_logit"][row])
        scores[int(example)] = min(scores[int(example)], logit)
    return scores


def _spans(
    outputs: Mapping[str, Array], windows: Windows, row: int, max_answer_length: int
) -> Iterator[tuple[float, int, int]]:
    """Yields (score, first character, character behind the last) of valid spans."""
    starts = windows.character_start[row]
    ends = windows.character_end[row]
    beam_size = outputs["start_index"].shape[1]
    for beam in range(beam_size):
        start = int(outputs["start_index"][row, beam])
        if starts[start] < 0 or not windows.has_most_context[row, start]:
            continue
        reach = slice(start, min(start + max_answer_length, len(starts)))
        in_reach = outputs["end_log_probs"][row, beam]
        # As many ends as starts, as the official code keeps of each.
        best = np.argsort(-in_reach, kind="stable")[:beam_size]
        for end in best[(best >= reach.start) & (best < reach.stop)]:
            if starts[end] >= 0:
                score = float(outputs["start_log_probs"][row, beam] + in_reach[end])
                yield score, int(starts[start]), int(ends[end])
