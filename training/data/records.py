"""From a data directory to batches for pretraining, as tf.data.

Every batch is a function of the seed and of its step, so that a run that starts again
at some step sees what an uninterrupted one would have seen, and so that any number of
input pipelines divide the same global batches.
"""

import dataclasses
from pathlib import Path

import tensorflow as tf

from common.command_line import UsageError
from lvbert_tf.masking import default_max_predictions, mask_tokens
from training.data.record_order import shuffled_records
from training.data.record_source import Batch, RecordSource

_HELD_OUT_SALT = 0x68656C64  # keeps held-out masks apart from those of training


@dataclasses.dataclass(frozen=True)
class Masking:
    """How batches are masked; see `lvbert_tf.masking.mask_tokens`.

    Attributes:
        mask_probability: share of the real tokens to predict.
        keep_probability: share of those that keep their token.
        max_predictions: slots for predictions, None for the official number.
        with_replacement: draw positions as the official code does.
    """

    mask_probability: float = 0.15
    keep_probability: float = 0.15
    max_predictions: int | None = None
    with_replacement: bool = False

    def slots(self, sequence_length: int) -> int:
        """Returns P, the number of prediction slots."""
        if self.max_predictions is not None:
            return self.max_predictions
        return default_max_predictions(sequence_length, self.mask_probability)


