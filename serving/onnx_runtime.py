"""The predictors of `lvbert_runtime`, by the names they have within a checkout."""

from serving.lvbert_runtime import (
    ArtefactError,
    InputError,
    OnnxClassifier,
    OnnxEncoder,
    OnnxMaskedLM,
    OnnxSpanPredictor,
)

__all__ = [
    "ArtefactError",
    "InputError",
    "OnnxClassifier",
    "OnnxEncoder",
    "OnnxMaskedLM",
    "OnnxSpanPredictor",
]
