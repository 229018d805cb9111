"""The official tokenization rules in plain Python: what the engines are tested against.

Written from the description of the official behaviour: every character of category C
is dropped save tab, newline and return, CJK characters stand alone, text is lower-cased
and stripped of accents word by word, punctuation stands alone, words over 200
characters are unknown, and the longest piece is taken greedily.
"""

import unicodedata
from collections.abc import Mapping

_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def words(text: str, lowercase: bool, strip_accents: bool) -> list[str]:
    """Returns the words and punctuation marks of `text`."""
    cleaned = []
    for character in text:
        code = ord(character)
        if character in "\t\n\r" or unicodedata.category(character) == "Zs":
            cleaned.append(" ")
        elif code == 0xFFFD or unicodedata.category(character).startswith("C"):
            continue
        elif any(low <= code <= high for low, high in _CJK):
            cleaned.append(f" {character} ")
        else:
            cleaned.append(character)
    result = []
    for word in "".join(cleaned).split():
        if lowercase:
            word = word.lower()
        if strip_accents:
            word = "".join(
                character
                for character in unicodedata.normalize("NFD", word)
                if unicodedata.category(character) != "Mn"
            )
        divided = "".join(
            f" {character} " if _is_punctuation(character) else character
            for character in word
        )
        result += divided.split()
    return result


def ids(
    text: str, vocabulary: Mapping[str, int], lowercase: bool, strip_accents: bool
) -> list[int]:
    """Returns the ids of `text`."""
    result = []
    for word in words(text, lowercase, strip_accents):
        result += _pieces(word, vocabulary)
    return result


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")


def _pieces(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    if len(word) > 200:
        return [vocabulary["[UNK]"]]
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else f"##{word[start:end]}"
            if piece in vocabulary:
                pieces.append(vocabulary[piece])
                start = end
                break
        else:
            return [vocabulary["[UNK]"]]
    return pieces
