"""The records of one split: found, parsed, checked and padded."""

import dataclasses
from pathlib import Path

import tensorflow as tf

from common.command_line import UsageError
from lvbert_tf.vocabulary import SpecialTokens
from training.data.manifest import DataManifest

Batch = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class NumberedShard:
    """A shard's path and its number of records."""

    path: str
    examples: int


@dataclasses.dataclass(frozen=True)
class RecordSource:
    """The records of one split and what is needed to read them.

    Attributes:
        paths: the shards' files.
        shards: the same, with their sizes.
        special: ids of the special tokens.
        vocabulary_size: V; greater ids are refused.
        sequence_length: T.
    """

    paths: tuple[Path, ...]
    shards: tuple[NumberedShard, ...]
    special: SpecialTokens
    vocabulary_size: int
    sequence_length: int

    @classmethod
    def open(
        cls, data_dir: str | Path, split: str, sequence_length: int
    ) -> "RecordSource":
        """Finds the records of a split.

        Raises:
            UsageError: if it has none, or they were made for another length.
        """
        manifest = DataManifest.load(data_dir)
        if manifest.sequence_length != sequence_length:
            raise UsageError(
                f"{data_dir}: the data was prepared with sequence_length="
                f"{manifest.sequence_length}. Received: sequence_length="
                f"{sequence_length}. Prepare it again, or change the configuration."
            )
        shards = manifest.split(split)
        if not sum(shard.examples for shard in shards):
            raise UsageError(
                f"{data_dir}: the data has no {split!r} examples (prepared with "
                f"held_out={manifest.options['held_out']})."
            )
        return cls(
            paths=tuple(manifest.directory / shard.file for shard in shards),
            shards=tuple(
                NumberedShard(str(manifest.directory / shard.file), shard.examples)
                for shard in shards
            ),
            special=SpecialTokens.from_vocabulary(manifest.vocabulary()),
            vocabulary_size=manifest.vocabulary_size,
            sequence_length=sequence_length,
        )

    def parse(self, serialized: tf.Tensor, rows: int) -> Batch:
        """Parses records and pads them.

        Args:
            serialized: string (B,).
            rows: B.

        Returns:
            int32 (B, T) `token_ids`, `segment_ids`, `padding_mask`.
        """
        parsed = tf.io.parse_example(
            serialized,
            {
                name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
                for name in ("token_ids", "segment_ids")
            },
        )
        ids, segments = parsed["token_ids"], parsed["segment_ids"]
        lengths = ids.row_lengths()
        longest = tf.reduce_max(lengths)
        greatest = tf.reduce_max(ids.flat_values)
        checks = [
            tf.debugging.assert_less_equal(
                longest,
                tf.constant(self.sequence_length, tf.int64),
                "a record has more tokens than sequence_length; the data directory is "
                "damaged or was changed after it was prepared",
            ),
            tf.debugging.assert_less(
                greatest,
                tf.constant(self.vocabulary_size, tf.int64),
                f"a record has a token id outside the vocabulary of "
                f"{self.vocabulary_size} entries; the data directory is damaged or was "
                "changed after it was prepared",
            ),
            tf.debugging.assert_non_negative(
                ids.flat_values, "a record has a negative token id"
            ),
        ]
        with tf.control_dependencies(checks):
            shape = [rows, self.sequence_length]
            return {
                "token_ids": tf.cast(
                    ids.to_tensor(default_value=self.special.pad, shape=shape),
                    tf.int32,
                ),
                "segment_ids": tf.cast(segments.to_tensor(shape=shape), tf.int32),
                "padding_mask": tf.sequence_mask(
                    lengths, self.sequence_length, tf.int32
                ),
            }
