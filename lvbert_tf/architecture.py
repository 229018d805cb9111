"""Architecture strings: which layer stands at which position of the encoder.

The lowest floor of the library; it imports nothing of it, and no TensorFlow.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Union

ArchitectureSpec = Union[str, "Architecture", Iterable[int], Iterable[str]]
"""What `Architecture.parse` understands."""

_LETTERS: dict[str, str] = {
    "c": "dynamic convolution",
    "s": "self-attention",
    "f": "feed-forward",
}
_NAMED: dict[str, str] = {}
_MAX_LAYERS = 4096


def letters() -> tuple[str, ...]:
    """Returns the known letters; a letter's index is its code in `layer_list`."""
    return tuple(_LETTERS)


def letter_name(letter: str) -> str:
    """Returns the name of a letter's layer type, for example "self-attention"."""
    return _LETTERS[letter]


def register_letter(letter: str, name: str) -> None:
    """Adds a letter to the alphabet of architecture strings.

    Args:
        letter: one lower-case ASCII letter, not "x", which writes repeats.
        name: what the layer is called, for people.

    Raises:
        ValueError: if the letter is malformed, or taken by another layer type.
    """
    if not re.fullmatch(r"[a-wyz]", letter):
        raise ValueError(
            "`letter` must be one lower-case ASCII letter other than 'x'. "
            f"Received: letter={letter!r}"
        )
    if _LETTERS.get(letter, name) != name:
        raise ValueError(
            f"Letter {letter!r} already stands for {_LETTERS[letter]!r}. "
            f"Received: name={name!r}"
        )
    _LETTERS[letter] = name


