"""LVBertTextClassifierPreprocessor: raw strings, or pairs, to model inputs."""

from typing import Any

import keras
from keras_hub.models import TextClassifierPreprocessor
from keras_hub.src.utils.tensor_utils import preprocessing_function

from lvbert_tf.layers.arguments import positive_integers
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.fresh_heads import length_that_fits
from lvbert_tf.models.packing import pack_segments
from lvbert_tf.models.text_batches import equal_rows, text_rows
from lvbert_tf.models.tokenizer import LVBertTokenizer


def tokenize_and_pack(
    tokenizer: LVBertTokenizer, x: Any, sequence_length: int
) -> dict[str, Any]:
    """Turns strings (B,) or (B, 1), or a tuple of two such, into a backbone's inputs.

    Returns:
        dict of int32 (B, `sequence_length`): `token_ids`, `segment_ids`,
        `padding_mask`.

    Raises:
        ValueError: if there are not one or two segments, or one has another shape.
    """
    segments = x if isinstance(x, tuple) else (x,)
    if len(segments) not in (1, 2):
        raise ValueError(
            "Expected strings, or a tuple of two for pairs. "
            f"Received: a tuple of {len(segments)}"
        )
    rows = [text_rows(segment) for segment in segments]
    if len(rows) == 2:
        equal_rows(rows[0], rows[1], names="The two segments of pairs")
    token_ids, segment_ids, padding_mask = pack_segments(
        *[tokenizer.tokenize(segment) for segment in rows],
        sequence_length=sequence_length,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return {
        "token_ids": token_ids,
        "segment_ids": segment_ids,
        "padding_mask": padding_mask,
    }


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertTextClassifierPreprocessor(TextClassifierPreprocessor):
    """Tokenizes and packs raw strings for `LVBertTextClassifier`.

    Args:
        tokenizer: the tokenizer.
        sequence_length: tokens T of every example; longer ones are cut, pairs the
            longer segment first.
        **kwargs: arguments of the base class, such as `name`.

    Call arguments:
        x: strings (B,) or (B, 1), or a tuple of two such for pairs. KerasHub reads a
            lone tuple as `(x, y)`: call it as `preprocessor(pairs, None)`.
        y: labels, passed through.
        sample_weight: passed through.

    Returns:
        The model's inputs, with `y` and `sample_weight` if they were given.
    """

    backbone_cls = LVBertBackbone
    tokenizer_cls = LVBertTokenizer

    def __init__(
        self, tokenizer: LVBertTokenizer, sequence_length: int = 128, **kwargs: Any
    ) -> None:
        (sequence_length,) = positive_integers(sequence_length=sequence_length)
        super().__init__(tokenizer, sequence_length=sequence_length, **kwargs)

    @classmethod
    def _add_missing_kwargs(cls, loader: Any, kwargs: dict[str, Any]) -> Any:
        # KerasHub's hook for a preset that was saved without this preprocessor.
        length_that_fits(loader, kwargs, default=128)
        return super()._add_missing_kwargs(loader, kwargs)

    def build(self, input_shape: Any) -> None:
        """Creates nothing; the base class would create a packer of its own."""
        self.built = True

    @preprocessing_function
    def call(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocesses a batch."""
        inputs = tokenize_and_pack(self.tokenizer, x, self._sequence_length)
        return keras.utils.pack_x_y_sample_weight(inputs, y, sample_weight)

    @property
    def sequence_length(self) -> int:
        """Tokens of every example."""
        return self._sequence_length

    @sequence_length.setter
    def sequence_length(self, value: int) -> None:
        self._sequence_length = value

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        del config["truncate"]
        return config
