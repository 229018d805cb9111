"""Saving models that are no KerasHub backbones in the layout of its presets."""

import json
from pathlib import Path
from typing import Any, Self

import keras

from lvbert_tf.models.compilation import without_optimizer

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.weights.h5"


class PresetModel(keras.Model):
    """A model that keeps its configuration and weights in a folder.

    KerasHub saves backbones and tasks, which must be functional models; a supernet
    and an ELECTRA pair are not.

    Attributes:
        exported: what a user exports of such a model, for the message of `export`.
    """

    exported = "a part of it"

    def save_to_preset(self, preset_dir: str | Path) -> None:
        """Writes configuration and weights into a folder, made if it is not there.

        The optimizer's state belongs into checkpoints and `.keras` files, not here.
        """
        folder = Path(preset_dir)
        folder.mkdir(parents=True, exist_ok=True)
        config = keras.saving.serialize_keras_object(self)
        config.pop("compile_config", None)
        config.pop("build_config", None)
        (folder / CONFIG_FILE).write_text(json.dumps(config, indent=1) + "\n")
        with without_optimizer(self):
            self.save_weights(folder / WEIGHTS_FILE)

    def export(self, *args: Any, **kwargs: Any) -> None:
        """Refuses: what is exported is a network that answers, not one that trains.

        Raises:
            ValueError: saying what of this model is exported, and how.
        """
        raise ValueError(
            f"A {type(self).__name__} is not exported: it is there for pretraining. "
            f"Export {self.exported}. Received: {type(self).__name__}.export"
        )

    @classmethod
    def from_preset(cls, preset: str | Path, load_weights: bool = True) -> Self:
        """Returns the model that `save_to_preset` wrote.

        Args:
            preset: the folder.
            load_weights: whether to load the weights or draw them anew.

        Raises:
            ValueError: if the folder holds no such model.
        """
        folder = Path(preset)
        path = folder / CONFIG_FILE
        if not path.is_file():
            raise ValueError(
                f"`preset` must be a model directory, with a {CONFIG_FILE}. Received: "
                f"preset={str(preset)!r}"
            )
        model: Any = keras.saving.deserialize_keras_object(json.loads(path.read_text()))
        if not isinstance(model, cls):
            raise ValueError(
                f"{path} must describe a {cls.__name__}. Received: a "
                f"{type(model).__name__}"
            )
        if load_weights:
            model.load_weights(folder / WEIGHTS_FILE)
        return model
