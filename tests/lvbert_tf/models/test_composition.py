"""Models inside models, subclasses, shared parts, threads and global settings."""

import copy
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf
from tests.lvbert_tf.models.tiny import LABELS, backbone, classifier, tokenizer

TEXTS = ["a good film", "the bad plot", "good"]
IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0]], "int32")
INPUTS = {
    "token_ids": IDS,
    "segment_ids": np.zeros_like(IDS),
    "padding_mask": (IDS > 0).astype("int32"),
}


@keras.saving.register_keras_serializable(package="tests")
class Tagger(keras.Model):
    """A subclassed model around a backbone, with a tag for every token."""

    def __init__(self, encoder: Any, tags: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder, self.tags = encoder, tags
        self.dense = keras.layers.Dense(tags)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return self.dense(self.encoder(inputs, training=training))

    def get_config(self) -> dict[str, Any]:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder, "tags": self.tags}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Tagger":
        encoder = keras.saving.deserialize_keras_object(config.pop("encoder"))
        return cls(encoder, **config)


class Doubled(lvbert_tf.LVBertTextClassifier):
    """A task of a user's own."""

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        return 2.0 * super().call(inputs, training=training, mask=mask)


@pytest.fixture
def doubled() -> Iterator[type[Doubled]]:
    """The user's task, known to Keras for one test.

    Of several classes for one kind of task KerasHub's generic ones take any.
    """
    known = keras.saving.get_custom_objects()
    before = set(known)
    yield keras.saving.register_keras_serializable(package="tests")(Doubled)
    for name in set(known) - before:
        del known[name]


def _functional(encoder: Any) -> keras.Model:
    hidden = encoder(encoder.input)
    pooled = keras.layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(encoder.input, keras.layers.Dense(3)(pooled))


@pytest.mark.parametrize("kind", ["functional", "subclass"])
def test_a_backbone_within_a_model(kind: str, tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    encoder = backbone("sf")
    model = _functional(encoder) if kind == "functional" else Tagger(encoder, 3)
    targets = np.array([0, 2]) if kind == "functional" else IDS % 3
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    before = np.asarray(encoder.token_embedding.embeddings)
    model.fit(INPUTS, targets, verbose=0)
    assert np.abs(np.asarray(encoder.token_embedding.embeddings) - before).max() > 0
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(INPUTS), model(INPUTS), atol=1e-6)


def test_a_task_of_a_users_own(doubled: type[Doubled], tmp_path: Path) -> None:
    stock = classifier()
    model = doubled(
        stock.backbone, 2, preprocessor=stock.preprocessor, labels=LABELS, dropout=0.0
    )
    model.output_dense.set_weights(stock.output_dense.get_weights())
    expected = 2 * stock.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), expected, atol=1e-6)
    model.save(tmp_path / "model.keras")
    model.save_to_preset(str(tmp_path / "preset"))
    for again in (
        keras.models.load_model(tmp_path / "model.keras"),
        doubled.from_preset(str(tmp_path / "preset")),
    ):
        assert type(again) is doubled
        np.testing.assert_allclose(again.predict(TEXTS, verbose=0), expected, atol=1e-6)


def test_two_heads_share_one_backbone() -> None:
    first = classifier()
    second = lvbert_tf.LVBertTextClassifier(
        first.backbone, 3, preprocessor=first.preprocessor
    )
    before = second.predict(TEXTS, verbose=0)
    first.compile("sgd", run_eagerly=True)
    first.fit(TEXTS, [1, 0, 1], verbose=0)
    after = second.predict(TEXTS, verbose=0)
    assert np.abs(after - before).max() > 0
    # What the second predicts is what a model with the trained backbone predicts.
    np.testing.assert_allclose(
        after, np.asarray(second(second.preprocessor(TEXTS))), atol=1e-6
    )


def test_the_generic_classes_of_kerashub_find_ours(tmp_path: Path) -> None:
    classifier().save_to_preset(str(tmp_path))
    preset = str(tmp_path)
    hub = keras_hub.models
    assert type(hub.Backbone.from_preset(preset)) is lvbert_tf.LVBertBackbone
    assert type(hub.Tokenizer.from_preset(preset)) is lvbert_tf.LVBertTokenizer
    task = hub.TextClassifier.from_preset(preset)
    assert type(task) is lvbert_tf.LVBertTextClassifier
    assert type(task.preprocessor) is lvbert_tf.LVBertTextClassifierPreprocessor
    np.testing.assert_array_equal(
        task.predict(TEXTS, verbose=0), classifier().predict(TEXTS, verbose=0)
    )


