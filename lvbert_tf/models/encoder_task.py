"""What our KerasHub tasks share: checks of their parts, inputs and presets."""

from typing import Any

from lvbert_tf.layers.ids import check_ids_of
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.compilation import SavesCompilation
from lvbert_tf.models.fresh_heads import (
    check_is_no_supernet,
    holds_head_of,
    warn_of_fresh_weights,
)


class EncoderTask(SavesCompilation):
    """Mixin for tasks with a head of their own on an `LVBertBackbone`."""

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs the model, after refusing ids that are no integers."""
        check_ids_of(inputs)
        return super().__call__(inputs, *args, **kwargs)  # type: ignore[misc]

    @classmethod
    def from_preset(cls, preset: Any, load_weights: bool = True, **kwargs: Any) -> Any:
        """Returns the task of a preset, or a new head on its backbone.

        Args:
            preset: the directory.
            load_weights: whether to load weights or draw them anew.
            **kwargs: constructor arguments.

        Warns:
            UserWarning: naming the head's weights, if the preset holds none for it.

        Raises:
            ValueError: if the preset is a supernet.
        """
        check_is_no_supernet(preset)
        task = super().from_preset(  # type: ignore[misc]
            preset, load_weights=load_weights, **kwargs
        )
        if load_weights and not holds_head_of(preset, cls):
            warn_of_fresh_weights(task, preset)
        return task


def check_preprocessor(backbone: LVBertBackbone, preprocessor: Any) -> None:
    """Refuses a preprocessor whose inputs the backbone's tables would not hold.

    Raises:
        ValueError: if the tokenizer's vocabulary is of another size, or the inputs are
            longer than the position table.
    """
    tokenizer = getattr(preprocessor, "tokenizer", None)
    # A tokenizer that is being restored gets its vocabulary after this.
    if tokenizer is not None and tokenizer.vocabulary is not None:
        size = tokenizer.vocabulary_size()
        if size != backbone.vocabulary_size:
            raise ValueError(
                "The preprocessor's tokenizer and the backbone must have the same "
                f"vocabulary. Received: {size} tokens and vocabulary_size="
                f"{backbone.vocabulary_size}"
            )
    length = getattr(preprocessor, "sequence_length", None)
    if length is not None and length > backbone.max_sequence_length:
        raise ValueError(
            "The preprocessor makes longer inputs than the backbone has positions for. "
            f"Received: sequence_length={length}, "
            f"max_sequence_length={backbone.max_sequence_length}"
        )
