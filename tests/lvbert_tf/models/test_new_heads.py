"""A preset loaded for another task says which weights no training has seen."""

import json
import shutil
from pathlib import Path

import keras
import keras_hub
import numpy as np
import pytest

import lvbert_tf

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "film"]
TOKENIZER = lvbert_tf.LVBertTokenizer(VOCABULARY)
TEXTS = ["a good film", "film"]


def _backbone() -> lvbert_tf.LVBertBackbone:
    return lvbert_tf.LVBertBackbone(
        len(VOCABULARY), "cf", 8, 16, 32, 2, max_sequence_length=128
    )


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with labels."""
    path = tmp_path_factory.mktemp("presets") / "classifier"
    lvbert_tf.LVBertTextClassifier(
        _backbone(),
        2,
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(
            TOKENIZER, sequence_length=8
        ),
        labels=["negative", "positive"],
    ).save_to_preset(path)
    return path


def test_the_same_task_comes_back_without_a_warning(preset: Path) -> None:
    first, second = (
        lvbert_tf.LVBertTextClassifier.from_preset(str(preset)) for _ in range(2)
    )
    assert first.labels == ["negative", "positive"]
    outputs = [model.predict(TEXTS, verbose=0) for model in (first, second)]
    assert np.array_equal(*outputs)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_new_head_has_no_old_labels(preset: Path, num_classes: int) -> None:
    with pytest.warns(UserWarning, match="freshly drawn.*logits/kernel, logits/bias"):
        model = lvbert_tf.LVBertTextClassifier.from_preset(
            str(preset), num_classes=num_classes
        )
    assert model.labels is None
    assert model.predict(TEXTS, verbose=0).shape == (2, num_classes)
    with pytest.warns(UserWarning, match="freshly drawn"):
        named = lvbert_tf.LVBertTextClassifier.from_preset(
            str(preset), num_classes=2, labels=["ham", "spam"]
        )
    assert named.labels == ["ham", "spam"]


def test_the_way_of_kerashub_drops_the_labels_too(preset: Path) -> None:
    load = keras_hub.models.TextClassifier.from_preset
    same = load(str(preset))
    assert same.labels == ["negative", "positive"]
    for num_classes in (2, 3):
        with pytest.warns(UserWarning, match="freshly drawn.*logits/kernel"):
            model = load(str(preset), num_classes=num_classes)
        assert model.labels is None
        assert model.num_classes == num_classes
        assert model.classify(["film"])[0]["label"] in ("0", "1", "2")
    with pytest.warns(UserWarning, match="freshly drawn"):
        named = load(str(preset), num_classes=2, labels=["ham", "spam"])
    assert named.labels == ["ham", "spam"]
    # A directory of an earlier version holds the head's arguments among the others.
    old = preset.parent / "old"
    shutil.copytree(preset, old, dirs_exist_ok=True)
    content = json.loads((old / "task.json").read_text())
    content["config"].update(content["config"].pop("stored_head"))
    (old / "task.json").write_text(json.dumps(content))
    outputs = [
        lvbert_tf.LVBertTextClassifier.from_preset(str(path)).predict(TEXTS, verbose=0)
        for path in (preset, old)
    ]
    assert np.array_equal(*outputs)


def test_other_heads_are_named(preset: Path) -> None:
    with pytest.warns(UserWarning, match="masked_lm_head/output_bias"):
        lvbert_tf.LVBertMaskedLM.from_preset(str(preset))
    with pytest.warns(UserWarning, match="span_head"):
        lvbert_tf.LVBertSpanPredictor.from_preset(
            str(preset),
            preprocessor=lvbert_tf.LVBertSpanPredictorPreprocessor(
                TOKENIZER, sequence_length=32, stride=4, max_question_length=8
            ),
        )


def test_a_backbone_needs_num_classes(tmp_path: Path) -> None:
    _backbone().save_to_preset(tmp_path)
    TOKENIZER.save_to_preset(tmp_path)
    with pytest.raises(ValueError, match="with `num_classes` outputs"):
        lvbert_tf.LVBertTextClassifier.from_preset(str(tmp_path))


def test_a_supernet_is_no_backbone(tmp_path: Path) -> None:
    lvbert_tf.LVBertSupernet(
        len(VOCABULARY),
        num_layers=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        num_heads=2,
    ).save_to_preset(tmp_path)
    with pytest.raises(ValueError, match="training extract"):
        lvbert_tf.LVBertTextClassifier.from_preset(str(tmp_path), num_classes=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 1}, "`regression=True`"),
        ({"num_classes": 0}, "num_classes=0"),
        ({"num_classes": 2, "labels": ["x", "x"]}, "Received twice: \\['x'\\]"),
        ({"num_classes": 2, "labels": "ab"}, "Received: labels='ab'"),
        (
            {
                "num_classes": 2,
                "preprocessor": lvbert_tf.LVBertTextClassifierPreprocessor(
                    TOKENIZER, sequence_length=129
                ),
            },
            "sequence_length=129, max_sequence_length=128",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lvbert_tf.LVBertTextClassifier(_backbone(), **arguments)


def test_sizes_and_names_are_checked() -> None:
    with pytest.raises(ValueError, match="`hidden_dim` must be a positive integer"):
        lvbert_tf.LVBertBackbone(9, "c", 8, "16", 32, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Did you mean 'lv_bert'"):
        lvbert_tf.Architecture.parse("lvbert")


def test_ids_must_be_integers() -> None:
    ids = np.array([[2, 5, 3]])
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    backbone = _backbone()
    assert backbone(inputs).shape == (1, 3, 16)
    with pytest.raises(ValueError, match="`token_ids` must be integers"):
        backbone({**inputs, "token_ids": ids + 0.5})
    classifier = keras_hub.models.TextClassifier
    model = lvbert_tf.LVBertTextClassifier(backbone, 2)
    assert isinstance(model, classifier)
    with pytest.raises(ValueError, match="`token_ids` must be integers"):
        model({**inputs, "token_ids": keras.ops.convert_to_tensor(ids + 0.5)})
