"""What of the training is saved: everything in a file, nothing in a preset."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

_HAS_STATE = "optimizer_has_state"
_STATE_OF = "optimizer_state_of"
"""Of which weights an optimizer has state: not those that were frozen when it began."""


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
            if optimizer and optimizer.built:
                config["optimizer"][_STATE_OF] = _state_of(self, optimizer)
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles as the saved model was, and makes room for the optimizer's state."""
        model: Any = self
        arguments = dict(config)
        state_of: dict[str, Any] | None = None
        has_state = arguments.pop(_HAS_STATE, False)  # where older files hold it
        if isinstance(arguments.get("optimizer"), dict):
            has_state = arguments["optimizer"].get(_HAS_STATE, has_state)
            state_of = arguments["optimizer"].get(_STATE_OF)
        model.compile(**keras.saving.deserialize_keras_object(arguments))
        if not has_state:
            return
        variables = model.trainable_variables
        if state_of is not None:
            weights = model.weights
            if len(weights) != state_of["weights"]:
                _begin_anew(model.optimizer)
                return
            variables = [weights[index] for index in state_of["trained"]]
        model.optimizer.build(variables)

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


def _state_of(model: Any, optimizer: Any) -> dict[str, Any]:
    """Returns how many weights a model has, and which the optimizer was built for."""
    places = {id(weight): index for index, weight in enumerate(model.weights)}
    # Loss scaling wraps the optimizer that has the moments.
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    trained = [places.get(id(v)) for v in inner._trainable_variables]
    return {"weights": len(places), "trained": [i for i in trained if i is not None]}


def _begin_anew(optimizer: Any) -> None:
    """Lets an optimizer leave its saved state alone, which fits no weights here.

    Keras merges the adapters of LoRA into the weights that it saves.

    Warns:
        UserWarning: that its moments are fresh.
    """
    warnings.warn(
        "The saved model had other weights while it was trained (adapters of LoRA are "
        "merged when it is saved): its optimizer begins anew",
        UserWarning,
        stacklevel=4,
    )

    def leave(store: Any) -> None:
        del optimizer.__dict__["load_own_variables"]

    optimizer.__dict__["load_own_variables"] = leave
