"""Typed configuration: TOML tables into frozen dataclasses, and back.

A configuration is a frozen dataclass whose fields are sections; a section is a frozen
dataclass whose fields are made by `setting`. Reading refuses unknown keys and wrong
types by name; writing gives TOML that reads back as the same configuration.
"""

import dataclasses
import difflib
import json
import math
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from common.command_line import UsageError

T = TypeVar("T")
Tables = dict[str, dict[str, Any]]

STAGE_KEY = "stage"
"""The one top-level key outside the sections: which command the file is for."""

_REQUIRED = dataclasses.MISSING
_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
}


class Override(NamedTuple):
    """A setting given outside the file.

    Attributes:
        where: what gave it, for messages: a flag.
        key: ``section.key``.
        text: the value as TOML, or a bare string.
    """

    where: str
    key: str
    text: str


def setting(
    help: str,
    default: Any = _REQUIRED,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] | None = None,
) -> Any:
    """Declares one field of a section.

    Args:
        help: what it means, with its unit; written above the key in TOML.
        default: its value where no file gives one; without it the key is required.
        minimum: smallest value allowed.
        maximum: largest value allowed.
        choices: the only strings allowed.

    Returns:
        A dataclass field.
    """
    metadata = {
        "help": help,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
    }
    if default is _REQUIRED:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def load(
    kind: type[T],
    stage: str,
    file: Path | None,
    overrides: Iterable[str | Override] = (),
) -> T:
    """Builds a configuration: defaults, then the file, then the overrides.

    Args:
        kind: the configuration's dataclass.
        stage: the command that reads it, for example ``"pretrain"``.
        file: a TOML file, or None for the defaults alone.
        overrides: ``"section.key=value"``, or what a flag gave; later ones win.

    Returns:
        The configuration.

    Raises:
        UsageError: if a key is unknown or missing or a value is not allowed; the
            message names the file (or the override) and the key.
    """
    tables = {} if file is None else read_stage(file, stage)
    return from_tables(kind, "" if file is None else str(file), tables, overrides)


def from_tables(
    kind: type[T],
    source: str,
    tables: Mapping[str, Any],
    overrides: Iterable[str | Override] = (),
) -> T:
    """Builds a configuration: defaults, then tables, then overrides.

    Args:
        kind: the configuration's dataclass.
        source: where the tables come from, for messages; empty if there are none.
        tables: section to its keys and values.
        overrides: see `load`.

    Raises:
        UsageError: as `load`.
    """
    _check_sections(kind, source, tables)
    merged: dict[tuple[str, str], Any] = {}
    for section, table in tables.items():
        for key, value in table.items():
            field = _field(kind, section, key, source)
            where = f"{source}: {section}.{key}"
            merged[section, key] = _convert(field, value, where)
    for override in overrides:
        given = override if isinstance(override, Override) else _split(override)
        section, _, key = given.key.partition(".")
        field = _field(kind, section, key, given.where)
        merged[section, key] = _convert(field, _value(field, given.text), given.where)
    sections = {}
    for name, section_type in section_types(kind).items():
        values = {}
        for entry in dataclasses.fields(section_type):
            if (name, entry.name) in merged:
                values[entry.name] = merged[name, entry.name]
            elif entry.default is dataclasses.MISSING:
                origin = f"{source}: " if source else ""
                raise UsageError(
                    f"{origin}{name}.{entry.name} is missing: "
                    f"{entry.metadata['help']}. Give it in the file or with "
                    f"--set {name}.{entry.name}=..."
                )
        sections[name] = section_type(**values)
    try:
        return kind(**sections)
    except ValueError as error:
        origin = f"{source}: " if source else ""
        raise UsageError(f"{origin}{error}") from error


def section_types(kind: type) -> dict[str, Any]:
    """Returns the sections of a configuration: name to dataclass."""
    return typing.get_type_hints(kind)


def to_toml(configuration: Any, stage: str) -> str:
    """Writes every value of a configuration, each under its help text.

    Args:
        configuration: an instance of a configuration dataclass.
        stage: the command it is for.

    Returns:
        TOML that `load` reads back as an equal configuration.
    """
    lines = [f"{STAGE_KEY} = {toml_value(stage)}"]
    for name in section_types(type(configuration)):
        section = getattr(configuration, name)
        lines += ["", f"[{name}]"]
        for field in dataclasses.fields(section):
            value = getattr(section, field.name)
            lines.append(f"# {field.metadata['help']}")
            if value is None:  # TOML has no null: absence says it
                lines.append(f"# {field.name} is not set")
            else:
                lines.append(f"{field.name} = {toml_value(value)}")
    return "\n".join(lines) + "\n"


