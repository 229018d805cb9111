"""Tokenizes the lines of a chunk: `LVBertTokenizer`'s ids, with a short cut for ASCII.

Normalising text costs a quarter of tokenizing it, and ASCII text needs only
lower-casing (of bytes). Lines that need more are found here and get all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lvbert_tf.vocabulary import Duplicates
from training.data.text_anomalies import count_controls

if TYPE_CHECKING:
    import tensorflow as tf

_SPACE = 32


@dataclass(frozen=True)
class TokenizerSettings:
    """What `LVBertTokenizer` needs: picklable, and stored in the index.

    Attributes:
        vocabulary: the tokens.
        lowercase: see `LVBertTokenizer`.
        strip_accents: see `LVBertTokenizer`.
        duplicates: see `LVBertTokenizer`.
    """

    vocabulary: tuple[str, ...]
    lowercase: bool
    strip_accents: bool | None
    duplicates: Duplicates


class ChunkTokenizer:
    """Turns many lines into ids at once.

    Args:
        settings: see `TokenizerSettings`.
    """

    def __init__(self, settings: TokenizerSettings) -> None:
        import tensorflow as tf

        from lvbert_tf.models.text_normalization import MAX_CHARACTERS_PER_WORD
        from lvbert_tf.models.tokenizer import LVBertTokenizer

        self.tokenizer = LVBertTokenizer(
            list(settings.vocabulary),
            lowercase=settings.lowercase,
            strip_accents=settings.strip_accents,
            duplicates=settings.duplicates,
        )
        self._longest_word = MAX_CHARACTERS_PER_WORD
        self.special = self.tokenizer.special

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.string),
                tf.TensorSpec([None], tf.int64),
            ],
            autograph=False,
        )
        def tokenize(
            lines: "tf.Tensor", odd: "tf.Tensor"
        ) -> tuple["tf.Tensor", "tf.Tensor"]:
            normalization = self.tokenizer.normalization
            text = tf.strings.lower(lines) if settings.lowercase else lines
            text = tf.tensor_scatter_nd_update(
                text,
                odd[:, tf.newaxis],
                normalization.normalize(tf.gather(lines, odd), valid_utf8=True),
            )
            ids = self.tokenizer.tokenize_normalized(text)
            return ids.flat_values, ids.row_splits

        self._tokenize = tokenize

    def __call__(
        self, lines: Sequence[bytes]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Tokenizes lines of well-formed UTF-8 without line feeds in them.

        Returns:
            int32 (N,) the ids of all lines, and int64 (lines + 1,) where each line's
            ids begin and the last one's end.
        """
        import tensorflow as tf

        ids, splits = self._tokenize(
            tf.constant(lines, tf.string, shape=(len(lines),)),
            tf.constant(odd_lines(lines, self._longest_word), tf.int64),
        )
        return ids.numpy(), splits.numpy()


def odd_lines(lines: Sequence[bytes], longest_word: int) -> npt.NDArray[np.int64]:
    """Returns the indices of the lines for which lower-casing bytes is not enough.

    Those are the ones with a byte beyond ASCII, a control character, or a run of more
    than `longest_word` bytes without white space.
    """
    text = b"\n".join(lines)
    if count_controls(text):
        return np.arange(len(lines))
    odd = {index for index, line in enumerate(lines) if not line.isascii()}
    spaces = np.flatnonzero(np.frombuffer(text, np.uint8) <= _SPACE)
    bounds = np.concatenate([[-1], spaces, [len(text)]])
    long = bounds[:-1][np.diff(bounds) > longest_word + 1] + 1
    if len(long):
        ends = np.cumsum([len(line) + 1 for line in lines])
        odd.update(np.searchsorted(ends, long, "right").tolist())
    return np.array(sorted(odd), np.int64)
