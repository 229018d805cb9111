"""The command ``search``: its arguments."""

import argparse
from typing import Any

from command_line import UsageError
from training.search.experiment import (
    add_arguments,
    from_arguments,
)

__all__ = ["add_arguments", "main"]


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    from training.search.stage import Execution, run

    for name in ("batch_size", "logical_cpus", "seeds"):
        if getattr(arguments, name) < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} must be at least 1, "
                f"found {getattr(arguments, name)}"
            )
    if arguments.racing and arguments.score_cache is not None:
        raise UsageError(
            "--score-cache: a race needs every candidate's examples, so --racing "
            "neither reads nor writes a cache of scores"
        )
    return run(
        from_arguments(arguments),
        arguments.run_dir,
        execution=Execution(
            batch_size=arguments.batch_size,
            score_cache=arguments.score_cache,
            strategy=arguments.strategy,
            logical_cpus=arguments.logical_cpus,
            state_memory_bytes=max(0, arguments.state_memory_mb) << 20,
        ),
        compare=arguments.compare,
    )
