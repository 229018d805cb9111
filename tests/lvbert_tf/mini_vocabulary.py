"""The golden vocabulary of a few hundred entries."""

from pathlib import Path

from lvbert_tf.models.tokenizer import LVBertTokenizer

GOLDEN = Path(__file__).parent.parent / "golden" / "tokenizer"
MINI = GOLDEN / "mini_vocab.txt"


_cache: dict[bool, LVBertTokenizer] = {}


def mini_tokenizer(lowercase: bool) -> LVBertTokenizer:
    if lowercase not in _cache:
        _cache[lowercase] = LVBertTokenizer(
            MINI, lowercase=lowercase, duplicates="last"
        )
    return _cache[lowercase]
