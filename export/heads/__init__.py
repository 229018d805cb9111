"""What each kind of model adds to an export: inputs, outputs, answers, references."""

from typing import Any

from export.heads.backbone import BackboneHead
from export.heads.base import Head
from export.heads.classifier import ClassifierHead
from export.heads.masked_lm import MaskedLMHead
from export.heads.span_predictor import SpanPredictorHead

HEADS: dict[str, Head] = {
    head.kind: head
    for head in (ClassifierHead(), BackboneHead(), MaskedLMHead(), SpanPredictorHead())
}


def head_of(task: Any) -> Head:
    """Returns the head of a `Task`."""
    return HEADS[task.kind]


__all__ = ["HEADS", "Head", "head_of"]
