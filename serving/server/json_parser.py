"""Reads request bodies as leniently, and as strictly, as TF Serving does.

What differs from `json.loads`: bytes after the first value are ignored, the first
of duplicate keys wins, bytes that are not UTF-8 are kept (as surrogate escapes),
``NaN``, ``Inf``, ``Infinity`` and their negatives are numbers, and the nesting may
be as deep as memory allows.

Good documents go through the standard library's C scanner. Whatever that refuses is
read again by `_read`, which does not recurse and which alone decides on errors.
"""

import json
import re
from typing import Any, NoReturn

from serving.server.status import invalid_argument

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_LITERALS: tuple[tuple[str, Any], ...] = (
    ("true", True),
    ("false", False),
    ("null", None),
    ("NaN", float("nan")),
    ("Infinity", float("inf")),
    ("-Infinity", float("-inf")),
    ("Inf", float("inf")),
    ("-Inf", float("-inf")),
)
# A longer integer does not fit in a double, so in no tensor.
_MAX_INTEGER_DIGITS = 308
# Signs of a number that the C scanner would turn into an infinity.
_HUGE_NUMBER = re.compile(r"[0-9][eE]\+?[0-9]{3}|[0-9]{309}")


def parse_object(body: bytes) -> dict[str, Any]:
    """Parses a request body.

    Args:
        body: the bytes of the request.

    Returns:
        The top-level object. Strings may hold surrogate escapes: `encode_text` turns
        them into the bytes that were sent.

    Raises:
        ServingError: INVALID_ARGUMENT, where the body is no JSON object.
    """
    document = parse(body)
    if not isinstance(document, dict):
        raise invalid_argument(f"JSON Value: {show(document)} Is not object")
    return document


def parse(body: bytes) -> Any:
    """Parses the first JSON value in `body`; see the module for what is accepted."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _read(body.decode("utf-8-sig", errors="surrogateescape"))
    if _HUGE_NUMBER.search(text) is None:
        try:
            value = _DECODER.raw_decode(text, _skip(text, 0))[0]
            if "\\ud" in text or "\\uD" in text:
                # Escapes of half a surrogate pair do not encode: ValueError.
                json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            pass
        else:
            return value
    return _read(text)


def encode_text(text: str) -> bytes:
    """Returns the bytes that a parsed string stood for."""
    return text.encode(errors="surrogateescape")


def show(value: Any, limit: int = 256) -> str:
    """Returns `value` as JSON for an error message, cut at `limit` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "(too deeply nested to be shown)"
    return text if len(text) <= limit else text[:limit] + "..."


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        for key, value in reversed(pairs):
            result[key] = value
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_first_wins)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _fail(reason: str, position: int) -> NoReturn:
    raise invalid_argument(f"JSON Parse error: {reason} at offset: {position}")


def _read(text: str) -> Any:
    """Reads one value without recursion: open containers wait on a list."""
    position = _skip(text, 0)
    if position == len(text):
        _fail("The document is empty.", position)
    open_containers: list[dict[str, Any] | list[Any]] = []
    keys: list[str] = []  # the key that waits for its value, for each open object
    while True:
        # Here a value has to begin.
        position = _skip(text, position)
        start = text[position : position + 1]
        value: Any
        if start in ("{", "["):
            position = _skip(text, position + 1)
            closing = "}" if start == "{" else "]"
            value = {} if start == "{" else []
            if text[position : position + 1] != closing:
                open_containers.append(value)
                if start == "{":
                    key, position = _read_key(text, position)
                    keys.append(key)
                continue
            position += 1
        else:
            value, position = _read_scalar(text, position)
        # Here a value has ended; it may end any number of containers with it.
        while open_containers:
            container = open_containers[-1]
            position = _skip(text, position)
            mark = text[position : position + 1]
            if isinstance(container, dict):
                container.setdefault(keys.pop(), value)
                if mark == ",":
                    key, position = _read_key(text, _skip(text, position + 1))
                    keys.append(key)
                    break
                if mark != "}":
                    _fail("Missing a comma or } after an object member.", position)
            else:
                container.append(value)
                if mark == ",":
                    position += 1
                    break
                if mark != "]":
                    _fail("Missing a comma or ] after an array element.", position)
            position += 1
            value = open_containers.pop()
        else:
            return value


def _read_key(text: str, position: int) -> tuple[str, int]:
    if text[position : position + 1] != '"':
        _fail("Missing a name for object member.", position)
    key, position = _read_string(text, position)
    position = _skip(text, position)
    if text[position : position + 1] != ":":
        _fail("Missing a colon after a name of object member.", position)
    return key, position + 1


def _read_scalar(text: str, position: int) -> tuple[Any, int]:
    if text[position : position + 1] == '"':
        return _read_string(text, position)
    match = _NUMBER.match(text, position)
    if match:
        digits = match.group()
        if match.group(1) or match.group(2) or len(digits) > _MAX_INTEGER_DIGITS:
            number = float(digits)
            if number in (float("inf"), float("-inf")):
                _fail("Number too big to be stored in double.", position)
            return number, match.end()
        return int(digits), match.end()
    for literal, value in _LITERALS:
        if text.startswith(literal, position):
            return value, position + len(literal)
    return _fail("Invalid value.", position)


def _read_string(text: str, position: int) -> tuple[str, int]:
    parts = []
    position += 1
    while True:
        match = _PLAIN.match(text, position)
        if match:
            parts.append(match.group())
            position = match.end()
        mark = text[position : position + 1]
        if mark == '"':
            return "".join(parts), position + 1
        if mark != "\\":
            reason = (
                "Invalid encoding in string."
                if mark > "\0"
                else "Missing a closing quotation mark in string."
            )
            _fail(reason, position)
        escape = text[position + 1 : position + 2]
        if escape == "u":
            character, position = _read_unicode_escape(text, position)
            parts.append(character)
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
            position += 2
        else:
            _fail("Invalid escape character in string.", position)


def _read_unicode_escape(text: str, position: int) -> tuple[str, int]:
    code = _read_hex(text, position + 2)
    if not 0xD800 <= code <= 0xDFFF:
        return chr(code), position + 6
    low = -1
    if code <= 0xDBFF and text[position + 6 : position + 8] == "\\u":
        low = _read_hex(text, position + 8)
    if not 0xDC00 <= low <= 0xDFFF:
        _fail("The surrogate pair in string is invalid.", position)
    return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), position + 12


def _read_hex(text: str, position: int) -> int:
    match = _HEX.match(text, position)
    if not match:
        _fail("Incorrect hex digit after \\u escape in string.", position)
    return int(match.group(), 16)
