"""A reader of protocol buffer text files whose messages have no Python stub.

`tensorflow-serving-api` ships no stubs for the batching and monitoring files. They
are small: fields with numbers, words, strings, or one level of message.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from common.command_line import UsageError

_TOKEN = re.compile(
    r"""(?P<skip>[\s,;]+|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<word>-?[A-Za-z0-9_.+]+)
      | (?P<mark>[{}<>\[\]:])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Field:
    """One field of a message.

    Attributes:
        name: the field's name.
        line: where it stands in the file, from 1.
        value: its text (a quoted string without its quotes), or the fields of a
            message.
    """

    name: str
    line: int
    value: "str | list[Field]"


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    is_string: bool = False


def read_text_proto(path: Path) -> list[Field]:
    """Reads a file in protocol buffer text format.

    Returns:
        Its fields in order; a field that occurs twice, or a list ``[1, 2]``, gives
        several.

    Raises:
        UsageError: naming the file, the line, and what was expected there.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    return _Reader(path, text).read()


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._tokens = self._split(text)
        self._position = 0

    def read(self) -> list[Field]:
        fields = self._fields(closing=None)
        return fields

    def _split(self, text: str) -> list[_Token]:
        tokens, position, line = [], 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self._fail(line, "a field, a value or a bracket", text[position])
            if match["string"]:
                unquoted = re.sub(r"\\(.)", r"\1", match["string"][1:-1])
                tokens.append(_Token(unquoted, line, is_string=True))
            elif not match["skip"]:
                tokens.append(_Token(match.group(), line))
            line += match.group().count("\n")
            position = match.end()
        tokens.append(_Token("", line))
        return tokens

    def _next(self) -> _Token:
        token = self._tokens[self._position]
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return token

    def _peek(self) -> str:
        token = self._tokens[self._position]
        return '"' if token.is_string else token.text

    def _fields(self, closing: str | None) -> list[Field]:
        fields: list[Field] = []
        while True:
            token = self._next()
            if token.text == (closing or "") and not token.is_string:
                return fields
            if token.is_string or not re.fullmatch(r"[A-Za-z_]\w*", token.text):
                self._fail(
                    token.line,
                    f"a field name{f' or {closing}' if closing else ''}",
                    token.text,
                )
            has_colon = self._peek() == ":"
            if has_colon:
                self._next()
            if self._peek() == "[":
                self._next()
                while self._peek() != "]":
                    fields.append(self._field(token, has_colon))
                self._next()
            else:
                fields.append(self._field(token, has_colon))

    def _field(self, name: _Token, has_colon: bool) -> Field:
        value = self._next()
        if not value.is_string and value.text in ("{", "<"):
            closing = "}" if value.text == "{" else ">"
            return Field(name.text, name.line, self._fields(closing))
        if not has_colon:
            self._fail(value.line, f"':' or '{{' after {name.text}", value.text)
        if not value.is_string and not re.fullmatch(r"[\w.+-]+", value.text):
            self._fail(value.line, f"a value for {name.text}", value.text)
        return Field(name.text, name.line, value.text)

    def _fail(self, line: int, expected: str, found: str) -> NoReturn:
        raise UsageError(
            f"{self._path}:{line}: expected {expected}. "
            f"Received: {found or 'the end of the file'}"
        )
