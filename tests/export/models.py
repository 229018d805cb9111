"""Tiny classifiers, saved as model directories, and their exports.

Each is made once a test session, wherever it is asked for first.
"""

import json
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import commands
from tests.commands import Ran

VOCABULARY = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("good", "bad", "movie", "film", "the", "was", "##ly", ".", ",", "é", "中"),
    *string.ascii_lowercase,
    *(f"##{letter}" for letter in string.ascii_lowercase),
)
LABELS = ("negative", "neutral", "positive")
SEQUENCE_LENGTH = 40
MAX_SEQUENCE_LENGTH = 64
TEXTS = (
    "Good movie.",
    "",
    "the film was badly, badly made",
    "Café 中中 x" + " zebra" * 60,
)


def run(*argv: str | Path) -> Ran:
    """Runs ``python -m export`` in this process."""
    return commands.run("export", *argv)


def done(*argv: str | Path) -> dict[str, Any]:
    """Runs a command that must succeed and returns its result."""
    result = run(*argv)
    assert result.status == 0, result.errors
    assert result.output is not None
    return result.output


def make_classifier(
    *,
    mask_convolution: bool = True,
    regression: bool = False,
    labels: tuple[str, ...] | None = LABELS,
    seed: int = 1,
    architecture: str = "csf",
) -> Any:
    """Returns a classifier with weights far from their initial values.

    Equal arguments give equal weights.
    """
    import keras

    import lvbert_tf

    keras.utils.set_random_seed(seed)
    backbone = lvbert_tf.LVBertBackbone(
        len(VOCABULARY),
        architecture,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=64,
        num_heads=4,
        max_sequence_length=MAX_SEQUENCE_LENGTH,
        mask_convolution=mask_convolution,
    )
    classifier = lvbert_tf.LVBertTextClassifier(
        backbone,
        1 if regression else 3,
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(
            lvbert_tf.LVBertTokenizer(VOCABULARY), sequence_length=SEQUENCE_LENGTH
        ),
        regression=regression,
        labels=None if regression else labels,
    )
    perturb(classifier, seed, 0.2)
    return classifier


def make_model(kind: str, *, mask_convolution: bool = True, seed: int = 4) -> Any:
    """Returns a backbone, masked LM or span predictor, its weights perturbed."""
    import lvbert_tf

    backbone = make_classifier(mask_convolution=mask_convolution, seed=seed).backbone
    if kind == "backbone":
        return backbone
    tokenizer = lvbert_tf.LVBertTokenizer(VOCABULARY)
    if kind == "masked_lm":
        model: Any = lvbert_tf.LVBertMaskedLM(
            backbone,
            lvbert_tf.LVBertMaskedLMPreprocessor(tokenizer, SEQUENCE_LENGTH),
        )
    else:
        model = lvbert_tf.LVBertSpanPredictor(
            backbone,
            lvbert_tf.LVBertSpanPredictorPreprocessor(
                tokenizer, SEQUENCE_LENGTH, stride=8, max_question_length=10
            ),
            beam_size=5,
            intermediate_dim=24,
        )
    perturb(model, seed, 0.2)
    return model


KINDS = ("backbone", "masked_lm", "span_predictor")


def perturb(classifier: Any, seed: int, size: float) -> None:
    """Adds noise to all weights."""
    generator = np.random.default_rng(seed)
    classifier.set_weights(
        [
            (weight + generator.normal(0, size, weight.shape)).astype("float32")
            for weight in classifier.get_weights()
        ]
    )


class Artefacts:
    """Makes model directories and exports in the session's temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _once(self, name: str, make: Callable[[Path], object]) -> Path:
        path = self.root / name
        if not path.exists():
            make(path)
        return path

    def model(self, name: str = "plain") -> Path:
        """Returns the directory of a model: plain, official, pairs, or one of `KINDS`.

        With "-official" behind it, a kind has convolutions that see the padding.
        """
        options: dict[str, dict[str, Any]] = {
            "plain": {},
            # Convolutions that see the padding, as in converted checkpoints.
            "official": {"mask_convolution": False, "labels": None, "seed": 2},
            "pairs": {"regression": True, "seed": 3},
            # Without feed-forward layers, for LiteRT.
            "mixing": {"architecture": "csc"},
            "official-mixing": {"architecture": "cs", "mask_convolution": False},
        }

        def make(path: Path) -> None:
            if name in options:
                make_classifier(**options[name]).save_to_preset(str(path))
            else:
                save_kind(name, path)
            provenance = {"stage": "finetune", "pairs": name == "pairs"}
            (path / "training.json").write_text(json.dumps(provenance))

        return self._once(f"model-{name}", make)

    def saved_model(self, name: str = "plain") -> Path:
        """Returns the base folder of a SavedModel.

        It was moved, and the model it was made from is gone with its vocabulary.
        """

        def make(path: Path) -> None:
            source, first = path.with_suffix(".source"), path.parent / "first" / name
            shutil.copytree(self.model(name), source)
            result = done("saved-model", "--model", source, "--output", first)
            shutil.rmtree(source)
            first.rename(path)
            path.with_suffix(".json").write_text(json.dumps(result))

        return self._once(f"saved-{name}", make)

    def onnx(self, name: str = "plain") -> Path:
        """Returns the directory of an ONNX artefact."""

        def make(path: Path) -> None:
            result = done("onnx", "--model", self.model(name), "--output", path)
            path.with_suffix(".json").write_text(json.dumps(result))

        return self._once(f"onnx-{name}", make)

    @staticmethod
    def result(path: Path) -> dict[str, Any]:
        """Returns what the command that made an export printed."""
        result: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
        return result


def save_kind(name: str, path: Path) -> None:
    """Saves one of `KINDS`, with "-official" behind it or not."""
    import lvbert_tf

    kind = name.removesuffix("-official")
    model = make_model(kind, mask_convolution=kind == name)
    model.save_to_preset(str(path))
    if kind == "backbone":
        lvbert_tf.LVBertTokenizer(VOCABULARY).save_to_preset(str(path))


def session_artefacts(factory: pytest.TempPathFactory) -> Artefacts:
    """Returns the artefacts of this session."""
    root = factory.getbasetemp() / "export-artefacts"
    root.mkdir(exist_ok=True)
    return Artefacts(root)


def keras_probabilities(classifier: Any, texts: Any) -> np.ndarray[Any, Any]:
    """Returns softmax of what ``classifier.predict`` gives for raw texts."""
    logits = classifier.predict(texts, verbose=0).astype("float64")
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
