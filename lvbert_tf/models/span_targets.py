"""Answers to train on, checked against the contexts that they stand in."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from lvbert_tf.models.rows import text_column


def answer_targets(context: tf.Tensor, y: Any) -> dict[str, Any]:
    """Returns the answers as arrays, each where it says it stands.

    Args:
        context: strings (B,).
        y: dict of `answer_start`, integers (B,), the first character of the answer, -1
            for none, and `answer_text`, strings (B,), "" for none.

    Returns:
        dict: `answer_start` int32 (B,), `answer_text` strings (B,).

    Raises:
        ValueError: naming the first row whose answer is not in its context.
    """
    names = {"answer_start", "answer_text"}
    if not isinstance(y, Mapping) or not names <= set(y):
        given = sorted(y) if isinstance(y, Mapping) else type(y).__name__
        raise ValueError(
            f"`y` must be a dict with {' and '.join(sorted(names))}. Received: {given}"
        )
    starts = np.asarray(y["answer_start"])
    if starts.dtype.kind not in "iu" or starts.ndim != 1:
        raise ValueError(
            "`answer_start` must be integers (B,). Received: dtype "
            f"{starts.dtype}, shape {starts.shape}"
        )
    texts = text_column(y["answer_text"], "answer_text")
    contexts = [v.decode("utf-8", "ignore") for v in context.numpy()]
    answers = [v.decode("utf-8", "ignore") for v in texts.numpy()]
    if not len(contexts) == len(starts) == len(answers):
        raise ValueError(
            "`context`, `answer_start` and `answer_text` must have the same number of "
            f"rows. Received: {len(contexts)}, {len(starts)}, {len(answers)}"
        )
    for row, (text, start, answer) in enumerate(
        zip(contexts, starts.tolist(), answers, strict=True)
    ):
        if start < 0 and not answer:
            continue
        there = text[start : start + len(answer)] if start >= 0 else None
        if not answer or there != answer:
            raise ValueError(
                "`answer_text` must stand in `context` at `answer_start` (-1 and '' "
                f"for no answer). Received in row {row}: answer_start={start}, "
                f"answer_text={answer!r:.60}, where the context holds {there!r:.60}"
            )
    return {"answer_start": starts.astype("int32"), "answer_text": texts}
