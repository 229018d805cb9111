"""LVBertTokenizer: WordPiece with the ids of the official code, inside graphs."""

import json
import os
import unicodedata
from collections.abc import Iterable
from typing import Any

import keras
import keras_hub
import tensorflow as tf
import tensorflow_text as tf_text
from keras_hub.src.utils.tensor_utils import preprocessing_function

from lvbert_tf.layers.arguments import check_flags
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.text_normalization import (
    LONG_WORD,
    MAX_CHARACTERS_PER_WORD,
    TextNormalization,
)
from lvbert_tf.models.token_offsets import TokensWithOffsets, tokenize_with_offsets
from lvbert_tf.vocabulary import (
    CLS_TOKEN,
    MASK_TOKEN,
    PAD_TOKEN,
    SEP_TOKEN,
    UNK_TOKEN,
    Duplicates,
    SpecialTokens,
    check_vocabulary,
    read_vocabulary,
    token_ids,
    vocabulary_sha256,
    write_vocabulary,
)

VOCABULARY_FILENAME = "vocabulary.txt"
SUFFIX_INDICATOR = "##"
# UTF-8 needs at most four bytes a character; longer words are marked before.
_MAX_BYTES_PER_WORD = 4 * MAX_CHARACTERS_PER_WORD


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertTokenizer(keras_hub.models.Tokenizer):
    """Turns text into word-piece ids, the same eagerly, in tf.data and in a SavedModel.

    Text is normalised as by the official code (see `TextNormalization`), split on white
    space, punctuation and CJK characters, and each word is divided greedily into the
    longest pieces of the vocabulary. Text never produces a special token: a literal
    ``[MASK]`` is split like any other text, and [CLS] and [SEP] are added by packing.

    A batch of strings (B,) gives ragged ids (B, None) in graphs and preprocessors, and
    lists of ids when called eagerly, as with KerasHub's tokenizers; a single string
    gives ids (T,).

    Args:
        vocabulary: a list of tokens, the path of a file with one a line, or None
            (then an asset must be loaded before use).
        lowercase: lower-case the text.
        strip_accents: drop accents; None takes the value of `lowercase`, which is what
            the official code and BERT's uncased vocabularies do.
        duplicates: ``"error"`` refuses a vocabulary with repeated entries or DOS line
            ends, ``"last"`` reads it as the official code does: the later line counts.
        dtype: ``"int32"``, ``"int64"``, or ``"string"`` for the pieces themselves.
        **kwargs: arguments of `keras_hub.models.Tokenizer`, such as `name`.

    Raises:
        ValueError: for a damaged vocabulary, naming the file and the line.

    Example:
    >>> import lvbert_tf
    >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]
    >>> tokenizer = lvbert_tf.LVBertTokenizer(vocabulary)
    >>> tokenizer(["Cats, cat"])
    [[5, 6, 1, 5]]
    """

    backbone_cls = LVBertBackbone

    def __init__(
        self,
        vocabulary: Iterable[str] | str | os.PathLike[str] | None = None,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        duplicates: Duplicates = "error",
        dtype: str = "int32",
        **kwargs: Any,
    ) -> None:
        if dtype not in ("int32", "int64", "string"):
            raise ValueError(
                "`dtype` must be 'int32', 'int64' or 'string'. "
                f"Received: dtype={dtype!r}."
            )
        check_flags(lowercase=lowercase)
        if strip_accents is not None:
            check_flags(strip_accents=strip_accents)
        for token, name in (
            (CLS_TOKEN, "cls_token"),
            (SEP_TOKEN, "sep_token"),
            (PAD_TOKEN, "pad_token"),
            (MASK_TOKEN, "mask_token"),
            (UNK_TOKEN, "unk_token"),
            # KerasHub's preprocessors look for these two names.
            (CLS_TOKEN, "start_token"),
            (SEP_TOKEN, "end_token"),
        ):
            self._add_special_token(token, name)
        super().__init__(dtype=dtype, **kwargs)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.duplicates: Duplicates = duplicates
        self.normalization = TextNormalization(
            lowercase=lowercase,
            strip_accents=lowercase if strip_accents is None else strip_accents,
        )
        self.file_assets = [VOCABULARY_FILENAME]
        self.set_vocabulary(vocabulary)
        # There is nothing to build; quantising a model refuses unbuilt layers.
        self.built = True

    def set_vocabulary(
        self, vocabulary: Iterable[str] | str | os.PathLike[str] | None
    ) -> None:
        """Sets the vocabulary from a list of tokens or a file, or unsets it by None."""
        self.vocabulary: list[str] | None = None
        self._token_to_id: dict[str, int] = {}
        self._fast_tokenizer: Any = None
        if vocabulary is None:
            return
        if isinstance(vocabulary, (str, os.PathLike)):
            tokens = read_vocabulary(os.fspath(vocabulary), self.duplicates)
        else:
            tokens = list(vocabulary)
            check_vocabulary(tokens, self.duplicates)
        self.vocabulary = tokens
        self._token_to_id = token_ids(tokens)
        self._build_fast_tokenizer()
        self._update_special_token_ids()

    def _build_fast_tokenizer(self) -> None:
        # Text is normalised by then, so the word-piece op alone is enough: the stock
        # FastBertTokenizer would run a normaliser of its own before it, in vain.
        # The word-piece model is a constant that several graphs capture: it must be
        # made outside of any of them.
        with tf.init_scope():
            self._fast_tokenizer = tf_text.FastWordpieceTokenizer(
                self._reachable_tokens(),
                suffix_indicator=SUFFIX_INDICATOR,
                max_bytes_per_word=_MAX_BYTES_PER_WORD,
                token_out_type=tf.dtypes.as_dtype(self.compute_dtype),
                unknown_token=UNK_TOKEN,
            )

    def _reachable_tokens(self) -> list[str]:
        """Returns the vocabulary with entries that text can't produce made unusable.

        Those are earlier copies of a repeated token and entries with characters that
        normalisation drops; some of the latter crash the builder of the word-piece
        model. Their stand-ins hold private-use characters, which never occur in
        normalised text, so that no id moves.
        """
        vocabulary = self.get_vocabulary()
        return [
            token
            if self._token_to_id[token] == index and not _holds_dropped(token)
            else f"{LONG_WORD}{LONG_WORD}{index}"
            for index, token in enumerate(vocabulary)
        ]

    @preprocessing_function
    def tokenize(self, inputs: Any) -> Any:
        """Turns strings into ids (or pieces, with ``dtype="string"``).

        Args:
            inputs: string tensor (B,) or of any other known rank, or a ragged one.

        Returns:
            One more, ragged, dimension than `inputs` has; for a single string (T,).
        """
        self._check_vocabulary()
        if not isinstance(inputs, tf.RaggedTensor):
            inputs = tf.convert_to_tensor(inputs)
        if inputs.dtype != tf.string:
            raise ValueError(
                "The tokenizer expects strings. Received: a tensor of dtype "
                f"{inputs.dtype.name} and shape {inputs.shape}."
            )
        if inputs.shape.rank == 0:
            return self.tokenize_strings(inputs[tf.newaxis])[0]
        return self.tokenize_strings(inputs)

    def tokenize_strings(
        self, text: tf.Tensor | tf.RaggedTensor, *, valid_utf8: bool = False
    ) -> tf.RaggedTensor:
        """Returns what `tokenize` does, for callers that build a graph of their own.

        Args:
            text: string tensor of known rank, at least 1.
            valid_utf8: promises that every string is well-formed UTF-8, which saves a
                third of the time.

        Returns:
            One more, ragged, dimension than `text` has.
        """
        if isinstance(text, tf.RaggedTensor):
            normalized = text.with_flat_values(
                self.normalization.normalize(text.flat_values, valid_utf8=valid_utf8)
            )
        else:
            normalized = self.normalization.normalize(text, valid_utf8=valid_utf8)
        return self.tokenize_normalized(normalized)

    def tokenize_normalized(self, text: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
        """Looks up the word pieces of text that `normalization` has been applied to."""
        return self._fast_tokenizer.tokenize(text)

    def tokenize_with_offsets(self, text: Any) -> TokensWithOffsets:
        """Returns ids and the characters of the original text they stand for.

        The ids are those of `tokenize`; `text[start:end]` of a Python string is what a
        token stands for, accents and case as they were.

        Args:
            text: string tensor (B,).

        Raises:
            ValueError: if the tokenizer gives pieces instead of ids.
        """
        vocabulary = self.get_vocabulary()
        if self.compute_dtype == "string":
            raise ValueError(
                "Offsets come with ids. Received: a tokenizer with dtype='string'"
            )
        return tokenize_with_offsets(
            tf.convert_to_tensor(text),
            self.normalization,
            self._fast_tokenizer,
            tf.constant([token.startswith(SUFFIX_INDICATOR) for token in vocabulary]),
            self.token_to_id(UNK_TOKEN),
        )

    @preprocessing_function
    def detokenize(self, inputs: Any) -> Any:
        """Turns ids (or pieces) into text: pieces joined to words, words by spaces.

        Args:
            inputs: integers (T,), (B, T) or ragged (B, None).

        Returns:
            A string tensor without the last dimension of `inputs`.
        """
        self._check_vocabulary()
        if not isinstance(inputs, tf.RaggedTensor):
            inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.rank == 0 or not (
            inputs.dtype.is_integer or inputs.dtype == tf.string
        ):
            raise ValueError(
                "`inputs` must be ids, or pieces, of one text or of a batch. Received: "
                f"a tensor of dtype {inputs.dtype.name} and shape {inputs.shape}."
            )
        if inputs.dtype == tf.string:
            pieces = inputs
        else:
            table = tf.constant(self.vocabulary)
            pieces = (
                inputs.with_flat_values(tf.gather(table, inputs.flat_values))
                if isinstance(inputs, tf.RaggedTensor)
                else tf.gather(table, inputs)
            )
        text = tf.strings.reduce_join(pieces, axis=-1, separator=" ")
        return tf.strings.regex_replace(text, f" {SUFFIX_INDICATOR}", "")

    def to_tokenizers(self) -> Any:
        """Returns a `tokenizers.Tokenizer` that gives the same ids without TensorFlow.

        ``encode(text)`` adds [CLS] and [SEP] and ``encode(text, pair)`` lays out both
        segments with their type ids; padding and truncation are left to the caller.

        Raises:
            ImportError: if the `tokenizers` library is not installed.
        """
        normalizer, pre_tokenizer = self.normalization.to_tokenizers()
        import tokenizers
        from tokenizers import decoders, models, processors

        self._check_vocabulary()
        tokenizer = tokenizers.Tokenizer(
            models.WordPiece(
                token_ids(self._reachable_tokens()),
                unk_token=UNK_TOKEN,
                max_input_chars_per_word=MAX_CHARACTERS_PER_WORD,
                continuing_subword_prefix=SUFFIX_INDICATOR,
            )
        )
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{CLS_TOKEN}:0 $A:0 {SEP_TOKEN}:0",
            pair=f"{CLS_TOKEN}:0 $A:0 {SEP_TOKEN}:0 $B:1 {SEP_TOKEN}:1",
            special_tokens=[
                (CLS_TOKEN, self.token_to_id(CLS_TOKEN)),
                (SEP_TOKEN, self.token_to_id(SEP_TOKEN)),
            ],
        )
        tokenizer.decoder = decoders.WordPiece(prefix=SUFFIX_INDICATOR, cleanup=False)
        return tokenizer

    def to_tokenizers_json(self) -> str:
        """Returns the content of a ``tokenizer.json`` for the `tokenizers` library."""
        return json.dumps(json.loads(self.to_tokenizers().to_str()), ensure_ascii=False)

    def get_vocabulary(self) -> list[str]:
        """Returns the tokens in order of their ids."""
        self._check_vocabulary()
        assert self.vocabulary is not None
        return self.vocabulary

    def vocabulary_size(self) -> int:
        """Returns the number of ids."""
        return len(self.get_vocabulary())

    def id_to_token(self, id: int) -> str:
        """Returns the token of an id; `ValueError` outside the vocabulary."""
        vocabulary = self.get_vocabulary()
        if not 0 <= id < len(vocabulary):
            raise ValueError(
                f"`id` must be in [0, {len(vocabulary) - 1}]. Received: id={id}."
            )
        return vocabulary[id]

    def token_to_id(self, token: str) -> int:
        """Returns the id of a token; `ValueError` where the vocabulary lacks it."""
        self._check_vocabulary()
        if token not in self._token_to_id:
            raise ValueError(
                f"The vocabulary has no such token. Received: token={token!r}."
            )
        return self._token_to_id[token]

    @property
    def special(self) -> SpecialTokens:
        """Returns the ids of the special tokens."""
        return SpecialTokens.from_vocabulary(self.get_vocabulary())

    @property
    def vocabulary_sha256(self) -> str:
        """Returns the hexadecimal sha256 of the file that `save_assets` writes."""
        return vocabulary_sha256(self.get_vocabulary())

    def save_assets(self, dir_path: str) -> None:
        """Writes ``vocabulary.txt`` into a folder."""
        write_vocabulary(
            os.path.join(dir_path, VOCABULARY_FILENAME), self.get_vocabulary()
        )

    def load_assets(self, dir_path: str) -> None:
        """Reads ``vocabulary.txt`` from a folder."""
        self.set_vocabulary(os.path.join(dir_path, VOCABULARY_FILENAME))

    def compute_output_spec(self, inputs: Any, **kwargs: Any) -> Any:
        """Returns the symbolic output: ragged (..., None)."""
        return keras.KerasTensor(
            (*inputs.shape, None),
            dtype=self.compute_dtype,
            **({} if len(inputs.shape) == 0 else {"ragged": True}),
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments; the vocabulary itself is saved as an asset."""
        config: dict[str, Any] = super().get_config()
        config.update(
            {
                "vocabulary": None,
                "lowercase": self.lowercase,
                "strip_accents": self.strip_accents,
                "duplicates": self.duplicates,
            }
        )
        return config

    def _check_vocabulary(self) -> None:
        if self.vocabulary is None:
            raise ValueError(
                "LVBertTokenizer has no vocabulary yet. Pass `vocabulary`, or load a "
                "preset or assets. Received: vocabulary=None"
            )


def _holds_dropped(token: str) -> bool:
    """Whether a token has a character that normalisation drops.

    Unassigned characters are left out: what is assigned depends on the Unicode version.
    """
    return any(
        character == "\ufffd" or unicodedata.category(character) in _DROPPED_CATEGORIES
        for character in token
    )


_DROPPED_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs"})
