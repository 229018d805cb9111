"""A tiny classifier of raw text, and what its tests share."""

from typing import Any

import keras

import lvbert_tf

WORDS = ["a", "good", "bad", "film", "plot", "the"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
LABELS = ["negative", "positive"]


def backbone(architecture: str = "f", **options: Any) -> lvbert_tf.LVBertBackbone:
    arguments: dict[str, Any] = {"dropout": 0.0, "max_sequence_length": 16, **options}
    return lvbert_tf.LVBertBackbone(
        len(VOCABULARY), architecture, 8, 16, 32, 2, **arguments
    )


def tokenizer() -> lvbert_tf.LVBertTokenizer:
    return lvbert_tf.LVBertTokenizer(VOCABULARY)


def classifier(
    architecture: str = "f", seed: int = 0, **options: Any
) -> lvbert_tf.LVBertTextClassifier:
    keras.utils.set_random_seed(seed)
    dtype = {"dtype": options.pop("dtype")} if "dtype" in options else {}
    arguments: dict[str, Any] = {
        "num_classes": 2,
        "labels": LABELS,
        "dropout": 0.0,
        "preprocessor": lvbert_tf.LVBertTextClassifierPreprocessor(
            tokenizer(), sequence_length=8
        ),
        **options,
    }
    return lvbert_tf.LVBertTextClassifier(backbone(architecture, **dtype), **arguments)
