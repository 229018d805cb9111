"""LV-BERT for Keras 3 and TensorFlow.

Importing the package registers every class with Keras: afterwards
`keras.models.load_model` and `from_preset` find them.
"""

from lvbert_tf.architecture import Architecture, architectures
from lvbert_tf.layers.registry import register_layer
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.electra import LVBertElectra
from lvbert_tf.models.masked_lm import LVBertMaskedLM
from lvbert_tf.models.masked_lm_preprocessor import LVBertMaskedLMPreprocessor
from lvbert_tf.models.span_predictor import LVBertSpanPredictor
from lvbert_tf.models.span_predictor_preprocessor import LVBertSpanPredictorPreprocessor
from lvbert_tf.models.supernet import LVBertSupernet
from lvbert_tf.models.text_classifier import LVBertTextClassifier
from lvbert_tf.models.text_classifier_preprocessor import (
    LVBertTextClassifierPreprocessor,
)
from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.version import __version__

__all__ = [
    "Architecture",
    "LVBertBackbone",
    "LVBertElectra",
    "LVBertMaskedLM",
    "LVBertMaskedLMPreprocessor",
    "LVBertSpanPredictor",
    "LVBertSpanPredictorPreprocessor",
    "LVBertSupernet",
    "LVBertTextClassifier",
    "LVBertTextClassifierPreprocessor",
    "LVBertTokenizer",
    "__version__",
    "architectures",
    "register_layer",
]
