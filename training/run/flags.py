"""The options of a stage's command: its TOML file, and short forms of settings."""

import argparse
import dataclasses
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.run.settings import Override, section_types, toml_value

_METAVARS = {int: "N", float: "X", str: "TEXT"}


@dataclass(frozen=True)
class Flag:
    """A short form of a setting: ``--data DIR`` for ``--set data.directory=DIR``.

    Attributes:
        option: the flag, for example ``"--data"``.
        key: the setting, ``section.key``.
        help: what it means, by default what the setting says.
        many: whether it takes several words, joined by commas.
        path: whether it is a path, which is kept absolute.
        switch: the setting's values for ``--x`` and ``--no-x``.
        metavar: what stands for the value in help texts.
    """

    option: str
    key: str
    help: str = ""
    many: bool = False
    path: bool = False
    switch: tuple[str, str] | None = None
    metavar: str | None = None


def add_stage_arguments(
    parser: argparse.ArgumentParser,
    kind: type,
    flags: Sequence[Flag],
    run_dir: str = "where everything is written; run again with the same to resume",
    run_dir_required: bool = True,
) -> None:
    """Adds ``--config``, ``--set``, ``--run-dir`` and the short forms.

    Args:
        parser: the command's.
        kind: the stage's configuration, see `training.run.settings`.
        flags: its short forms.
        run_dir: what ``--run-dir`` means.
        run_dir_required: whether it must be given.
    """
    parser.add_argument(
        "--config", type=Path, help="TOML file; without it the defaults hold"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override one setting of the file; may be repeated",
    )
    parser.add_argument("--run-dir", type=Path, required=run_dir_required, help=run_dir)
    for flag in flags:
        _add(parser, kind, flag)


def overrides_of(
    arguments: argparse.Namespace, flags: Sequence[Flag]
) -> list[str | Override]:
    """Returns what ``--set`` and the short forms change; the short forms win."""
    overrides: list[str | Override] = list(arguments.set)
    for flag in flags:
        value = getattr(arguments, flag.key)
        if value is None:
            continue
        if flag.switch is not None:
            value = flag.switch[0 if value else 1]
        elif isinstance(value, bool):
            value = "true" if value else "false"
        elif flag.many:
            value = toml_value(",".join(value))
        elif flag.path:
            value = toml_value(str(Path(value).absolute()))
        overrides.append(Override(flag.option, flag.key, value))
    return overrides


def _add(parser: argparse.ArgumentParser, kind: type, flag: Flag) -> None:
    section_name, _, name = flag.key.partition(".")
    section = section_types(kind)[section_name]
    (field,) = (f for f in dataclasses.fields(section) if f.name == name)
    value_type = typing.get_type_hints(section)[name]
    meaning = flag.help or field.metadata["help"]
    default = field.default
    shown = default not in (dataclasses.MISSING, None, "", False, 0)
    note = f"--set {flag.key}" + (f"; default: {default}" if shown else "")
    options: dict[str, Any] = {"dest": flag.key, "default": None}
    options["help"] = f"{meaning} ({note})".replace("%", "%%")
    if flag.switch is not None or value_type is bool:
        parser.add_argument(
            flag.option, action=argparse.BooleanOptionalAction, **options
        )
        return
    if flag.many:
        options["nargs"] = "+"
    choices = field.metadata["choices"]
    if choices is not None:
        options["choices"] = choices
    else:
        options["metavar"] = flag.metavar or _METAVARS.get(value_type, "VALUE")
    parser.add_argument(flag.option, **options)
