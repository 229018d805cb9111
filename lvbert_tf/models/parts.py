"""Whether backbone and preprocessor of a task fit each other."""

from typing import Any

from lvbert_tf.models.backbone import LVBertBackbone


def check_parts(
    backbone: LVBertBackbone, preprocessor: Any, preprocessor_class: type
) -> None:
    """Refuses parts that do not fit each other, before any layer is made of them.

    Args:
        backbone: what a task was given as that.
        preprocessor: likewise; or None.
        preprocessor_class: the class for this task.

    Raises:
        ValueError: if one of them is of another class, the tokenizer's vocabulary is of
            another size than the backbone's, or the preprocessor's inputs are longer
            than its position table.
    """
    if not isinstance(backbone, LVBertBackbone):
        raise ValueError(
            f"`backbone` must be an LVBertBackbone. Received: backbone={backbone!r:.60}"
        )
    if preprocessor is not None and not isinstance(preprocessor, preprocessor_class):
        raise ValueError(
            f"`preprocessor` must be a {preprocessor_class.__name__}, or None. "
            f"Received: preprocessor={preprocessor!r:.60}"
        )
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
