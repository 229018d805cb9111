"""What of the training is saved: everything in a file, nothing in a preset."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

_HAS_STATE = "optimizer_has_state"


class SavesCompilation:
    """Mixin for KerasHub tasks with a `compile` of their own.

    Keras would not call that for a `.keras` file: training could not go on where it
    was. A preset would carry the optimizer's state, which then fits no optimizer of
    the model that is loaded from it, with a warning in each load.
    """

    def get_compile_config(self) -> Any:
        """Returns what the model was compiled with, and whether it has trained."""
        config: Any = super().get_compile_config()  # type: ignore[misc]
        optimizer = getattr(self, "optimizer", None)
        # With the optimizer, where `keras.models.clone_model` takes it for no argument
        # of `compile`.
        if config and isinstance(config.get("optimizer"), dict):
            config["optimizer"][_HAS_STATE] = bool(optimizer and optimizer.built)
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles as the saved model was, and makes room for the optimizer's state."""
        model: Any = self
        arguments = dict(config)
        has_state = arguments.pop(_HAS_STATE, False)  # where older files hold it
        if isinstance(arguments.get("optimizer"), dict):
            has_state = arguments["optimizer"].get(_HAS_STATE, has_state)
        model.compile(**keras.saving.deserialize_keras_object(arguments))
        if has_state:
            model.optimizer.build(model.trainable_variables)

    def save_task_weights(self, filepath: str | Path) -> None:
        """Writes the weights that are not the backbone's, without the optimizer."""
        with without_optimizer(self):
            super().save_task_weights(filepath)  # type: ignore[misc]

    def load_task_weights(self, filepath: str | Path) -> None:
        """Reads those weights; an optimizer's state beside them is left alone."""
        with without_optimizer(self):
            super().load_task_weights(filepath)  # type: ignore[misc]


@contextlib.contextmanager
def without_optimizer(model: Any) -> Iterator[None]:
    """Takes the optimizer out of a model while its weights are saved or loaded."""
    optimizer = getattr(model, "optimizer", None)
    # Not a change that traced steps need to know of.
    object.__setattr__(model, "optimizer", None)
    try:
        yield
    finally:
        object.__setattr__(model, "optimizer", optimizer)
