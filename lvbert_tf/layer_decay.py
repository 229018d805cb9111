"""Layer-wise learning rates of fine-tuning, by the official rule."""


def layer_wise_decay(num_layers: int, decay: float = 0.8) -> list[tuple[str, float]]:
    """Returns learning-rate multipliers that shrink from the head to the embeddings.

    The official code counts pairs of layers: a head has 1, the top pair `decay ** 2`,
    each pair below it one power more, embeddings and projection one more than the
    bottom pair.

    Args:
        num_layers: layers of the architecture; an odd top layer is a pair of its own.
        decay: the base of the powers.

    Returns:
        Pairs for `AdamW(learning_rate_multipliers=...)`, for variables of an
        `LVBertBackbone`.
    """
    pairs = (num_layers + 1) // 2
    bottom = decay ** (pairs + 2)
    return [
        (r"(^|/)embeddings/", bottom),
        (r"(^|/)encoder/projection/", bottom),
        *(
            (rf"(^|/)encoder/layer_{i}_", decay ** (pairs + 1 - i // 2))
            for i in range(num_layers)
        ),
    ]
