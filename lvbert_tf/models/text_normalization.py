"""What happens to text before word pieces are looked up, described once.

The official code normalises in Python. Two engines repeat it here: TensorFlow ops, for
training and for the served graph, and the `tokenizers` library, for applications that
carry no TensorFlow. Both are generated from the character classes below, because the
stock BERT normalisers of either engine differ from the official one (case folding
instead of lower-casing, private-use characters kept, 256 CJK characters missed, a word
limit counted in bytes).

The classes are written in the syntax that RE2 and Oniguruma share.
"""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

MAX_CHARACTERS_PER_WORD = 200
"""Longer words become [UNK] (counted after lower-casing and stripping accents)."""

LONG_WORD = "\ue000"
"""Stands for a word over the limit. Private-use characters never reach it from text,
and no vocabulary that `LVBertTokenizer` accepts contains it, so it becomes [UNK]."""

# Everything of category C (control, format, private use, surrogate, unassigned) save
# the white space among it, and the replacement character.
_DROPPED = r"[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\t\n\r]|\x{FFFD}"
_ACCENT = r"\p{Mn}"
_ASCII_PUNCTUATION = r"!-/:-@\[-`{-~"
_CJK = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
_SINGLE = rf"[{_ASCII_PUNCTUATION}\p{{P}}{_CJK}]"
_WIDE_SPACE = (
    r"[\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]"
)
# A run of bytes without ASCII white space or punctuation that is over the limit: it
# holds every overlong word, though non-ASCII punctuation may yet divide it.
_LONG_RUN = rf"[^\t\n\r {_ASCII_PUNCTUATION}]{{{MAX_CHARACTERS_PER_WORD + 1},}}"
# Lower case of a capital sigma depends on what surrounds it; `tokenizers` lowers
# character by character.
_FINAL_SIGMA = r"\p{Cased}\p{Case_Ignorable}*\K\x{3A3}(?!\p{Case_Ignorable}*\p{Cased})"


@dataclass(frozen=True)
class TextNormalization:
    """How text is cleaned before it is split into words and word pieces.

    Attributes:
        lowercase: lower-case everything.
        strip_accents: decompose (NFD) and drop non-spacing marks.
    """

    lowercase: bool
    strip_accents: bool

    def normalize(self, text: tf.Tensor, *, valid_utf8: bool = False) -> tf.Tensor:
        """Normalises strings inside a graph, with ops that TF Serving has.

        Args:
            text: string tensor of any shape, UTF-8; undecodable bytes are dropped.
            valid_utf8: promises that there are none, which saves the time to look.

        Returns:
            A string tensor of the same shape: cleaned, lower-cased, accents stripped
            as configured, and each word over the limit replaced by `LONG_WORD`.
        """
        if not valid_utf8:
            text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
        return _mark_long_words(self.normalize_characters(text))

    def normalize_characters(self, text: tf.Tensor) -> tf.Tensor:
        """Normalises valid UTF-8, without regard to the length of words.

        The length of the result is the sum over its characters: none depends on its
        neighbours, save that a final sigma has a form of its own, of the same length.
        """
        text = tf.strings.regex_replace(text, _DROPPED, "")
        if self.lowercase:
            text = tf.strings.lower(text, encoding="utf-8")
        if self.strip_accents:
            text = tf_text.normalize_utf8(text, "NFD")
            text = tf.strings.regex_replace(text, _ACCENT, "")
        return text

    def to_tokenizers(self) -> tuple[Any, Any]:
        """Returns the same steps as (normalizer, pre_tokenizer) of `tokenizers`.

        The word limit is not among them: the WordPiece model of that library has it.

        Raises:
            ImportError: if the `tokenizers` library is not installed.
        """
        try:
            from tokenizers import Regex, normalizers, pre_tokenizers
        except ImportError as error:
            raise ImportError(
                "This needs the `tokenizers` library, which is not installed. It comes "
                "with the extras: pip install 'lvbert-tf[training]' or "
                "'lvbert-tf[export]'."
            ) from error
        steps: list[Any] = [normalizers.Replace(Regex(_DROPPED), "")]
        if self.lowercase:
            steps += [
                normalizers.Replace(Regex(_FINAL_SIGMA), "\u03c2"),
                normalizers.Lowercase(),
            ]
        if self.strip_accents:
            steps += [normalizers.NFD(), normalizers.Replace(Regex(_ACCENT), "")]
        # In this order one regular expression runs over the text, not one per word.
        splits = [
            pre_tokenizers.Split(Regex(_SINGLE), behavior="isolated"),
            pre_tokenizers.WhitespaceSplit(),
        ]
        return normalizers.Sequence(steps), pre_tokenizers.Sequence(splits)


def _mark_long_words(text: tf.Tensor) -> tf.Tensor:
    """Replaces each word over the limit by `LONG_WORD`.

    Long runs are rare and cheap to find; dividing them exactly is not cheap, so that
    happens only in batches that have one.
    """

    def exactly() -> tf.Tensor:
        divided = tf.strings.regex_replace(text, _WIDE_SPACE, " ")
        divided = tf.strings.regex_replace(divided, _SINGLE, r" \0 ")
        return tf.strings.regex_replace(divided, _LONG_RUN, LONG_WORD)

    any_long = tf.reduce_any(tf.strings.regex_full_match(text, rf"(?s).*{_LONG_RUN}.*"))
    return tf.cond(any_long, exactly, lambda: tf.identity(text))