def training_dataset(
    data_dir: str | Path,
    *,
    batch_size: int,
    sequence_length: int,
    seed: int,
    first_step: int = 0,
    mask_probability: float = 0.15,
    keep_probability: float = 0.15,
    max_predictions: int | None = None,
    with_replacement: bool = False,
    split: str = "train",
    num_input_pipelines: int = 1,
    input_pipeline_id: int = 0,
) -> tf.data.Dataset:
    """Endless masked batches, shuffled anew in every epoch.

    The order of an epoch is a permutation of the shards and one within each shard, both
    drawn from seed and epoch; `prepare` has already dealt the examples to the shards at
    random. A batch may hold the end of an epoch and the beginning of the next.

    Args:
        data_dir: a data directory.
        batch_size: B, rows of the global batch.
        sequence_length: T; must be the one that the data was prepared with.
        seed: of order and masks.
        first_step: the step of the first batch.
        mask_probability: see `Masking`.
        keep_probability: see `Masking`.
        max_predictions: see `Masking`.
        with_replacement: see `Masking`.
        split: ``"train"`` or ``"held_out"``.
        num_input_pipelines: into how many parts each global batch is divided.
        input_pipeline_id: which of them this dataset gives: rows
            ``[id * B / n, (id + 1) * B / n)``. Masks are drawn before.

    Returns:
        A dataset of dicts: int32 (B/n, T) `token_ids` (masked), `segment_ids` and
        `padding_mask`; (B/n, P) int32 `mask_positions`, `mask_ids` and float32
        `mask_weights`; int64 (B/n,) `step`.

    Raises:
        UsageError: if the data doesn't fit the arguments.
        tf.errors.InvalidArgumentError: while iterating, for a record with ids outside
            the vocabulary or more than T tokens.
    """
    source = RecordSource.open(data_dir, split, sequence_length)
    masking = Masking(
        mask_probability, keep_probability, max_predictions, with_replacement
    )
    rows = _rows(batch_size, num_input_pipelines, input_pipeline_id)
    records = shuffled_records(source.shards, seed, first_step * batch_size)

    def make_batch(step: tf.Tensor, serialized: tf.Tensor) -> Batch:
        batch = source.parse(serialized, batch_size)
        masked = mask_tokens(
            batch["token_ids"],
            batch["padding_mask"],
            seed=tf.stack([tf.constant(seed, tf.int64), step]),
            special=source.special,
            mask_probability=masking.mask_probability,
            keep_probability=masking.keep_probability,
            max_predictions=masking.slots(sequence_length),
            with_replacement=masking.with_replacement,
        )
        batch.update(masked)
        batch["step"] = tf.fill([batch_size], step)
        return {name: tensor[rows] for name, tensor in batch.items()}

    return (
        records.batch(batch_size, drop_remainder=True)
        .enumerate(first_step)
        .map(make_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(_options())
    )


def held_out_dataset(
    data_dir: str | Path,
    *,
    batch_size: int,
    sequence_length: int,
    seed: int,
    max_examples: int | None = None,
    mask_probability: float = 0.15,
    keep_probability: float = 0.15,
    max_predictions: int | None = None,
    split: str = "held_out",
    num_input_pipelines: int = 1,
    input_pipeline_id: int = 0,
) -> tf.data.Dataset:
    """All held-out examples once, with masks that are always the same.

    The mask of an example depends on the seed and on its place in the file, not on the
    batch it is in. The last batch is filled up with rows of padding, whose weights are
    0, so that all batches have the same shape.

    Args:
        data_dir: a data directory.
        batch_size: B, rows of the global batch.
        sequence_length: T; must be the one that the data was prepared with.
        seed: of the masks.
        max_examples: use only the first so many (they are in random order).
        mask_probability: see `Masking`.
        keep_probability: see `Masking`.
        max_predictions: see `Masking`.
        split: ``"held_out"`` or ``"train"``.
        num_input_pipelines: see `training_dataset`.
        input_pipeline_id: see `training_dataset`.

    Returns:
        A finite dataset of dicts as `training_dataset` gives; `step` is the number of
        the batch. Its `cardinality` is known.

    Raises:
        UsageError: if the data doesn't fit the arguments.
    """
    source = RecordSource.open(data_dir, split, sequence_length)
    masking = Masking(mask_probability, keep_probability, max_predictions)
    rows = _rows(batch_size, num_input_pipelines, input_pipeline_id)
    total = sum(shard.examples for shard in source.shards)
    if max_examples is not None:
        if max_examples < 1:
            raise UsageError(
                f"`max_examples` must be at least 1. Received: {max_examples}."
            )
        total = min(total, max_examples)
    missing = -total % batch_size
    base = seed ^ _HELD_OUT_SALT

    def make_example(index: tf.Tensor, serialized: tf.Tensor) -> Batch:
        example = source.parse(serialized[tf.newaxis], 1)
        masked = mask_tokens(
            example["token_ids"],
            example["padding_mask"],
            seed=tf.stack([tf.constant(base, tf.int64), index]),
            special=source.special,
            mask_probability=masking.mask_probability,
            keep_probability=masking.keep_probability,
            max_predictions=masking.slots(sequence_length),
        )
        example.update(masked)
        return {name: tensor[0] for name, tensor in example.items()}

    def finish(number: tf.Tensor, batch: Batch) -> Batch:
        batch = dict(batch, step=tf.fill([batch_size], number))
        return {name: tensor[rows] for name, tensor in batch.items()}

    examples = (
        tf.data.TFRecordDataset([str(path) for path in source.paths])
        .take(total)
        .enumerate()
        .map(make_example, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    )
    if missing:
        examples = examples.concatenate(
            _padding_example(source, masking.slots(sequence_length)).repeat(missing)
        )
    return (
        examples.batch(batch_size, drop_remainder=True)
        .enumerate()
        .map(finish)
        .prefetch(tf.data.AUTOTUNE)
        .apply(tf.data.experimental.assert_cardinality((total + missing) // batch_size))
        .with_options(_options())
    )


def _padding_example(source: RecordSource, slots: int) -> tf.data.Dataset:
    length = source.sequence_length
    return tf.data.Dataset.from_tensors(
        {
            "token_ids": tf.fill([length], source.special.pad),
            "segment_ids": tf.zeros([length], tf.int32),
            "padding_mask": tf.zeros([length], tf.int32),
            "mask_positions": tf.zeros([slots], tf.int32),
            "mask_ids": tf.zeros([slots], tf.int32),
            "mask_weights": tf.zeros([slots], tf.float32),
        }
    )


def _rows(batch_size: int, pipelines: int, pipeline: int) -> slice:
    if batch_size < 1 or pipelines < 1 or batch_size % pipelines:
        raise UsageError(
            "The global batch size must be a positive multiple of the number of input "
            f"pipelines. Received: batch_size={batch_size}, "
            f"num_input_pipelines={pipelines}."
        )
    if not 0 <= pipeline < pipelines:
        raise UsageError(
            f"`input_pipeline_id` must be in [0, {pipelines - 1}]. "
            f"Received: {pipeline}."
        )
    share = batch_size // pipelines
    return slice(pipeline * share, (pipeline + 1) * share)


def _options() -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    # Input pipelines divide the batches themselves; tf.distribute must not divide the
    # files once more.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return options


__all__ = ["Batch", "Masking", "held_out_dataset", "training_dataset"]
