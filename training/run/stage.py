"""A stage that writes its result once: its directory, and the result of before."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from training.run import settings
from training.run.directory import RunDirectory


def run_once(
    stage: str,
    configuration: Any,
    run_dir: Path | None,
    identity: Mapping[str, Any],
    work: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Works in the run's directory, or returns the result of an earlier call.

    Args:
        stage: the command.
        configuration: its dataclass.
        run_dir: the directory; None keeps nothing.
        identity: what else must be the same to go on: hashes.
        work: computes the result; what it has written already it does not do again.

    Raises:
        UsageError: if the directory holds another run, or another process works in it.
    """
    if run_dir is None:
        return work()
    config = settings.to_toml(configuration, stage)
    with RunDirectory.open(run_dir, config, identity) as directory:
        finished = directory.result()
        return directory.write_result(work()) if finished is None else finished