def test_a_preset_is_shared_through_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`keras_hub.upload_preset` accepts the folder; whoever downloads it loads it."""
    from keras_hub.src.utils import preset_utils

    class Hub:
        """A hub that keeps what it is given; no network is asked."""

        @staticmethod
        def model_upload(handle: str, folder: str) -> None:
            shutil.copytree(folder, tmp_path / "hub" / handle)

        @staticmethod
        def model_download(handle: str, name: str) -> str:
            file = tmp_path / "hub" / handle / name
            if not file.exists():
                raise ValueError(f"{name} is not present in the model files")
            return str(file)

    monkeypatch.setattr(preset_utils, "kagglehub", Hub)
    model = classifier("csf")
    model.save_to_preset(str(tmp_path / "preset"))
    handle = "kaggle://me/reviews/keras/tiny"
    keras_hub.upload_preset(handle, str(tmp_path / "preset"))
    shutil.rmtree(tmp_path / "preset")
    for preset in (handle, tmp_path / "hub/me/reviews/keras/tiny"):
        again = lvbert_tf.LVBertTextClassifier.from_preset(preset)
        assert again.labels == LABELS
        np.testing.assert_array_equal(
            again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0)
        )
    assert lvbert_tf.LVBertBackbone.from_preset(handle).architecture == "csf"
    with pytest.warns(UserWarning, match="freshly drawn"):
        lvbert_tf.LVBertTextClassifier.from_preset(handle, num_classes=3)
    with pytest.raises(ValueError, match="with a config.json.*me/reviews/keras/other"):
        lvbert_tf.LVBertTextClassifier.from_preset("kaggle://me/reviews/keras/other")


def test_arguments_that_nobody_knows(tmp_path: Path) -> None:
    """Keras' functional models would drop them silently."""
    make = lvbert_tf.LVBertTextClassifier
    with pytest.raises(ValueError, match="Did you mean `dropout`.*Received: droput"):
        make(backbone(), 2, droput=0.5)
    with pytest.raises(ValueError, match="Unrecognized argument of LVBertBackbone"):
        backbone(hidden_size=8)
    classifier().save_to_preset(str(tmp_path))
    for name in ("num_clases", "architecture", "sequence_length"):
        with pytest.raises(ValueError, match=f"Unrecognized .*Received: {name}"):
            make.from_preset(str(tmp_path), **{name: 3})
    for name in ("mask_convolution", "approximate_gelu"):
        stored = getattr(classifier().backbone, name)
        with pytest.raises(ValueError, match=f"trained with {name}={stored}"):
            lvbert_tf.LVBertBackbone.from_preset(str(tmp_path), **{name: not stored})
    assert lvbert_tf.LVBertBackbone.from_preset(tmp_path, dropout=0.3).dropout == 0.3


def test_presets_that_are_none(tmp_path: Path) -> None:
    for make in (lvbert_tf.LVBertTextClassifier, lvbert_tf.LVBertBackbone):
        with pytest.raises(ValueError, match="(?s)Unknown preset.*nowhere"):
            make.from_preset(tmp_path / "nowhere")
        with pytest.raises(ValueError, match="must be a preset directory"):
            make.from_preset(tmp_path)


def test_windows_fit_a_short_backbone(tmp_path: Path) -> None:
    """Where a preset has no preprocessor for spans, one is made that fits."""
    classifier().save_to_preset(str(tmp_path))
    with pytest.warns(UserWarning, match="freshly drawn"):
        spans = lvbert_tf.LVBertSpanPredictor.from_preset(tmp_path)
    assert spans.preprocessor.sequence_length == 16
    assert spans.answer(["a film"], ["the good film"])[0]


def test_weights_travel_by_file_list_and_copy(tmp_path: Path) -> None:
    model = classifier("sf")
    expected = model.predict(TEXTS, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    others = [classifier("sf", seed=1) for _ in range(2)]
    assert np.abs(others[0].predict(TEXTS, verbose=0) - expected).max() > 1e-4
    others[0].load_weights(tmp_path / "model.weights.h5")
    others[1].set_weights(model.get_weights())
    for other in (*others, copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(TEXTS, verbose=0), expected)
    config = keras.saving.serialize_keras_object(model)
    assert type(keras.saving.deserialize_keras_object(config)) is type(model)


def test_threads_get_the_same_answers() -> None:
    model = classifier("csf")
    expected = model.predict(TEXTS, verbose=0)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: model.predict(TEXTS, verbose=0), range(12)))
        labels = list(pool.map(lambda _: model.classify(TEXTS), range(4)))
    for answer in answers:
        np.testing.assert_allclose(answer, expected, atol=1e-6)
    assert all(a == labels[0] for a in labels)


def test_the_global_policy_reaches_every_layer() -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = classifier("csf")
    finally:
        keras.config.set_dtype_policy(before)
    assert model.backbone.dtype_policy.name == "mixed_bfloat16"
    assert model.backbone.encoder.layer_list[0].layer.compute_dtype == "bfloat16"
    assert all(w.dtype == "float32" for w in model.trainable_weights)
    assert model.predict(TEXTS, verbose=0).dtype == np.float32


def test_the_preprocessor_works_within_tf_data() -> None:
    preprocessor = lvbert_tf.LVBertTextClassifierPreprocessor(tokenizer(), 8)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, [1, 0, 1]))
    batches = data.batch(2).map(preprocessor).prefetch(1)
    model = classifier(preprocessor=None)
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    model.fit(batches, verbose=0)
    rows = data.map(preprocessor).batch(3)
    inputs, _ = next(iter(rows))
    np.testing.assert_array_equal(inputs["token_ids"], preprocessor(TEXTS)["token_ids"])


def test_a_summary_counts_every_weight(capsys: pytest.CaptureFixture[str]) -> None:
    model = classifier("csf", preprocessor=None)
    model.summary()
    text = capsys.readouterr().out
    assert f"{model.count_params():,}" in text
    assert "lv_bert_backbone" in text
