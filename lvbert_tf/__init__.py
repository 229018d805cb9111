"""LV-BERT for Keras 3 and TensorFlow.

Importing the package registers every class with Keras: afterwards
`keras.models.load_model` and `from_preset` find them.

Under another Keras backend than TensorFlow it offers layers, backbone and heads; text,
supernet and pretraining need TensorFlow.
"""

import keras as _keras

from lvbert_tf.architecture import Architecture, architectures
from lvbert_tf.layers import (
    DynamicConv,
    Embeddings,
    Encoder,
    FeedForward,
    MaskedLMHead,
    ReplacedTokenHead,
    SelfAttention,
    SpanHead,
    register_layer,
)
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.version import __version__

if _keras.config.backend() == "tensorflow":
    from lvbert_tf.conversion import load_official_checkpoint
    from lvbert_tf.models.electra import LVBertElectra
    from lvbert_tf.models.masked_lm import LVBertMaskedLM
    from lvbert_tf.models.masked_lm_preprocessor import LVBertMaskedLMPreprocessor
    from lvbert_tf.models.span_predictor import LVBertSpanPredictor
    from lvbert_tf.models.span_predictor_preprocessor import (
        LVBertSpanPredictorPreprocessor,
    )
    from lvbert_tf.models.supernet import LVBertSupernet
    from lvbert_tf.models.text_classifier import LVBertTextClassifier
    from lvbert_tf.models.text_classifier_preprocessor import (
        LVBertTextClassifierPreprocessor,
    )
    from lvbert_tf.models.tokenizer import LVBertTokenizer

__all__ = [
    "Architecture",
    "DynamicConv",
    "Embeddings",
    "Encoder",
    "FeedForward",
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
    "MaskedLMHead",
    "ReplacedTokenHead",
    "SelfAttention",
    "SpanHead",
    "__version__",
    "architectures",
    "load_official_checkpoint",
    "register_layer",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        raise AttributeError(
            f"lvbert_tf.{name} needs the Keras backend 'tensorflow'. Found: "
            f"{_keras.config.backend()!r}, with which only layers, backbone and heads "
            "work (set KERAS_BACKEND before Keras is imported)"
        )
    raise AttributeError(f"module 'lvbert_tf' has no attribute {name!r}")
