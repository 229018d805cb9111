"""The layers that architecture strings are made of, and what surrounds them."""

from lvbert_tf.layers.dynamic_conv import DynamicConv
from lvbert_tf.layers.embeddings import Embeddings
from lvbert_tf.layers.encoder import Encoder
from lvbert_tf.layers.feed_forward import FeedForward
from lvbert_tf.layers.heads import MaskedLMHead, ReplacedTokenHead
from lvbert_tf.layers.registry import LayerOptions, make_layer, register_layer
from lvbert_tf.layers.residual import ResidualLayer
from lvbert_tf.layers.self_attention import SelfAttention
from lvbert_tf.layers.span_head import SpanHead

__all__ = [
    "DynamicConv",
    "Embeddings",
    "Encoder",
    "FeedForward",
    "LayerOptions",
    "MaskedLMHead",
    "ReplacedTokenHead",
    "ResidualLayer",
    "SelfAttention",
    "SpanHead",
    "make_layer",
    "register_layer",
]
