"""What Keras users do around `fit`: callbacks, optimizers, freezing, adapters."""

import csv
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from tensorflow.python.framework import config as tf_config

import lvbert_tf
from tests.lvbert_tf.models.tiny import classifier

TEXTS = ["a good film", "the bad plot", "good", "the plot the bad"]
CLASSES = [1, 0, 1, 0]


def _weights(model: Any) -> dict[str, np.ndarray]:
    return {v.path: np.asarray(v) for v in model.weights}


def _fitted(optimizer: Any = None, **options: Any) -> Any:
    """Returns a model after `fit` in the given order; SGD if nothing is said."""
    model = classifier()
    chosen = keras.optimizers.SGD(0.1) if optimizer is None else optimizer
    compiled = {n: options.pop(n) for n in _OF_COMPILE if n in options}
    model.compile(chosen, **compiled)
    arguments = {"batch_size": 2, "epochs": 2, "shuffle": False, "verbose": 0}
    model.fit(TEXTS, CLASSES, **arguments | options)
    return model


_OF_COMPILE = ("jit_compile", "run_eagerly", "steps_per_execution")


def _assert_same(a: Any, b: Any, atol: float = 0.0) -> None:
    pairs = zip(a.get_weights(), b.get_weights(), strict=True)
    for left, right in pairs:
        np.testing.assert_allclose(left, right, atol=atol, rtol=0)


def _loaded_quietly(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return keras.models.load_model(path)


@pytest.fixture(scope="module")
def plain() -> Any:
    """A model that was fitted with nothing special."""
    return _fitted()


def test_ten_callbacks_together(plain: Any, tmp_path: Path) -> None:
    seen: list[int] = []
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="loss"),
        keras.callbacks.ModelCheckpoint(
            tmp_path / "{epoch}.weights.h5", save_weights_only=True
        ),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=5),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=5),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        keras.callbacks.TensorBoard(tmp_path / "events"),
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.BackupAndRestore(tmp_path / "backup"),
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, _: seen.append(epoch)
        ),
    ]
    model = _fitted(callbacks=callbacks, validation_data=(TEXTS, CLASSES))
    _assert_same(model, plain)
    assert seen == [0, 1]
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1"]
    assert {"loss", "val_loss", "learning_rate"} <= set(rows[0])
    assert any((tmp_path / "events").rglob("*tfevents*"))
    _assert_same(keras.models.load_model(tmp_path / "best.keras"), model)
    again = classifier(seed=1)
    again.load_weights(tmp_path / "2.weights.h5")
    _assert_same(again, model)


def test_an_interrupted_fit_goes_on(plain: Any, tmp_path: Path) -> None:
    class Interrupt(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                raise KeyboardInterrupt

    backup = keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
    with pytest.raises(KeyboardInterrupt):
        _fitted(callbacks=[backup, Interrupt()], run_eagerly=True)
    model = _fitted(
        callbacks=[keras.callbacks.BackupAndRestore(tmp_path)], run_eagerly=True
    )
    _assert_same(model, plain, atol=1e-6)  # eager and traced steps round differently
    assert int(model.optimizer.iterations) == 4


@pytest.mark.parametrize(
    "options",
    [{"run_eagerly": True}, {"jit_compile": True}, {"steps_per_execution": 2}],
    ids=lambda o: next(iter(o)),
)
def test_ways_to_run_a_step_agree(
    plain: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A test of a stage may have made this process deterministic, for which Keras does
    # without XLA.
    monkeypatch.setattr(tf_config, "is_op_determinism_enabled", lambda: False)
    _assert_same(_fitted(**options), plain, atol=1e-6)


def test_accumulated_gradients_are_those_of_the_larger_batch() -> None:
    whole = _fitted(batch_size=4, epochs=1, run_eagerly=True)
    halves = _fitted(
        keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
        epochs=1,
        run_eagerly=True,
    )
    _assert_same(halves, whole, atol=1e-7)


def test_averages_of_weights_are_those_of_the_steps() -> None:
    steps: list[list[np.ndarray]] = []
    record = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs=None: steps.append(
            [np.asarray(v) for v in model.trainable_variables]
        )
    )
    model = classifier()
    model.compile(
        keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), run_eagerly=True
    )
    model.fit(
        TEXTS, CLASSES, batch_size=2, shuffle=False, verbose=0, callbacks=[record]
    )
    assert len(steps) == 2
    for i, variable in enumerate(model.trainable_variables):
        # Keras' average begins with the first step's weights, not with the fresh ones.
        average = steps[0][i]
        for step in steps[1:]:
            average = 0.5 * average + 0.5 * step[i]
        np.testing.assert_allclose(np.asarray(variable), average, atol=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.Lamb,
        keras.optimizers.Lion,
        keras.optimizers.Adafactor,
        keras.optimizers.Muon,
        lambda rate: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(rate)),
        lambda rate: keras.optimizers.AdamW(rate, global_clipnorm=1.0),
    ],
)
def test_other_optimizers_learn(optimizer: Any) -> None:
    model = classifier()
    before = model.evaluate(TEXTS, CLASSES, verbose=0)[0]
    model.compile(optimizer(1e-2), run_eagerly=True)
    model.fit(TEXTS, CLASSES, epochs=8, verbose=0)
    assert model.evaluate(TEXTS, CLASSES, verbose=0)[0] < 0.8 * before


