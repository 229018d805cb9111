"""The predictor of `lvbert_runtime`, by the name it has within a checkout."""

from serving.lvbert_runtime import ArtefactError, InputError, OnnxClassifier

__all__ = ["ArtefactError", "InputError", "OnnxClassifier"]
