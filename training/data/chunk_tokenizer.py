"""Tokenizes the lines of a chunk as `LVBertTokenizer`, with a short cut for most lines.

Normalising text costs a quarter of tokenizing it, and ASCII text, also with typeset
dashes and quotation marks, needs only lower-casing (of bytes). Lines that need more are
found here and get all of it.
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
_TYPESET = "\u2010".encode()
_LAST_TYPESET = "\u2027".encode()[-1]
_IS_CONTROL = np.array(
    [
        chr(byte) not in "\t\n\r" and (byte < _SPACE or byte == 0x7F)
        for byte in range(256)
    ]
)


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

    Those are the ones with a character beyond ASCII that is no dash or quotation mark,
    a control character, or a run of more than `longest_word` bytes without white space.
    """
    text = b"\n".join(lines)
    values = np.frombuffer(text, np.uint8)
    spaces = np.flatnonzero(values <= _SPACE)
    bounds = np.concatenate([[-1], spaces, [len(text)]])
    odd_places = [
        bounds[:-1][np.diff(bounds) > longest_word + 1] + 1,
        _beyond_ascii(values),
    ]
    if count_controls(text):
        odd_places.append(np.flatnonzero(_IS_CONTROL[values]))
    places = np.concatenate(odd_places)
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)) + 1)
    odd: npt.NDArray[np.int64] = np.unique(np.searchsorted(ends, places, "right"))
    return odd


def _beyond_ascii(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Returns where bytes of characters are that normalisation may change.

    It keeps the dashes, quotation marks and dots of typeset text, U+2010 to U+2027:
    they are punctuation without case or decomposition, and in many books every line
    has one.
    """
    beyond = np.flatnonzero(values > 0x7F)
    where = np.flatnonzero(values[beyond] == _TYPESET[0])
    lead = beyond[where]
    third = values[lead + 2]
    typeset = where[
        (values[lead + 1] == _TYPESET[1])
        & (third >= _TYPESET[2])
        & (third <= _LAST_TYPESET)
    ]
    keep = np.ones(len(beyond), np.bool_)
    for byte in range(len(_TYPESET)):
        keep[typeset + byte] = False
    return beyond[keep]