def register_architecture(name: str, spec: str) -> None:
    """Gives an architecture a name that `Architecture.parse` understands.

    Args:
        name: at least three characters, lower case, digits and underscores, with
            at least one character that no architecture string can hold.
        spec: what it stands for; it may use names registered before.

    Raises:
        ValueError: if the name is malformed or stands for another architecture.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{2,}", name) or set(name) <= set(_LETTERS):
        raise ValueError(f"`name` cannot name an architecture. Received: name={name!r}")
    letters_of_spec = str(Architecture.parse(spec))
    if _NAMED.get(name, letters_of_spec) != letters_of_spec:
        raise ValueError(
            f"Architecture name {name!r} is already taken. Received: name={name!r}"
        )
    _NAMED[name] = letters_of_spec


def architectures() -> dict[str, str]:
    """Returns the named architectures: name to architecture string."""
    return dict(_NAMED)


class Architecture:
    """An immutable sequence of layer letters, from the bottom layer to the top.

    Example:
    >>> from lvbert_tf import Architecture
    >>> str(Architecture.parse("(sf)x3"))
    'sfsfsf'
    >>> Architecture.parse("ccsf").layer_list
    [0, 0, 1, 2]
    """

    __slots__ = ("_string",)
    _string: str

    def __init__(self, string: str) -> None:
        """Takes the plain letters, already expanded.

        Args:
            string: letters of `letters()`, at least one.

        Raises:
            ValueError: if it is empty or holds anything else.
        """
        if not isinstance(string, str):
            raise ValueError(
                "`string` must be a string of layer letters; "
                "`Architecture.parse` takes lists, names and repeats. "
                f"Received: string={string!r}"
            )
        for index, letter in enumerate(string):
            if letter not in _LETTERS:
                raise _error(string, index, f"unknown layer letter {letter!r}")
        if not string:
            raise _error(string, 0, "an architecture needs at least one layer")
        if len(string) > _MAX_LAYERS:
            raise _error(string[:60], 60, f"more than {_MAX_LAYERS} layers")
        object.__setattr__(self, "_string", string)

    @classmethod
    def parse(cls, spec: ArchitectureSpec) -> "Architecture":
        """Reads an architecture in any of its notations.

        Args:
            spec: letters ("ccsffs"), letters with repeats ("(sf)x12", nestable;
                "sx3" repeats one letter), a name of `architectures()`, a list of
                letters or of the codes 0, 1, 2 of the official implementation, or
                an `Architecture`.

        Returns:
            The architecture.

        Raises:
            ValueError: if it is none of these; for a string the message shows it
                with a caret under the first bad symbol.
        """
        if isinstance(spec, Architecture):
            return spec
        if isinstance(spec, str):
            text = spec.strip()
            if text in _NAMED:
                return cls(_NAMED[text])
            try:
                return cls(_Parser(text).parse())
            except ValueError as error:
                # Half a name is enough to tell which one was meant.
                near = difflib.get_close_matches(text.lower(), _NAMED, n=1, cutoff=0.6)
                if not near:
                    raise
                raise ValueError(f"{error}\nDid you mean {near[0]!r}?") from None
        if not isinstance(spec, Iterable):
            raise ValueError(
                "`spec` must be a string, a list of letters or codes, or an "
                f"Architecture. Received: spec={spec!r}"
            )
        return cls("".join(_entries_to_letters(list(spec))))

    @property
    def layer_list(self) -> list[int]:
        """Returns the official codes: 0 `c`, 1 `s`, 2 `f`; 3 and on: added letters."""
        codes = {letter: code for code, letter in enumerate(_LETTERS)}
        return [codes[letter] for letter in self._string]

    def count(self, letter: str) -> int:
        """Returns how many layers are of that letter."""
        return self._string.count(letter)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("An Architecture is immutable.")

    def __reduce__(self) -> tuple[type["Architecture"], tuple[str]]:
        return (type(self), (self._string,))

    def __str__(self) -> str:
        return self._string

    def __repr__(self) -> str:
        return f"Architecture({self._string!r})"

    def __len__(self) -> int:
        return len(self._string)

    def __iter__(self) -> Iterator[str]:
        return iter(self._string)

    def __getitem__(self, index: int) -> str:
        return self._string[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Architecture) and self._string == other._string

    def __hash__(self) -> int:
        return hash((Architecture, self._string))


def _entries_to_letters(entries: list[object]) -> Iterator[str]:
    codes = letters()
    for index, entry in enumerate(entries):
        if isinstance(entry, str) and entry in _LETTERS:
            yield entry
        elif (
            not isinstance(entry, (str, bool))
            and hasattr(entry, "__index__")
            and 0 <= entry.__index__() < len(codes)
        ):
            yield codes[entry.__index__()]
        else:
            raise ValueError(
                f"Entry {index} of the layer list must be one of {list(codes)} or a "
                f"code from 0 to {len(codes) - 1}. Received: {entry!r} in {entries!r}"
            )


class _Parser:
    """Recursive descent over ``sequence := (item ["x" number])*``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> str:
        result = self._sequence(depth=0)
        if self._at < len(self._text):
            raise self._fail("')' without its '('")
        if not result:
            raise self._fail("an architecture needs at least one layer")
        return result

    def _sequence(self, depth: int) -> str:
        parts: list[str] = []
        total = 0
        while self._at < len(self._text) and self._text[self._at] != ")":
            start = self._at
            item = self._item(depth)
            count = self._repeat()
            total += len(item) * count
            if total > _MAX_LAYERS:
                raise _error(self._text, start, f"more than {_MAX_LAYERS} layers")
            parts.append(item * count)
        return "".join(parts)

    def _item(self, depth: int) -> str:
        symbol = self._text[self._at]
        if symbol in _LETTERS:
            self._at += 1
            return symbol
        if symbol != "(":
            raise self._fail(self._what_is_wrong_with(symbol))
        if depth >= 50:
            raise self._fail("more than 50 nested parentheses")
        opened = self._at
        self._at += 1
        inside = self._sequence(depth + 1)
        if self._at >= len(self._text):
            raise _error(self._text, opened, "'(' without its ')'")
        if not inside:
            raise self._fail("nothing between the parentheses")
        self._at += 1
        return inside

    def _repeat(self) -> int:
        if self._at >= len(self._text) or self._text[self._at] != "x":
            return 1
        match = re.compile(r"[0-9]{1,6}").match(self._text, self._at + 1)
        if match is None or int(match[0]) < 1:
            self._at += 1
            raise self._fail("expected how often to repeat, a whole number from 1")
        self._at = match.end()
        return int(match[0])

    def _what_is_wrong_with(self, symbol: str) -> str:
        known = ", ".join(f"{letter} ({name})" for letter, name in _LETTERS.items())
        return (
            f"unknown symbol {symbol!r}; expected a layer letter ({known}), "
            "parentheses with a repeat like '(sf)x12', or a name of "
            "lvbert_tf.architectures()"
        )

    def _fail(self, problem: str) -> ValueError:
        return _error(self._text, self._at, problem)


def _error(text: str, index: int, problem: str) -> ValueError:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return ValueError(
        f"Invalid architecture at position {index}: {problem}.\n"
        f"  {shown}\n  {' ' * index}^"
    )