def read_tables(file: Path, text: str | None = None) -> dict[str, Any]:
    """Reads TOML without interpreting it.

    Args:
        file: the file, or where `text` comes from.
        text: the content, if it is at hand.

    Raises:
        UsageError: if the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(file.read_text("utf-8") if text is None else text)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot read the configuration: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not valid TOML: {error}") from error


def read_stage(file: Path, stage: str) -> dict[str, Any]:
    """Reads the tables of a file that is for a stage.

    Raises:
        UsageError: if it cannot be read, or is for another stage.
    """
    content = read_tables(file)
    named = content.pop(STAGE_KEY, stage)
    if named != stage:
        raise UsageError(
            f"{file}: this is a configuration for `{named}`; expected `{stage}`"
        )
    return content


def _check_sections(kind: type, source: str, tables: Mapping[str, Any]) -> None:
    known = section_types(kind)
    for name, table in tables.items():
        if name not in known:
            if isinstance(table, dict):
                raise UsageError(
                    f"{source}: unknown section [{name}]{_nearest(name, known)}; "
                    f"expected {_listed(f'[{section}]' for section in known)}"
                )
            raise UsageError(
                f"{source}: unknown key {name!r}{_elsewhere(kind, name)}; "
                "every key stands in a section"
            )
        if not isinstance(table, dict):
            raise UsageError(
                f"{source}: {name}: expected a section [{name}], found {table!r}"
            )


def _split(override: str) -> Override:
    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise UsageError(
            f"--set {override}: expected section.key=value, for example run.steps=100"
        )
    name = f"{section}.{key}"
    return Override(f"--set {name}", name, text.strip())


@dataclasses.dataclass(frozen=True)
class _Field:
    """A field with its type resolved (annotations may be strings)."""

    type: Any
    metadata: Mapping[str, Any]


def _value(field: _Field, text: str) -> Any:
    """Reads the right side of an override: a TOML value, or a bare string."""
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    if field.type is str and not isinstance(value, str):
        return text  # a string setting may hold 123 or true without quotes
    return value


def _field(kind: type, section: str, key: str, where: str) -> _Field:
    sections = section_types(kind)
    if section not in sections:
        raise UsageError(
            f"{where}: unknown section {section!r}{_nearest(section, sections)}; "
            f"expected {_listed(sections)}"
        )
    fields = {field.name: field for field in dataclasses.fields(sections[section])}
    if key not in fields:
        hint = (
            _elsewhere(kind, key, exact=True)
            or _nearest(key, fields)
            or _elsewhere(kind, key)
        )
        raise UsageError(f"{where}: unknown key {section}.{key}{hint}")
    return _Field(typing.get_type_hints(sections[section])[key], fields[key].metadata)


def _convert(field: _Field, value: Any, where: str) -> Any:
    expected = field.type
    if isinstance(expected, types.UnionType):
        expected = next(part for part in expected.__args__ if part is not type(None))
    if expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected:
        name = _NAMES[typing.cast(type, expected)]
        raise UsageError(
            f"{where}: expected {name}, found {value!r} ({type(value).__name__})"
        )
    limits = field.metadata
    if expected is float and not math.isfinite(value):
        raise UsageError(f"{where}: expected a finite number, found {value!r}")
    if limits["minimum"] is not None and value < limits["minimum"]:
        raise UsageError(
            f"{where}: expected at least {limits['minimum']}, found {value!r}"
        )
    if limits["maximum"] is not None and value > limits["maximum"]:
        raise UsageError(
            f"{where}: expected at most {limits['maximum']}, found {value!r}"
        )
    if limits["choices"] is not None and value not in limits["choices"]:
        raise UsageError(
            f"{where}: expected one of {_listed(limits['choices'])}"
            f"{_nearest(value, limits['choices'])}, found {value!r}"
        )
    return value


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _elsewhere(kind: type, key: str, *, exact: bool = False) -> str:
    """A hint where `key` (or one like it) stands in another section."""
    every = {
        field.name: f"{section}.{field.name}"
        for section, section_type in section_types(kind).items()
        for field in dataclasses.fields(section_type)
    }
    cutoff = 1.0 if exact else 0.5
    close = difflib.get_close_matches(key, every, n=1, cutoff=cutoff)
    return f"; did you mean {every[close[0]]!r}?" if close else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def toml_value(value: Any) -> str:
    """Writes a bool, number or string as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    # JSON's string escapes are TOML's, save that TOML wants DEL escaped too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
