"""Constructor arguments of every public class, given as no one should."""

from typing import Any

import numpy as np
import pytest

import lvbert_tf
from tests.lvbert_tf.batches import TINY_SIZES
from tests.lvbert_tf.models.tiny import backbone, tokenizer

WHOLE = "must be a positive integer. Received: {}"
SIZES = {"vocabulary_size": 11, **TINY_SIZES}
MAKERS: dict[str, Any] = {
    "backbone": lambda **a: lvbert_tf.LVBertBackbone(
        **{"architecture": "csf", **SIZES, **a}
    ),
    "supernet": lambda **a: lvbert_tf.LVBertSupernet(**{"num_layers": 1, **SIZES, **a}),
    "classifier": lambda **a: lvbert_tf.LVBertTextClassifier(
        backbone(), **{"num_classes": 2, **a}
    ),
    "spans": lambda **a: lvbert_tf.LVBertSpanPredictor(backbone(), **a),
    "texts": lambda **a: lvbert_tf.LVBertTextClassifierPreprocessor(tokenizer(), **a),
    "masks": lambda **a: lvbert_tf.LVBertMaskedLMPreprocessor(tokenizer(), **a),
    "windows": lambda **a: lvbert_tf.LVBertSpanPredictorPreprocessor(tokenizer(), **a),
    "convolution": lambda **a: lvbert_tf.DynamicConv(
        **{"hidden_dim": 8, "num_heads": 2, **a}
    ),
    "attention": lambda **a: lvbert_tf.SelfAttention(
        **{"hidden_dim": 8, "num_heads": 2, **a}
    ),
    "feed_forward": lambda **a: lvbert_tf.FeedForward(
        **{"hidden_dim": 8, "intermediate_dim": 8, **a}
    ),
    "embeddings": lambda **a: lvbert_tf.Embeddings(
        **{"vocabulary_size": 11, "embedding_dim": 8, **a}
    ),
    "mlm_head": lambda **a: lvbert_tf.MaskedLMHead(
        **{"vocabulary_size": 11, "embedding_dim": 8, **a}
    ),
    "span_head": lambda **a: lvbert_tf.SpanHead(**a),
    "detection_head": lambda **a: lvbert_tf.ReplacedTokenHead(**{"hidden_dim": 8, **a}),
}
SIZE_ARGUMENTS = {
    "backbone": ("vocabulary_size", "hidden_dim", "num_heads", "max_sequence_length"),
    "supernet": ("vocabulary_size", "hidden_dim", "num_layers", "num_segments"),
    "classifier": ("num_classes",),
    "spans": ("beam_size", "intermediate_dim"),
    "texts": ("sequence_length",),
    "masks": ("sequence_length",),
    "windows": ("sequence_length", "stride", "max_question_length"),
    "convolution": ("hidden_dim", "num_heads", "kernel_size"),
    "attention": ("hidden_dim", "num_heads"),
    "feed_forward": ("hidden_dim", "intermediate_dim"),
    "embeddings": ("vocabulary_size", "embedding_dim", "max_sequence_length"),
    "mlm_head": ("vocabulary_size", "embedding_dim"),
    "span_head": ("beam_size", "intermediate_dim"),
    "detection_head": ("hidden_dim",),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in SIZE_ARGUMENTS.items() for name in names],
)
def test_sizes_are_whole_numbers(kind: str, name: str) -> None:
    for value in ("32", 16.0, 0, -1, True, None, np.nan):
        with pytest.raises(ValueError, match="positive integer") as caught:
            MAKERS[kind](**{name: value})
        assert f"`{name}` {WHOLE.format(f'{name}={value!r}')}" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("backbone", "dropout"),
        ("backbone", "attention_dropout"),
        ("supernet", "dropout"),
        ("classifier", "dropout"),
        ("attention", "attention_dropout"),
        ("embeddings", "dropout"),
    ],
)
def test_rates_are_below_one(kind: str, name: str) -> None:
    for value in ("0.1", 1.0, -0.1, float("nan"), None, True):
        with pytest.raises(ValueError, match="at least 0 and below 1. Received: "):
            MAKERS[kind](**{name: value})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("backbone", "mask_convolution"),
        ("backbone", "approximate_gelu"),
        ("supernet", "mask_convolution"),
        ("classifier", "regression"),
        ("feed_forward", "approximate_gelu"),
    ],
)
def test_flags_are_no_words(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"Received: {name}='no'"):
        MAKERS[kind](**{name: "no"})


def test_integers_of_numpy_are_integers(tmp_path: Any) -> None:
    model = MAKERS["backbone"](hidden_dim=np.int64(16), num_heads=np.int32(2))
    model.save_to_preset(str(tmp_path))
    assert lvbert_tf.LVBertBackbone.from_preset(str(tmp_path)).hidden_dim == 16


@pytest.mark.parametrize(
    "task", ["LVBertTextClassifier", "LVBertMaskedLM", "LVBertSpanPredictor"]
)
def test_parts_are_of_their_classes(task: str) -> None:
    make = getattr(lvbert_tf, task)
    sizes = {"num_classes": 2} if "Classifier" in task else {}
    for wrong in ("bert", None, tokenizer()):
        with pytest.raises(ValueError, match="`backbone` must be an LVBertBackbone"):
            make(wrong, **sizes)
    other = "masks" if task != "LVBertMaskedLM" else "texts"
    for wrong in ("text", tokenizer(), MAKERS[other](sequence_length=8)):
        with pytest.raises(ValueError, match=f"must be a {task}Preprocessor, or None"):
            make(backbone(), preprocessor=wrong, **sizes)