@pytest.mark.parametrize("own", [False, True])
def test_frozen_parts_do_not_move(own: bool, tmp_path: Path) -> None:
    from lvbert_tf.optimization import AdamW

    model = classifier("sf")
    model.backbone.embeddings.trainable = False
    model.backbone.encoder.layer_list[0].trainable = False
    before = _weights(model)
    # Ours decays weights too: not those that are frozen.
    rate = 0.1
    optimizer = AdamW(rate) if own else keras.optimizers.Adam(rate)
    model.compile(optimizer, run_eagerly=True)
    model.fit(TEXTS, CLASSES, verbose=0)
    after = _weights(model)
    moved = {path for path in after if not np.array_equal(after[path], before[path])}
    assert not any("embeddings" in path or "layer_0" in path for path in moved)
    assert any("layer_1" in path for path in moved)
    assert any("logits" in path for path in moved)
    model.backbone.trainable = False
    model.save(tmp_path / "frozen.keras")
    again = keras.models.load_model(tmp_path / "frozen.keras")
    assert [v.path.split("/")[-2] for v in again.trainable_weights] == ["logits"] * 2
    # The optimizer goes on with the moments of what was trained before.
    assert len(again.optimizer.variables) == len(model.optimizer.variables)
    for a, b in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    again.fit(TEXTS, CLASSES, verbose=0)


def test_adapters_learn_alone_and_come_back(tmp_path: Path) -> None:
    model = classifier("sf")
    model.backbone.save_to_preset(str(tmp_path / "base"))
    model.backbone.enable_lora(2)
    before = _weights(model)
    model.compile(keras.optimizers.Adam(0.1), run_eagerly=True)
    model.fit(TEXTS, CLASSES, verbose=0)
    after = _weights(model)
    moved = {path for path in after if not np.array_equal(after[path], before[path])}
    assert any("lora_kernel_b" in path for path in moved)
    assert not any(path.endswith(("/kernel", "/embeddings")) for path in moved
                   if "logits" not in path)  # fmt: skip
    expected = model.predict(TEXTS, verbose=0)
    model.save(tmp_path / "adapted.keras")
    model.save_to_preset(str(tmp_path / "adapted"))
    # Keras merges the adapters into the weights: nothing is left of their optimizer.
    with pytest.warns(UserWarning, match="optimizer begins anew"):
        loaded_file = keras.models.load_model(tmp_path / "adapted.keras")
    loaded_file.fit(TEXTS, CLASSES, verbose=0)
    loaded_file = _loaded_quietly(tmp_path / "adapted.keras")
    for again in (
        loaded_file,
        lvbert_tf.LVBertTextClassifier.from_preset(str(tmp_path / "adapted")),
    ):
        np.testing.assert_allclose(again.predict(TEXTS, verbose=0), expected, atol=1e-6)
    # The adapters alone, for a backbone that others have already.
    model.backbone.save_lora_weights(tmp_path / "adapters.lora.h5")
    base = lvbert_tf.LVBertBackbone.from_preset(str(tmp_path / "base"))
    base.load_lora_weights(tmp_path / "adapters.lora.h5")
    kernels = [v for v in model.backbone.weights if "lora" in v.path]
    loaded = [v for v in base.weights if "lora" in v.path]
    assert len(kernels) == len(loaded) == 4
    for a, b in zip(kernels, loaded, strict=True):
        np.testing.assert_array_equal(a, b)
