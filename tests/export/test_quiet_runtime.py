"""A healthy export prints nothing of the runtime's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from export.quiet_runtime import without_notes
from tests.export.models import Artefacts
from tests.paths import REPOSITORY


def test_other_lines_are_given_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    with without_notes():
        os.write(2, b"WARNING: All log messages before absl::InitializeLog() is ")
        os.write(2, b"called are written to STDERR\n")
        os.write(2, b"I0000 1 pass.cc:437] MLIR V1 optimization pass is not enabled\n")
        os.write(2, b"E0000 something is wrong\n")
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == "E0000 something is wrong\n"


def test_nothing_is_lost_with_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with without_notes():
            os.write(2, b"before\n")
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  whatever it is
        fail()
    assert capfd.readouterr().err == "before\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["saved-model", "onnx", "check", "file", "quantize"]
)
def test_stderr_of_a_command_is_empty(
    artefacts: Artefacts, tmp_path: Path, command: str
) -> None:
    examples = tmp_path / "dev.tsv"
    examples.write_text("text\tlabel\n" + "good\tneutral\n" * 8)
    output = ("--output", tmp_path / "artefact")
    litert = ("--format", "litert", "--output", tmp_path / "model.tflite")
    eight_bits = ("--onnx", artefacts.onnx(), *output, "--max-drop", "100")
    words = {
        "saved-model": ("--model", artefacts.model(), *output),
        "onnx": ("--model", artefacts.model(), *output),
        "check": ("--model", artefacts.model(), "--artefact", artefacts.saved_model()),
        "file": ("--model", artefacts.model("mixing"), *litert),
        "quantize": (*eight_bits, "--eval", examples),
    }[command]
    # As a user's shell has it, not as the tests set it.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_CPP")}
    done = subprocess.run(
        [sys.executable, "-m", "export", command, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
