"""One supernet for all tests of the search, and one way to run the command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.supernets import make_supernet_run
from training import __main__ as application

RunSearch = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="session")
def supernet_run(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path) -> Path:
    """The run directory of a supernet of four layers, which no test changes."""
    return make_supernet_run(tmp_path_factory.mktemp("supernet"), tiny_data)


@pytest.fixture
def run_search(
    supernet_run: Path,
    tiny_data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> RunSearch:
    """Runs `search` in this process and returns its status, result and stderr.

    `supernet` and `data` name others than the shared ones.
    """

    def run(
        run_dir: Path,
        *options: str,
        supernet: Path = supernet_run,
        data: Path = tiny_data,
    ) -> tuple[int, Any, str]:
        argv = ["training", "search", "--supernet", str(supernet), "--data", str(data)]
        monkeypatch.setattr("sys.argv", [*argv, "--run-dir", str(run_dir), *options])
        status = application.main()
        captured = capsys.readouterr()
        lines = captured.out.splitlines()
        return status, json.loads(lines[-1]) if lines else None, captured.err

    return run
