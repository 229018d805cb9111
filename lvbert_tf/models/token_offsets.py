"""Where in the original text each word piece stands.

The tokenizer sees normalised text, which has fewer or more characters than the
original. Normalisation works character by character, so the lengths of the normalised
characters tell where each of them went.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from lvbert_tf.models.text_normalization import (
    MAX_CHARACTERS_PER_WORD,
    TextNormalization,
)


class TokensWithOffsets(NamedTuple):
    """Word pieces and the characters of the original text that they stand for.

    Attributes:
        ids: ragged integers (B, None).
        starts: ragged int32 (B, None), the first character of each.
        ends: ragged int32 (B, None), the character behind the last one.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def tokenize_with_offsets(
    text: tf.Tensor,
    normalization: TextNormalization,
    fast_tokenizer: Any,
    continues_word: tf.Tensor,
    unknown_id: int,
) -> TokensWithOffsets:
    """Returns the tokens of strings with their places.

    Args:
        text: string (B,).
        normalization: what the tokenizer does to text.
        fast_tokenizer: a `FastWordpieceTokenizer` that gives ids.
        continues_word: bool (V,), whether a piece continues a word.
        unknown_id: the id of [UNK].
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
    characters = tf.strings.unicode_split(text, "UTF-8")
    normalized = normalization.normalize_characters(characters.flat_values)
    bytes_before = _sums(tf.strings.length(normalized))
    letters_before = _sums(tf.strings.length(normalized, unit="UTF8_CHAR"))
    row_start = tf.cast(characters.row_splits, tf.int32)

    ids, first, last = fast_tokenizer.tokenize_with_offsets(
        normalization.normalize_characters(text)
    )
    row = tf.cast(ids.value_rowids(), tf.int32)
    begin = tf.gather(row_start, row)
    bytes_of_rows = tf.gather(bytes_before, begin)

    def character(byte: tf.RaggedTensor) -> tf.Tensor:
        """Returns the last character before which there are so many bytes."""
        at = tf.cast(byte.flat_values, tf.int32) + bytes_of_rows
        return tf.searchsorted(bytes_before, at, side="right") - 1

    def behind(byte: tf.RaggedTensor) -> tf.Tensor:
        """Does the same, with the next one where the byte is inside a character.

        A Hangul syllable becomes several letters, which may be different tokens.
        """
        last = character(byte)
        at = tf.cast(byte.flat_values, tf.int32) + bytes_of_rows
        return last + tf.cast(tf.gather(bytes_before, last) < at, tf.int32)

    start = character(first)
    # Characters that became nothing, like combining accents, belong to what they
    # follow, but not those of the next text.
    end = tf.minimum(behind(last), tf.gather(row_start, row + 1))

    begins_word = ~tf.gather(continues_word, ids.flat_values)
    word = tf.cumsum(tf.cast(begins_word, tf.int32)) - 1
    words = tf.reduce_sum(tf.cast(begins_word, tf.int32))
    word_end = tf.math.unsorted_segment_max(end, word, words)
    letters = tf.gather(letters_before, word_end) - tf.gather(
        letters_before, tf.boolean_mask(start, begins_word)
    )
    # A word over the limit is one [UNK], as `TextNormalization.normalize` has it.
    overlong = tf.gather(letters > MAX_CHARACTERS_PER_WORD, word)
    kept = begins_word | ~overlong
    token = tf.where(overlong, tf.cast(unknown_id, ids.dtype), ids.flat_values)
    end = tf.where(overlong, tf.gather(word_end, word), end)

    def ragged(values: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_value_rowids(
            tf.boolean_mask(values, kept),
            tf.boolean_mask(ids.value_rowids(), kept),
            nrows=ids.nrows(),
            validate=False,
        )

    return TokensWithOffsets(ragged(token), ragged(start - begin), ragged(end - begin))


def _sums(lengths: tf.Tensor) -> tf.Tensor:
    """Returns 0 and the sums of the first 1, 2, … lengths, int32 (C + 1,)."""
    return tf.concat([[0], tf.cumsum(lengths)], axis=0)
