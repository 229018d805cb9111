"""What `keras.Model.export` writes of our models, and what it refuses."""

from pathlib import Path
from typing import Any

import keras

FORMATS = ("tf_saved_model", "onnx", "litert")
_REASONS = {
    "openvino": "OpenVINO reads ONNX files: write 'onnx'",
    "torch": "Keras writes it with its PyTorch backend only, and ours is TensorFlow",
}


class Exports:
    """Mixin for functional models that are exported without having been called.

    Keras refuses the ONNX of a model that nobody has called yet, such as one that was
    just loaded. The shapes of a functional model are known without a call.
    """

    def export(
        self,
        filepath: str | Path,
        format: str = "tf_saved_model",  # the name that Keras has
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Writes the model for inference, on ids; see `keras.Model.export`.

        Batch and length stay free in every format.

        Args:
            filepath: a directory for a SavedModel, a file for the others; that of
                LiteRT ends with `.tflite`.
            format: "tf_saved_model", "onnx" or "litert".
            verbose: whether to say what was written.
            input_signature: shapes and dtypes of the inputs; by default the model's.
            **kwargs: of the format, as in Keras.

        Raises:
            ValueError: for another format, or for numbers that the format does not
                hold, with the reason.
        """
        check_format(format)
        model: Any = self
        _check_weights(format, model)
        if input_signature is None:
            input_signature = [
                keras.tree.map_structure(
                    lambda x: keras.InputSpec(x.dtype, x.shape, name=x.name),
                    model.input,
                )
            ]
        super().export(  # type: ignore[misc]
            str(filepath),
            format=format,
            verbose=verbose,
            input_signature=input_signature,
            **kwargs,
        )


def check_format(name: str) -> None:
    """Refuses what is not written here.

    Raises:
        ValueError: saying why, and what there is instead.
    """
    if name in FORMATS:
        return
    reason = f" ({_REASONS[name]})" if name in _REASONS else ""
    raise ValueError(f"`format` must be one of {FORMATS}{reason}. Received: {name!r}")


def _check_weights(name: str, model: Any) -> None:
    """Refuses precisions that a format's converter writes and no runtime reads.

    Raises:
        ValueError: saying how the same weights are exported.
    """
    if name == "litert" and any(w.dtype == "int8" for w in model.weights):
        raise ValueError(
            "`format='litert'` holds no weights that Keras quantised: LiteRT quantises "
            "by itself. Export the model as it was before `quantize`, with "
            "`optimizations=[tf.lite.Optimize.DEFAULT]`. Received: int8 weights"
        )
    policy = getattr(model, "backbone", model).dtype_policy
    held = {"onnx": ("float32", "float16"), "litert": ("float32",)}
    if name in held and policy.compute_dtype not in held[name]:
        raise ValueError(
            f"`format={name!r}` is run in {' or '.join(held[name])}. Save a preset and "
            "load it with `from_preset(directory, dtype='float32')`: the weights are "
            f"the same. Received: dtype={policy.name!r}"
        )
