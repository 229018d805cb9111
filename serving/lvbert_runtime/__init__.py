"""Answers from exported ONNX models, without TensorFlow.

from lvbert_runtime import OnnxClassifier

classifier = OnnxClassifier("models/reviews-onnx")
classifier.predict(["A fine film.", "Dull."])
"""

from .artefact import ArtefactError
from .classifier import OnnxClassifier
from .encoder import OnnxEncoder
from .inputs import InputError
from .masked_lm import OnnxMaskedLM
from .span_predictor import OnnxSpanPredictor

__all__ = [
    "ArtefactError",
    "InputError",
    "OnnxClassifier",
    "OnnxEncoder",
    "OnnxMaskedLM",
    "OnnxSpanPredictor",
    "__version__",
]

__version__ = "0.1.0"
