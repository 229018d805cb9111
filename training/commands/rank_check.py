"""The command ``rank-check``: its arguments."""

import argparse
from typing import Any

from training.run import settings
from training.run.flags import add_stage_arguments, overrides_of
from training.studies.experiment import (
    RANK_CHECK,
    RANK_CHECK_FLAGS,
    RankCheckExperiment,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_stage_arguments(
        parser,
        RankCheckExperiment,
        RANK_CHECK_FLAGS,
        run_dir="where everything is written; run again to resume "
        "(default: rank_check in the supernet's)",
        run_dir_required=False,
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.studies.rank_check import run

    overrides = overrides_of(arguments, RANK_CHECK_FLAGS)
    configuration = settings.load(
        RankCheckExperiment, RANK_CHECK, arguments.config, overrides
    )
    return run(configuration, arguments.run_dir)
