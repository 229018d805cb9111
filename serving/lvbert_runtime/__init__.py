"""Answers from an exported ONNX classifier, without TensorFlow.

from lvbert_runtime import OnnxClassifier

classifier = OnnxClassifier("models/reviews-onnx")
classifier.predict(["A fine film.", "Dull."])
"""

from .artefact import ArtefactError
from .classifier import OnnxClassifier
from .inputs import InputError

__all__ = ["ArtefactError", "InputError", "OnnxClassifier", "__version__"]

__version__ = "0.1.0"
