"""Divides documents into pretraining examples: one or two segments each.

Two builders follow the same rules of the paper (two segments of about equal length, one
segment in 10% of the examples, a shorter target in 5%). The default one loses no token:
its examples are consecutive stretches of a document, described by three offsets. The
official one keeps the official code's draws and its losses (what exceeds an example is
thrown away), to reproduce its data.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.command_line import UsageError

MIN_SEQUENCE_LENGTH = 5
"""The shortest target of the paper's rules: [CLS], [SEP], [SEP] and two tokens."""


class RandomStream(Protocol):
    """The draws that example building makes; `random.Random` has them."""

    def random(self) -> float:
        """Returns a number in [0, 1)."""

    def randint(self, a: int, b: int) -> int:
        """Returns an integer in [a, b]."""


@dataclass(frozen=True)
class ExampleOptions:
    """The rules of example building.

    Attributes:
        sequence_length: T, greatest number of tokens with the special ones.
        short_probability: share of examples with a random shorter target.
        single_probability: share of examples with one segment.
        join_documents: let examples cross the ends of documents.
    """

    sequence_length: int = 128
    short_probability: float = 0.05
    single_probability: float = 0.1
    join_documents: bool = False

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.sequence_length < MIN_SEQUENCE_LENGTH:
            raise UsageError(
                f"--sequence-length must be at least {MIN_SEQUENCE_LENGTH}. "
                f"Received: {self.sequence_length}."
            )
        for name in ("short_probability", "single_probability"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise UsageError(
                    f"--{name.replace('_', '-')} must be in [0, 1]. Received: {value}."
                )


Span = tuple[int, int, int]
"""An example: tokens `start` to `middle` are segment A, `middle` to `end` segment B."""


def lossless_spans(
    sentence_ends: Sequence[int],
    start: int,
    options: ExampleOptions,
    rng: RandomStream,
) -> list[Span]:
    """Divides one document into examples that hold each of its tokens once.

    Sentences fill segment A until it has about half of the target, the following ones
    segment B. A sentence that doesn't fit is divided: what is left of it begins the
    next example. So every example is as long as its target, save the document's last.

    Args:
        sentence_ends: for each sentence the offset behind its last token, ascending.
        start: offset of the document's first token.
        options: the rules.
        rng: where the draws come from.

    Returns:
        Consecutive spans that cover the document.
    """
    # A fifth of the time of data preparation is spent here; hence no calls of `min`.
    spans: list[Span] = []
    stop = sentence_ends[-1] if sentence_ends else start
    short, single = options.short_probability, options.single_probability
    longest = options.sequence_length
    random = rng.random
    position, sentence = start, 0
    while position < stop:
        target = longest
        if short and random() < short:
            target = rng.randint(MIN_SEQUENCE_LENGTH, longest)
        if single and random() < single:
            end = middle = position + target - 2
            if end > stop:
                end = middle = stop
        else:
            end = position + target - 3
            if end > stop:
                end = stop
            while sentence_ends[sentence] <= position:
                sentence += 1
            wanted = (target - 3) // 2
            middle = _middle(sentence_ends, sentence, position, end, wanted, random)
        spans.append((position, middle, end))
        position = end
    return spans


def _middle(
    sentence_ends: Sequence[int],
    sentence: int,
    start: int,
    end: int,
    wanted: int,
    random: Callable[[], float],
) -> int:
    """Returns where segment A ends and B begins.

    The paper's rule per sentence: it goes to A while A stays below the wanted length,
    and once more with probability one half. Where a sentence is too long for that it is
    divided, so that there is a segment B.

    Args:
        sentence_ends: see `lossless_spans`.
        sentence: index of the sentence that holds `start`.
        start: where the example begins.
        end: where it ends.
        wanted: tokens that A should have.
        random: draws from [0, 1).
    """
    middle = sentence_ends[sentence]
    if middle - start > wanted and end - start > wanted:
        return start + wanted
    while middle < end:
        sentence += 1
        longer = sentence_ends[sentence]
        if longer > end:
            longer = end
        if longer - start >= wanted:
            if middle - start < wanted and random() < 0.5:
                # Too long by the rule, by chance in A nevertheless: as a whole, or as
                # much as leaves something for B.
                return longer if longer < end else start + wanted
            return middle
        middle = longer
    return end


class OfficialExamples:
    """The official example builder, draw for draw.

    Args:
        options: the rules; `join_documents` makes blank lines mean nothing.
        rng: where the draws come from: the official code uses `random` itself.

    Each method returns the examples that it completed, as pairs of segments.
    """

    def __init__(self, options: ExampleOptions, rng: RandomStream) -> None:
        self._options = options
        self._rng = rng
        self._sentences: list[Sequence[int]] = []
        self._length = 0
        self._target = options.sequence_length

    def add_sentence(
        self, tokens: Sequence[int]
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Adds the tokens of one line that isn't blank."""
        self._sentences.append(tokens)
        self._length += len(tokens)
        if self._length >= self._target:
            yield self._make()

    def end_document(self) -> Iterator[tuple[list[int], list[int]]]:
        """Marks a blank line between documents."""
        if self._length and not self._options.join_documents:
            yield self._make()

    def end_file(self) -> Iterator[tuple[list[int], list[int]]]:
        """Marks the end of the file."""
        if self._length:
            yield self._make()

    def _make(self) -> tuple[list[int], list[int]]:
        rng, longest = self._rng, self._options.sequence_length
        if rng.random() < self._options.single_probability:
            wanted = 100_000  # "practically infinite"
        else:
            wanted = (self._target - 3) // 2
        first: list[int] = []
        second: list[int] = []
        for sentence in self._sentences:
            if (
                not first
                or len(first) + len(sentence) < wanted
                or (not second and len(first) < wanted and rng.random() < 0.5)
            ):
                first += sentence
            else:
                second += sentence
        first = first[: longest - 2]
        second = second[: max(0, longest - len(first) - 3)]
        self._sentences = []
        self._length = 0
        if rng.random() < self._options.short_probability:
            self._target = rng.randint(MIN_SEQUENCE_LENGTH, longest)
        else:
            self._target = longest
        return first, second


def official_spans(
    documents: Iterable[Sequence[Sequence[int]]],
    options: ExampleOptions,
    rng: RandomStream,
) -> Iterator[tuple[list[int], list[int]]]:
    """Builds the official examples of one file.

    Args:
        documents: for each document its sentences, each a list of ids.
        options: the rules.
        rng: where the draws come from.
    """
    builder = OfficialExamples(options, rng)
    for document in documents:
        for sentence in document:
            yield from builder.add_sentence(sentence)
        yield from builder.end_document()
    yield from builder.end_file()
