"""Texts as rows of token ids, tokenised once, and what is lost on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
_CHUNK = 2048
ROUNDED_TO = 8
"""Batches are padded to multiples of this, so that few different widths occur."""


@dataclass(frozen=True)
class Encoded:
    """Model inputs of N examples without their padding.

    Attributes:
        token_ids: int32, all rows one behind the other.
        segment_ids: int32, likewise.
        starts: int64 (N + 1,), where rows begin.
        cut: how many texts (or pairs) were longer than the window.
        longest: tokens of the longest one before it was cut, special ones included.
        tokens: how many tokens the texts have, before cutting.
        unknown: how many of them are [UNK].
        pad_token_id: id of [PAD].
    """

    token_ids: IntArray
    segment_ids: IntArray
    starts: npt.NDArray[np.int64]
    cut: int
    longest: int
    tokens: int
    unknown: int
    pad_token_id: int = 0

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each row, int64 (N,)."""
        return np.diff(self.starts)

    def batch(self, rows: Sequence[int] | Any, width: int) -> dict[str, IntArray]:
        """Returns the inputs of some rows, int32 (B, `width`)."""
        inputs = {
            name: np.zeros((len(rows), width), np.int32)
            for name in ("token_ids", "segment_ids", "padding_mask")
        }
        inputs["token_ids"][:] = self.pad_token_id
        for place, row in enumerate(rows):
            part = slice(int(self.starts[row]), int(self.starts[row + 1]))
            length = part.stop - part.start
            inputs["token_ids"][place, :length] = self.token_ids[part]
            inputs["segment_ids"][place, :length] = self.segment_ids[part]
            inputs["padding_mask"][place, :length] = 1
        return inputs

    def losses(self) -> dict[str, Any]:
        """Returns what the result says of cut texts and unknown tokens."""
        return {
            "texts": len(self.lengths),
            "cut_texts": self.cut,
            "longest_text_tokens": self.longest,
            "unknown_fraction": self.unknown / max(self.tokens, 1),
        }


def encode(
    tokenizer: Any, texts: Sequence[tuple[str, ...]], sequence_length: int
) -> Encoded:
    """Tokenises texts, or pairs, as `LVBertTextClassifierPreprocessor` lays them out.

    Args:
        tokenizer: an `LVBertTokenizer`.
        texts: one or two texts for each example, all alike.
        sequence_length: tokens T of the window; longer examples are cut.
    """
    import tensorflow as tf

    from lvbert_tf.models.packing import pack_segments

    ids, segments, lengths = [], [], [np.zeros(1, np.int64)]
    cut = longest = tokens = unknown = 0
    for start in range(0, len(texts), _CHUNK):
        part = texts[start : start + _CHUNK]
        with tf.device("cpu"):
            rows = [
                tokenizer.tokenize_strings(tf.constant([e[i] for e in part]))
                for i in range(len(part[0]))
            ]
            packed = pack_segments(
                *rows,
                sequence_length=sequence_length,
                cls_token_id=tokenizer.cls_token_id,
                sep_token_id=tokenizer.sep_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        total = sum(row.row_lengths().numpy() for row in rows) + len(rows) + 1
        cut += int((total > sequence_length).sum())
        longest = max(longest, int(total.max()))
        for row in rows:
            tokens += len(row.flat_values)
            unknown += int((row.flat_values.numpy() == tokenizer.unk_token_id).sum())
        token_ids, segment_ids, mask = (value.numpy() for value in packed)
        ids.append(token_ids[mask == 1])
        segments.append(segment_ids[mask == 1])
        lengths.append(mask.sum(axis=1).astype(np.int64))
    return Encoded(
        np.concatenate(ids),
        np.concatenate(segments),
        np.cumsum(np.concatenate(lengths)),
        cut,
        longest,
        tokens,
        unknown,
        tokenizer.pad_token_id,
    )


def warn_of_losses(name: str, encoded: Encoded, sequence_length: int) -> list[str]:
    """Returns sentences about cut texts and unknown tokens, if there are any."""
    remarks = []
    count = len(encoded.lengths)
    if encoded.cut:
        remarks.append(
            f"{name}: {encoded.cut} of {count} texts are longer than the window of "
            f"{sequence_length} tokens and are cut (the longest has {encoded.longest}; "
            "--set run.sequence_length=N widens it)"
        )
    share = encoded.unknown / max(encoded.tokens, 1)
    if share >= 0.01:
        remarks.append(
            f"{name}: {share:.1%} of the tokens are unknown to the vocabulary"
            + ("; the model cannot read these texts" if share > 0.3 else "")
        )
    return remarks


def rounded(length: int, limit: int) -> int:
    """Returns the width of a batch whose longest row has `length` tokens."""
    return min(limit, -(-length // ROUNDED_TO) * ROUNDED_TO)


def epoch_batches(
    lengths: npt.NDArray[np.int64],
    batch_size: int,
    seed: int,
    epoch: int,
    bucketed: bool,
) -> list[npt.NDArray[np.int64]]:
    """Returns the rows of each batch of an epoch, a function of its arguments alone.

    Args:
        lengths: tokens of each row, (N,).
        batch_size: B; one batch may be smaller.
        seed: of the run.
        epoch: from 0 on.
        bucketed: whether rows of similar length share a batch: pools of 64 batches,
            drawn at random, are sorted by length, and the batches then shuffled.
    """
    draw = np.random.default_rng([seed, epoch])
    order = draw.permutation(len(lengths))
    if not bucketed:
        return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    pool = 64 * batch_size
    batches = []
    for start in range(0, len(order), pool):
        part = order[start : start + pool]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    return [batches[place] for place in draw.permutation(len(batches))]
