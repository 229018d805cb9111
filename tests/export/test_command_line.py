"""Help comes at once; wrong usage is named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from export.__main__ import COMMANDS
from tests.export.models import run
from tests.paths import REPOSITORY

_PROBE = """
import contextlib, io, json, sys
from export.__main__ import COMMANDS
from common.command_line import run_application
helps = {}
for words in ([], *([name] for name in COMMANDS)):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        run_application("python -m export", "", COMMANDS, [*words, "--help"])
    helps[" ".join(words)] = out.getvalue()
heavy = ("tensorflow", "keras", "onnx", "onnxruntime", "lvbert_tf.models", "numpy")
print(json.dumps([helps, [name for name in heavy if name in sys.modules]]))
"""


def test_help_needs_nothing_heavy() -> None:
    process = subprocess.run(
        [sys.executable, "-c", _PROBE],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    helps, heavy = json.loads(process.stdout)
    assert heavy == []
    assert all("--debug" in text for name, text in helps.items() if name)
    assert "--artefact" in helps["check"]
    assert all(name in helps[""] for name in COMMANDS)


@pytest.mark.parametrize("command", ["saved-model", "onnx"])
def test_a_missing_model_is_wrong_usage(tmp_path: Path, command: str) -> None:
    result = run(
        *(command, "--model", tmp_path / "absent", "--output", tmp_path / "out")
    )
    assert result.status == 2
    assert "--model: no such directory" in result.errors
    assert "Traceback" not in result.errors
    assert list(tmp_path.iterdir()) == []


def test_batch_sizes_are_integers(tmp_path: Path) -> None:
    result = run(
        *("saved-model", "--model", tmp_path, "--output", tmp_path / "out"),
        *("--warm-up-batch-sizes", "1,x"),
    )
    assert result.status == 2
    assert "--warm-up-batch-sizes: expected integers" in result.errors
