"""Trains a WordPiece vocabulary from a corpus, with the `tokenizers` library."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from common.command_line import UsageError
from lvbert_tf.models.text_normalization import TextNormalization
from lvbert_tf.vocabulary import SPECIAL_TOKENS, UNK_TOKEN, check_vocabulary
from training.data.split_rank import split_hash

MAX_ALPHABET = 1000
"""Rarer characters become [UNK], as in BERT's own vocabularies."""

_COUNTED_BYTES = 4 << 20
_SUFFIX = "##"


@dataclass(frozen=True)
class VocabularyOptions:
    """How a vocabulary is trained.

    Attributes:
        size: greatest number of entries, special and unused ones included.
        min_frequency: a piece must occur as often as this.
        unused_tokens: entries ``[unused0]``… kept free for users.
        sample_bytes: text to train on; a larger corpus is sampled by document.
    """

    size: int = 30522
    min_frequency: int = 2
    unused_tokens: int = 0
    sample_bytes: int = 100_000_000

    def __post_init__(self) -> None:
        """Checks the values."""
        least = len(SPECIAL_TOKENS) + self.unused_tokens + 2
        if self.size < least:
            raise UsageError(
                f"--vocabulary-size must be at least {least} (special and unused "
                f"tokens, and two characters). Received: {self.size}."
            )
        if self.min_frequency < 1 or self.unused_tokens < 0:
            raise UsageError(
                "--min-frequency must be at least 1 and --unused-tokens at least 0. "
                f"Received: {self.min_frequency} and {self.unused_tokens}."
            )


Position = tuple[int, ...]


class DocumentSample:
    """A sample of documents within a number of bytes, from one pass of any length.

    Which documents are in it depends on their text and on the size of the corpus, not
    on chance or order: those with the smallest hashes.

    Args:
        capacity: bytes of text to keep.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._documents: list[tuple[int, Position, bytes]] = []
        self._offered = 0
        self._size = 0
        self._threshold = 1 << 64

    def add(self, document: bytes, position: Position | None = None) -> None:
        """Offers a document to the sample.

        Args:
            document: its text.
            position: its place in the corpus; by default behind the one before.
        """
        self._offered += 1
        rank = split_hash("vocabulary", document)
        if rank >= self._threshold:
            return
        self._documents.append((rank, position or (self._offered,), document))
        self._size += len(document)
        self._shrink()

    def merge(self, other: "DocumentSample") -> None:
        """Offers what another sample was offered."""
        self._offered += other._offered
        self._threshold = min(self._threshold, other._threshold)
        self._documents = [
            document
            for document in self._documents + other._documents
            if document[0] < self._threshold
        ]
        self._size = sum(len(text) for _, _, text in self._documents)
        self._shrink()

    def documents(self) -> list[bytes]:
        """Returns the sample, in the order of the corpus."""
        return [text for _, _, text in sorted(self._documents, key=itemgetter(1))]

    def _shrink(self) -> None:
        while self._size > self._capacity and len(self._documents) > 1:
            self._threshold //= 2
            kept = [
                document
                for document in self._documents
                if document[0] < self._threshold
            ]
            if not kept:
                kept = [min(self._documents)]
                self._threshold = kept[0][0] + 1
            self._documents = kept
            self._size = sum(len(text) for _, _, text in kept)


def train_vocabulary(
    documents: Sequence[bytes],
    options: VocabularyOptions,
    normalization: TextNormalization,
) -> list[str]:
    """Trains a WordPiece vocabulary.

    Args:
        documents: the text.
        options: size and frequencies.
        normalization: what happens to text before it is split into words.

    Returns:
        The vocabulary: special tokens, unused tokens, then pieces. The same for the
        same text and options.

    Raises:
        UsageError: if the text has no word.
    """
    tokenizer, trainers = _untrained(normalization)
    reserved = [
        *SPECIAL_TOKENS,
        *(f"[unused{number}]" for number in range(options.unused_tokens)),
    ]
    # Each character may need an entry of its own and one as a suffix.
    room = (options.size - len(reserved)) // 2
    alphabet = _alphabet(documents, tokenizer.normalizer)[: min(MAX_ALPHABET, room)]
    if not alphabet:
        raise UsageError("The corpus has no word to train a vocabulary from.")
    suffixes = [
        f"{_SUFFIX}{character}"
        for character in sorted(alphabet)
        # Punctuation and CJK characters are words of their own, never suffixes.
        if len(tokenizer.pre_tokenizer.pre_tokenize_str(f"a{character}")) == 1
    ]
    trainer = trainers.WordPieceTrainer(
        vocab_size=options.size,
        min_frequency=options.min_frequency,
        # The trainer numbers suffixes in the order of a hash map, which differs from
        # run to run, and breaks ties by those numbers; and it ends the alphabet inside
        # a tie likewise. Naming all characters and suffixes beforehand leaves it no
        # such choice.
        special_tokens=[*reserved, *suffixes],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=_SUFFIX,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_lines(documents), trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    first = {*reserved, *suffixes, *alphabet}
    pieces = sorted((token for token in ids if token not in first), key=ids.__getitem__)
    tokens = [*reserved, *sorted(alphabet), *suffixes, *pieces]
    check_vocabulary(tokens)
    return tokens


def _untrained(normalization: TextNormalization) -> tuple[Any, Any]:
    normalizer, pre_tokenizer = normalization.to_tokenizers()
    from tokenizers import Tokenizer, models, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token=UNK_TOKEN))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer, trainers


def _lines(documents: Sequence[bytes]) -> Iterable[str]:
    for document in documents:
        yield from document.decode("utf-8", "ignore").split("\n")


def _alphabet(documents: Sequence[bytes], normalizer: Any) -> list[str]:
    """Returns the characters of a text, the most frequent first."""
    counts = np.zeros(0x110000, np.int64)
    batch: list[bytes] = []
    size = 0
    for document in (*documents, b""):
        batch.append(document)
        size += len(document)
        if size >= _COUNTED_BYTES or not document:
            raw = b"".join(batch).decode("utf-8", "ignore").encode("utf-32-le")
            counts += np.bincount(np.frombuffer(raw, np.uint32), minlength=0x110000)
            batch, size = [], 0
    # Normalisation works on characters, nearly: it is enough to follow each of them.
    merged: dict[str, int] = {}
    for code in np.flatnonzero(counts):
        for character in normalizer.normalize_str(chr(code)):
            if not character.isspace():
                merged[character] = merged.get(character, 0) + int(counts[code])
    return sorted(merged, key=lambda character: (-merged[character], character))
