"""The line to beat: the loss of knowing how frequent tokens are, and nothing else."""

import math

import numpy as np
import tensorflow as tf

from common.command_line import CommandError
from lvbert_tf.vocabulary import SpecialTokens
from training.data.manifest import DataManifest
from training.data.token_counts import unigram_losses
from training.loop.batches import HELD_OUT_SEED, held_out_batches
from training.run.devices import Distribution
from training.run.options import Data

_BATCH_SIZE = 64  # moves nothing: masks are those of each example


def held_out_unigram_loss(data: Data, seed: int = HELD_OUT_SEED) -> float:
    """Returns the cross-entropy of the training frequencies on held-out text, in nats.

    It is taken at the positions that show [MASK], as a network's `loss` is, under the
    add-one smoothed frequencies of the training split, without the special tokens that
    are never predicted.

    Args:
        data: which records, how long, how masked, how many.
        seed: of the masks.

    Raises:
        CommandError: if the counts are missing or damaged, or nothing is masked.
    """
    manifest = DataManifest.load(data.directory)
    special = SpecialTokens.from_vocabulary(manifest.vocabulary())
    losses = unigram_losses(
        manifest.token_counts(),
        {special.pad, special.cls, special.sep, special.mask},
    )
    # Every worker looks at everything: no sums have to be exchanged.
    batches = held_out_batches(
        data,
        batch_size=_BATCH_SIZE,
        distribution=Distribution(tf.distribute.get_strategy()),
        seed=seed,
    )
    sums, count = [], 0
    for batch in batches.as_numpy_iterator():
        shown = np.take_along_axis(batch["token_ids"], batch["mask_positions"], axis=1)
        masked = (batch["mask_weights"] > 0) & (shown != batch["mask_ids"])
        sums.append(losses[batch["mask_ids"][masked]].sum())
        count += int(masked.sum())
    if not count:
        raise CommandError(
            f"{data.directory}: its held-out part has no position that shows [MASK]"
        )
    return math.fsum(sums) / count
