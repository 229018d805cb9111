"""The frame of every command: subcommands, errors without a traceback, JSON last.

It imports nothing heavy, so that ``--help`` answers at once. The applications
(`training`, `export`, `serving`) and the ``lvbert`` script share it.
"""

import argparse
import importlib
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn


class CommandError(Exception):
    """The command ran and failed, or found a mismatch: exit status 1."""

    exit_status = 1


class UsageError(CommandError):
    """The command was called or configured wrongly: exit status 2."""

    exit_status = 2


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Attributes:
        module: dotted name of a module with ``add_arguments(parser)`` and
            ``main(arguments) -> dict | None``. The module must be importable without
            TensorFlow; it imports what it needs inside ``main``.
        help: one line for ``--help``.
    """

    module: str
    help: str


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports wrong usage as a `UsageError`."""

    def error(self, message: str) -> NoReturn:
        """Raises the message with the usage below it."""
        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def run_application(
    prog: str,
    description: str,
    commands: Mapping[str, Command],
    argv: Sequence[str] | None = None,
) -> int:
    """Runs one subcommand of an application.

    Args:
        prog: how the user calls it, for example ``"python -m training"``.
        description: one sentence for ``--help``.
        commands: subcommand name to `Command`.
        argv: the arguments, by default those of the process.

    Returns:
        The exit status: 0 done, 1 failed or mismatch, 2 wrong usage or configuration,
        130 interrupted by the user.
    """
    # TensorFlow reads this once, when it is first imported. A missing GPU driver is an
    # error to it, and such lines would bury the progress; what fails still raises.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    argv = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in argv
    try:
        arguments = _parse(prog, description, commands, argv)
        result = importlib.import_module(commands[arguments.command].module).main(
            arguments
        )
    except CommandError as error:
        _report(error, prog, debug)
        return error.exit_status
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:  # the last resort: a defect, still without a traceback
        _report(error, prog, debug)
        return 1
    if result is not None:
        print(json.dumps(json_safe(result)), flush=True)
        if result.get("passed") is False:
            return 1
    return 0


def at_least(least: int) -> Callable[[str], int]:
    """Returns an argparse `type` for whole numbers from `least` on."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number of at least {least}. Received: {text!r}"
            )
        return value

    return parse


def json_safe(value: Any) -> Any:
    """Returns `value` with NaN and infinities as None, and sets, tuples as lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json_safe(item) for item in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return json_safe(value.item())
    return value


def _parse(
    prog: str,
    description: str,
    commands: Mapping[str, Command],
    argv: Sequence[str],
) -> argparse.Namespace:
    parser = _Parser(prog=prog, description=description)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in argv if word in commands), None)
    for name, command in commands.items():
        subparser = subparsers.add_parser(
            name, help=command.help, description=command.help
        )
        if name == chosen:
            importlib.import_module(command.module).add_arguments(subparser)
        subparser.add_argument(
            "--debug", action="store_true", help="show the traceback of an error"
        )
    return parser.parse_args(argv)


def _report(error: BaseException, prog: str, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    kind = "" if isinstance(error, CommandError) else f"{type(error).__name__}: "
    print(f"{prog}: error: {kind}{error}", file=sys.stderr)
