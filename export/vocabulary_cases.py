"""Cases that show every id of the vocabulary to the artefact at least once.

A word table may be wrong in rows that a few random batches never read.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from export.parity import Case, token_case
from export.task import Task

EVERY_ID = "every id"
_NEAR = 8
_ROWS = 256


def vocabulary_cases(model: Any, task: Task) -> Iterator[Case]:
    """Yields cases named `EVERY_ID` that together hold every id once.

    Rows are short, so that each id bears on the scores, which are read off the first
    token: without a layer that mixes tokens, rows have one token; with convolutions
    only, no more than one of them reaches. Where every row is padded to one length
    anyway, attention gets rows of that length.

    Args:
        model: the model.
        task: what it does.
    """
    width = min(_width(model.backbone, task), task.longest_input)
    rows = -(-task.vocabulary_size // width)
    # The last row starts again with the first ids.
    ids = np.resize(np.arange(task.vocabulary_size, dtype="int32"), (rows, width))
    for start in range(0, rows, _ROWS):
        chosen = ids[start : start + _ROWS]
        batch = {
            "input_ids": chosen,
            "segment_ids": np.zeros_like(chosen),
            "padding_mask": np.ones_like(chosen),
        }
        yield token_case(EVERY_ID, model, task, batch)


def _width(backbone: Any, task: Task) -> int:
    letters = set(backbone.architecture)
    if letters == {"f"}:
        return 1
    if "s" not in letters:
        return min(_NEAR, backbone.kernel_size // 2 + 1)
    return task.sequence_length if task.fixed_length else _NEAR
