"""One supernet for all tests of the search, and one way to run the command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import commands
from tests.commands import Ran
from tests.training.supernets import make_supernet_run

RunSearch = Callable[..., Ran]


@pytest.fixture(scope="session")
def supernet_run(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path) -> Path:
    """The run directory of a supernet of four layers, which no test changes."""
    return make_supernet_run(tmp_path_factory.mktemp("supernet"), tiny_data)


@pytest.fixture
def run_search(supernet_run: Path, tiny_data: Path) -> RunSearch:
    """Runs `search` in this process and returns its status, result and stderr.

    `supernet` and `data` name others than the shared ones.
    """

    def run(
        run_dir: Path,
        *options: str,
        supernet: Path = supernet_run,
        data: Path = tiny_data,
    ) -> Ran:
        words = ("--supernet", supernet, "--data", data, "--run-dir", run_dir)
        return commands.run("training", "search", *words, *options)

    return run
