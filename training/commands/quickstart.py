"""The command ``quickstart``: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from training.quickstart import experiment as quickstart_experiment
from training.run import settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("runs") / "quickstart",
        help="where everything is written (default: runs/quickstart); run again with "
        "the same to go on",
    )
    parser.add_argument(
        "--minutes", type=float, help="what the stages may take together (default: 6.5)"
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        metavar="PATH",
        help="text to pretrain on instead of the public reviews",
    )
    parser.add_argument(
        "--labelled",
        metavar="FILE.tsv",
        help="labelled texts (columns text, label) instead of the public reviews",
    )
    parser.add_argument("--seed", type=int, help="decides everything random")
    parser.add_argument(
        "--config", type=Path, help="sizes (default: training/configs/quickstart.toml)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="[STAGE.]SECTION.KEY=VALUE",
        help="override one setting of the file, or of a stage in it, for example "
        "supernet.run.steps=200; may be repeated",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.quickstart.machine import machine_gflops
    from training.quickstart.stage import run

    overrides = list(arguments.set)
    for name, value in (
        ("run.minutes", arguments.minutes),
        ("run.seed", arguments.seed),
        ("data.corpus", _joined(arguments.corpus)),
        ("data.labelled", arguments.labelled and _joined([arguments.labelled])),
    ):
        if value is not None:
            overrides.append(f"{name}={settings.toml_value(value)}")
    return run(
        quickstart_experiment.load(
            arguments.config, overrides, machine_gflops(arguments.run_dir)
        ),
        arguments.run_dir,
    )


def _joined(paths: list[str] | None) -> str | None:
    """Returns absolute paths in one string, so that every stage finds them.

    Raises:
        UsageError: if one does not exist.
    """
    if paths is None:
        return None
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"{path}: expected a file or folder, found nothing")
    return ":".join(str(Path(path).absolute()) for path in paths)
