"""Exact match and F1 of SQuAD 1.1 and 2.0, and the best threshold for "no answer".

Equal in value to the official evaluation scripts of the data sets, in percent.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

OFFICIAL_THRESHOLD = -2.75
"""The official code's threshold on the score of "no answer"."""

_PUNCTUATION = frozenset(string.punctuation)
Answers = Mapping[str, Sequence[str]]


def normalized(text: str) -> str:
    """Returns lower case without ASCII punctuation, articles and extra space."""
    text = "".join(sign for sign in text.lower() if sign not in _PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact(prediction: str, answer: str) -> float:
    """Returns 1 if both read the same once normalised, else 0."""
    return float(normalized(prediction) == normalized(answer))


def token_f1(prediction: str, answer: str, *, empty_counts: bool) -> float:
    """Returns the F1 of the words that both have.

    Args:
        prediction: the answer to judge.
        answer: a right one.
        empty_counts: whether two answers of no words agree (2.0), or score 0 (1.1).
    """
    predicted, gold = normalized(prediction).split(), normalized(answer).split()
    if empty_counts and not (predicted and gold):
        return float(predicted == gold)
    common = (Counter(predicted) & Counter(gold)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def evaluate_v1(answers: Answers, predictions: Mapping[str, str]) -> dict[str, Any]:
    """Returns `exact_match` and `f1` in percent; a question without prediction is 0.

    Args:
        answers: right answers of each question.
        predictions: the answers to judge.

    Returns:
        Also `total`, and `missing`: questions without a prediction.
    """
    total = len(answers)
    given = {id: predictions[id] for id in answers if id in predictions}
    scores = {
        "exact_match": sum(_best(given[id], answers[id], exact) for id in given),
        "f1": sum(_best(given[id], answers[id], _f1_v1) for id in given),
    }
    figures: dict[str, Any] = {k: 100.0 * v / total for k, v in scores.items()}
    return {**figures, "total": total, "missing": total - len(given)}


def evaluate_v2(
    answers: Answers,
    predictions: Mapping[str, str],
    null_scores: Mapping[str, float] | None = None,
    threshold: float = OFFICIAL_THRESHOLD,
) -> dict[str, Any]:
    """Returns the official figures of SQuAD 2.0, in percent.

    Args:
        answers: right answers of each question; none for one that has no answer.
        predictions: texts; "" for no answer. Questions that are missing are left out,
            as officially, and counted in `missing`.
        null_scores: scores of "no answer"; None takes the predictions as they are.
        threshold: above it a question counts as having no answer.

    Returns:
        `exact`, `f1`, `total`, the same for questions with (`HasAns_`) and without
        answer (`NoAns_`), and with scores `best_exact`, `best_f1` and their thresholds.

    Raises:
        ValueError: if a question that has a prediction has no score.
    """
    # Answers of nothing but articles and punctuation do not count.
    gold = {k: [a for a in v if normalized(a)] or [""] for k, v in answers.items()}
    has_answer = {id: bool(answers[id]) for id in answers}
    ids = [id for id in answers if id in predictions]
    raw_exact = {id: _best(predictions[id], gold[id], exact) for id in ids}
    raw_f1 = {id: _best(predictions[id], gold[id], _f1_v2) for id in ids}
    scores = dict.fromkeys(ids, 0.0) if null_scores is None else dict(null_scores)
    unscored = [id for id in ids if id not in scores]
    if unscored:
        raise ValueError(
            f"Expected a score of no answer for every question. Received none for "
            f"{len(unscored)}, the first {unscored[0]!r}"
        )
    limit = 1.0 if null_scores is None else threshold

    def applied(raw: Mapping[str, float]) -> dict[str, float]:
        return {
            id: float(not has_answer[id]) if scores[id] > limit else raw[id]
            for id in ids
        }

    by_exact, by_f1 = applied(raw_exact), applied(raw_f1)
    figures: dict[str, Any] = {"missing": len(answers) - len(ids)}
    parts = (
        ("", ids),
        ("HasAns_", [id for id in ids if has_answer[id]]),
        ("NoAns_", [id for id in ids if not has_answer[id]]),
    )
    for prefix, part in parts:
        if part:
            figures[f"{prefix}exact"] = (
                100.0 * sum(by_exact[i] for i in part) / len(part)
            )
            figures[f"{prefix}f1"] = 100.0 * sum(by_f1[i] for i in part) / len(part)
            figures[f"{prefix}total"] = len(part)
    if null_scores is not None and ids:
        for name, raw in (("exact", raw_exact), ("f1", raw_f1)):
            best, at = _best_threshold(predictions, raw, scores, has_answer, ids)
            figures[f"best_{name}"], figures[f"best_{name}_thresh"] = best, at
    return figures


def _best_threshold(
    predictions: Mapping[str, str],
    raw: Mapping[str, float],
    scores: Mapping[str, float],
    has_answer: Mapping[str, bool],
    ids: Sequence[str],
) -> tuple[float, float]:
    """Returns the best score in percent and the first threshold that reaches it."""
    current = best = float(sum(not has_answer[id] for id in ids))
    threshold = 0.0
    for id in sorted(ids, key=lambda id: scores[id]):
        if has_answer[id]:
            current += raw[id]
        elif predictions[id]:
            current -= 1.0
        if current > best:
            best, threshold = current, scores[id]
    return 100.0 * best / len(ids), threshold


def _f1_v1(prediction: str, answer: str) -> float:
    return token_f1(prediction, answer, empty_counts=False)


def _f1_v2(prediction: str, answer: str) -> float:
    return token_f1(prediction, answer, empty_counts=True)


def _best(
    prediction: str, answers: Sequence[str], score: Callable[[str, str], float]
) -> float:
    return max((score(prediction, answer) for answer in answers), default=0.0)
