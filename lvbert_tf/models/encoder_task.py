"""What our KerasHub tasks share: training on arrays, checks of inputs, presets."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lvbert_tf.layers.ids import check_id_values, check_ids_of, check_inputs
from lvbert_tf.models.compilation import SavesCompilation
from lvbert_tf.models.exporting import Exports
from lvbert_tf.models.fresh_heads import (
    check_is_no_supernet,
    holds_head_of,
    warn_of_fresh_weights,
)
from lvbert_tf.models.preset_files import preset_name
from lvbert_tf.models.rows import (
    is_dataset,
    is_stream,
    number_of_rows,
    row_batches,
    row_weights,
    split_rows,
    structure_rows,
    text_column,
)
from lvbert_tf.models.streams import preprocessed

Parts = tuple[Any, Any, Any]


class EncoderTask(Exports, SavesCompilation):
    """Mixin for tasks with a head of their own on an `LVBertBackbone`.

    KerasHub tells what a preset is for by the name of a task's first base. So a class
    of the right name, such as `TextClassifier`, joins this mixin with KerasHub's, and
    the task has that one as its only base.

    KerasHub 0.32 keeps arrays in the order in which they are given. `fit` of these
    tasks shuffles them, as Keras does, and every array is checked before a graph is
    built, so that errors name the argument and the row.
    """

    targets_from_texts = False
    """Whether the preprocessor makes targets, so that none are given."""

    backbone: Any
    preprocessor: Any
    preprocess_samples: Any

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs the model, after refusing ids that no row of a table stands for."""
        check_inputs(inputs, self.backbone)
        return super().__call__(inputs, *args, **kwargs)  # type: ignore[misc]

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        *,
        shuffle: bool | str = True,
        class_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Trains on rows of arrays, lists, table columns, or on a dataset.

        Args:
            x: what the preprocessor takes, or a dataset of `(x, y)` batches.
            y: the targets, for arrays.
            batch_size: rows of a batch, for arrays; 32 by default.
            sample_weight: weight of each row, for arrays.
            validation_data: a dataset, or `(x, y)` or `(x, y, sample_weight)`.
            validation_split: share of the rows, taken from the end, to validate with.
            shuffle: whether to draw rows in another order in every epoch (True), or
                batches ("batch"). A dataset keeps the order that it has.
            class_weight: weight of each class; a class left out weighs 1.
            **kwargs: of `keras.Model.fit`, such as `epochs` and `callbacks`.

        Raises:
            ValueError: for arrays that do not fit, naming the row.
        """
        if class_weight is not None:
            class_weight = self._class_weights(class_weight)
        if validation_data is not None and not is_stream(validation_data):
            validation_data = self._batches(
                self._training_parts(
                    *keras.utils.unpack_x_y_sample_weight(validation_data)
                ),
                batch_size,
            )
        if is_stream(x):
            if validation_split:
                raise ValueError(
                    "`validation_split` is for arrays: a dataset has no last rows. "
                    "Give `validation_data`. Received: validation_split="
                    f"{validation_split}, x={type(x).__name__}"
                )
            return self._fit_stream(
                x,
                y=y,
                batch_size=batch_size,
                sample_weight=sample_weight,
                validation_data=validation_data,
                class_weight=class_weight,
                **kwargs,
            )
        parts = self._training_parts(x, y, sample_weight)
        rows = number_of_rows(x=parts[0], y=parts[1], sample_weight=parts[2])
        if class_weight is not None:
            parts = _weighted(parts, class_weight)
        if validation_split and validation_data is None:
            parts, rows, held_out = split_rows(parts, rows, validation_split)
            validation_data = self._batches(held_out, batch_size)
        batches = self._batches(parts, batch_size, shuffle)
        return self._fit_stream(batches, validation_data=validation_data, **kwargs)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Returns loss and metrics of rows, or of a dataset; see `fit`."""
        if kwargs.get("_use_cached_eval_dataset") or x is None:
            return super().evaluate(x=x, y=y, **kwargs)  # type: ignore[misc]
        if is_stream(x):
            given = {"y": y, "batch_size": batch_size, "sample_weight": sample_weight}
            kwargs.update({k: v for k, v in given.items() if v is not None})
            if is_dataset(x):
                return super().evaluate(x, **kwargs)  # type: ignore[misc]
            return keras.Model.evaluate(self, self._ready(x), **kwargs)
        parts = self._training_parts(x, y, sample_weight)
        batches = self._batches(parts, batch_size)
        return super().evaluate(batches, **kwargs)  # type: ignore[misc]

    def predict(
        self, x: Any = None, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """Returns the outputs for rows, or for a dataset, as arrays; see `fit`.

        No rows give arrays without rows.
        """
        if is_stream(x):
            if is_dataset(x):
                return super().predict(x, batch_size=batch_size, **kwargs)  # type: ignore[misc]
            return keras.Model.predict(self, self._ready(x), **kwargs)
        parts = self._parts(x, None, None)
        if number_of_rows(x=parts[0]) == 0:
            inputs, _, _ = keras.utils.unpack_x_y_sample_weight(
                self.preprocess_samples(parts[0])
            )
            outputs = self(inputs, training=False)
            return tf.nest.map_structure(np.asarray, outputs)
        batches = self._batches(parts, batch_size)
        return super().predict(batches, **kwargs)  # type: ignore[misc]

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Trains on one batch of rows; see `fit`."""
        class_weight = kwargs.pop("class_weight", None)
        parts = self._training_parts(x, y, sample_weight)
        if class_weight is not None:
            parts = _weighted(parts, self._class_weights(class_weight))
        return keras.Model.train_on_batch(self, *self._preprocessed(parts), **kwargs)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Returns loss and metrics of one batch of rows; see `fit`."""
        parts = self._training_parts(x, y, sample_weight)
        return keras.Model.test_on_batch(self, *self._preprocessed(parts), **kwargs)

    def predict_on_batch(self, x: Any, **kwargs: Any) -> Any:
        """Returns the outputs for one batch of rows; see `predict`."""
        inputs, _, _ = self._preprocessed(self._parts(x, None, None))
        return keras.Model.predict_on_batch(self, inputs, **kwargs)

    def quantize(self, *args: Any, **kwargs: Any) -> None:
        """Quantises the backbone's dense layers in place; the head stays as it is.

        Args:
            *args: of `keras.Model.quantize`, such as "int8".
            **kwargs: the same.
        """
        self.backbone.quantize(*args, **kwargs)
        # What was traced computes with the old weights.
        self.train_function = self.test_function = self.predict_function = None

    @classmethod
    def from_preset(cls, preset: Any, load_weights: bool = True, **kwargs: Any) -> Any:
        """Returns the task of a preset, or a new head on its backbone.

        Args:
            preset: the directory, or a handle such as "hf://user/model".
            load_weights: whether to load weights or draw them anew.
            **kwargs: constructor arguments.

        Warns:
            UserWarning: naming the head's weights, if the preset holds none for it.

        Raises:
            ValueError: if the preset is a supernet.
        """
        preset = preset_name(preset)
        check_is_no_supernet(preset)
        task = super().from_preset(  # type: ignore[misc]
            preset, load_weights=load_weights, **kwargs
        )
        if load_weights and not holds_head_of(preset, cls):
            warn_of_fresh_weights(task, preset)
        return task

    def _texts(self, x: Any) -> Any:
        """Returns what the preprocessor takes, as string tensors (B,)."""
        if isinstance(x, tuple):
            if len(x) not in (1, 2):
                raise ValueError(
                    "`x` must be strings, or a tuple of two batches for pairs. "
                    f"Received: a tuple of {len(x)}"
                )
            return tuple(text_column(segment, "x") for segment in x)
        if isinstance(x, dict):
            raise ValueError(
                "`x` must be strings: this model has a preprocessor. Received: a dict "
                f"with {sorted(x)}. To give token ids, set `preprocessor` to None."
            )
        return text_column(x, "x")

    def _targets(self, x: Any, y: Any) -> Any:
        """Returns targets that fit `x`, as arrays."""
        return structure_rows(y)

    def _class_weights(self, class_weight: Any) -> Any:
        raise ValueError(
            f"`class_weight` is for classes, and a {type(self).__name__} predicts "
            f"none. Give `sample_weight`. Received: class_weight={class_weight!r:.60}"
        )

    def _training_parts(self, x: Any, y: Any, sample_weight: Any) -> Parts:
        """Returns rows to train on or to measure with, which need targets."""
        name = type(self).__name__
        if self.preprocessor is not None and self.targets_from_texts:
            if y is not None or sample_weight is not None:
                raise ValueError(
                    f"The preprocessor of a {name} makes targets and weights of the "
                    "texts. Give `x` only. Received: "
                    f"{'y' if y is not None else 'sample_weight'}"
                )
        elif y is None:
            raise ValueError(f"`y` must be given to a {name}. Received: y=None")
        return self._parts(x, y, sample_weight)

    def _parts(self, x: Any, y: Any, sample_weight: Any) -> Parts:
        if x is None:
            raise ValueError("`x` must be given. Received: x=None")
        if self.preprocessor is None:
            x = structure_rows(x)
            check_ids_of(x)
            check_id_values(x, self.backbone)
        else:
            x = self._texts(x)
        y = None if y is None else self._targets(x, y)
        parts = x, y, row_weights(sample_weight)
        number_of_rows(x=parts[0], y=parts[1], sample_weight=parts[2])
        return parts

    def _batches(
        self, parts: Parts, batch_size: int | None, shuffle: bool | str = False
    ) -> tf.data.Dataset:
        rows = number_of_rows(x=parts[0])
        if rows == 0:
            raise ValueError("`x` must have rows. Received: none")
        packed = keras.utils.pack_x_y_sample_weight(*parts)
        return row_batches(packed, rows, batch_size, shuffle)

    def _preprocessed(self, parts: Parts) -> Parts:
        parts = tf.nest.map_structure(
            lambda leaf: None if leaf is None else tf.convert_to_tensor(leaf), parts
        )
        data = self.preprocess_samples(*parts)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        return x, y, sample_weight

    def _fit_stream(self, x: Any, **kwargs: Any) -> Any:
        """Trains on what brings its own batches, preprocessing them."""
        # False is what a dataset's own order is: True would only warn that it stays.
        kwargs = {"shuffle": False} | {k: v for k, v in kwargs.items() if v is not None}
        if is_dataset(x):
            held_out = kwargs.get("validation_data")
            if held_out is not None and not is_dataset(held_out):
                raise ValueError(
                    "`validation_data` must be arrays or a `tf.data.Dataset` where "
                    f"`x` is one. Received: {type(held_out).__name__}"
                )
            return super().fit(x, **kwargs)  # type: ignore[misc]
        if "validation_data" in kwargs:
            kwargs["validation_data"] = self._ready(kwargs["validation_data"])
        return keras.Model.fit(self, self._ready(x), **kwargs)

    def _ready(self, x: Any) -> Any:
        """Returns a stream of what the model takes, for Keras' own methods."""
        if is_dataset(x):
            return x.map(self.preprocess_samples)
        return preprocessed(x, self._parts, self._preprocessed)


def _weighted(parts: Parts, class_weight: dict[int, float]) -> Parts:
    x, y, sample_weight = parts
    if sample_weight is not None:
        raise ValueError(
            "Give `class_weight` or `sample_weight`, not both: multiply them yourself. "
            f"Received: class_weight={class_weight}, and a sample_weight"
        )
    if y is None or len(y.shape) != 1:
        shape = None if y is None else tuple(y.shape)
        raise ValueError(
            "`class_weight` needs targets `y` of one class a row, (B,). Received: y "
            f"of shape {shape}"
        )
    return x, y, np.array([class_weight[int(c)] for c in np.asarray(y)], "float32")
