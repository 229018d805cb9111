"""Example building: the official draws, and nothing lost by default."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.command_line import UsageError
from training.data.examples import (
    ExampleOptions,
    OfficialExamples,
    lossless_spans,
)

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "examples"
NEVER = ExampleOptions(16, short_probability=0.0, single_probability=0.0)


class Replay:
    """The recorded draws of the official code, in order."""

    def __init__(self, calls: list[list[Any]]) -> None:
        self.calls = list(calls)

    def random(self) -> float:
        kind, value = self.calls.pop(0)
        assert kind == "random"
        return float(value)

    def randint(self, a: int, b: int) -> int:
        kind, bounds, value = self.calls.pop(0)
        assert (kind, bounds) == ("randint", [a, b])
        return int(value)


def _sentences(golden: dict[str, Any]) -> list[list[int]]:
    """Recovers each line's ids from a vocabulary-free reading of the golden file.

    The golden examples hold every id that matters; lines are tokenized with the public
    vocabulary in `test_official_examples`.
    """
    from lvbert_tf.models.tokenizer import LVBertTokenizer
    from tests.paths import require_shared

    tokenizer = LVBertTokenizer(
        require_shared("data/vocab.bert-uncased.txt"),
        lowercase=golden["do_lower_case"],
    )
    return list(tokenizer(golden["lines"]))


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.json")))
@pytest.mark.parametrize("draws", ["recorded", "seeded"])
def test_official_examples(name: str, draws: str) -> None:
    golden = json.loads((GOLDEN / name).read_text("utf-8"))
    length = golden["max_length"]
    rng = (
        Replay(golden["random_calls"])
        if draws == "recorded"
        else random.Random(golden["seed"])
    )
    builder = OfficialExamples(
        ExampleOptions(length, join_documents=not golden["blanks_separate_docs"]), rng
    )
    found = []
    lines = golden["lines"]
    for index, (line, tokens) in enumerate(zip(lines, _sentences(golden), strict=True)):
        completed = (
            builder.add_sentence(tokens) if line.strip() else builder.end_document()
        )
        found += [(index, *segments) for segments in completed]
    found += [(len(lines), *segments) for segments in builder.end_file()]
    assert len(found) == len(golden["examples"])
    for (line, first, second), expected in zip(found, golden["examples"], strict=True):
        ids = [101, *first, 102, *([*second, 102] if second else [])]
        segments = [0] * (len(first) + 2) + [1] * (len(ids) - len(first) - 2)
        padding = [0] * (length - len(ids))
        assert line == expected["emitted_at_line"]
        assert ids + padding == expected["input_ids"]
        assert segments + padding == expected["segment_ids"]
        assert [1] * len(ids) + padding == expected["input_mask"]
    if isinstance(rng, Replay):
        assert not rng.calls


def _ends(lengths: list[int], start: int = 0) -> list[int]:
    ends, total = [], start
    for length in lengths:
        total += length
        ends.append(total)
    return ends


@settings(max_examples=400, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 60), max_size=20),
    start=st.integers(0, 1000),
    length=st.integers(5, 40),
    short=st.sampled_from([0.0, 0.05, 1.0]),
    single=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 1000),
)
def test_no_token_is_lost(
    lengths: list[int], start: int, length: int, short: float, single: float, seed: int
) -> None:
    options = ExampleOptions(length, short, single)
    ends = _ends(lengths, start)
    spans = list(lossless_spans(ends, start, options, random.Random(seed)))
    position = start
    for begin, middle, end in spans:
        assert begin == position < middle <= end
        specials = 2 if middle == end else 3
        assert end - begin + specials <= length
        position = end
    assert position == (ends[-1] if ends else start)
    full = [end - begin for begin, _, end in spans[:-1]]
    if short == 0.0 and single == 0.0:
        # D04: full length and two segments, save at the end of a document.
        assert full == [length - 3] * len(full)
        assert all(middle < end for _, middle, end in spans[:-1])
    if single == 1.0:
        assert all(middle == end for _, middle, end in spans)
        if short == 0.0:
            assert full == [length - 2] * len(full)


def test_sentences_stay_whole_where_they_can() -> None:
    class Never:
        def random(self) -> float:
            return 0.99

        def randint(self, a: int, b: int) -> int:
            raise AssertionError

    # Budget 13, wanted 6: sentences of 3 and 2 fit below 6; the third begins B.
    (first, *_) = lossless_spans(_ends([3, 2, 4, 4, 9]), 0, NEVER, Never())
    assert first == (0, 5, 13)
    # A sentence of 20 fills the example: half of what is wanted goes to A.
    (first, *_) = lossless_spans(_ends([20]), 0, NEVER, Never())
    assert first == (0, 6, 13)
    # The end of a document may be a single segment.
    (only,) = lossless_spans(_ends([4]), 0, NEVER, Never())
    assert only == (0, 4, 4)


def test_default_shares() -> None:
    """About 5% short and 10% single: 20,000 examples, five standard errors."""
    options = ExampleOptions(64)
    ends = _ends([9] * 150_000)
    spans = list(lossless_spans(ends, 0, options, random.Random(1)))[:-1]
    single = [span for span in spans if span[1] == span[2]]
    short = [
        (begin, middle, end)
        for begin, middle, end in spans
        if end - begin < 61 + (middle == end)
    ]
    count = len(spans)
    assert count > 20_000
    assert abs(len(single) / count - 0.10) < 5 * (0.1 * 0.9 / count) ** 0.5
    # One target in sixty is drawn as the full length.
    assert abs(len(short) / count - 0.05) < 5 * (0.05 * 0.95 / count) ** 0.5 + 0.001


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4,), "--sequence-length must be at least 5"),
        ((128, 1.5), "--short-probability must be in"),
        ((128, 0.05, -1.0), "--single-probability must be in"),
    ],
)
def test_options_are_checked(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ExampleOptions(*arguments)
