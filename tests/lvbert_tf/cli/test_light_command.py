"""Help and arithmetic come without TensorFlow; the package has no stray names."""

import subprocess
import sys
import types

import pytest

import lvbert_tf
from tests.paths import REPOSITORY

HEAVY = {"tensorflow", "keras", "keras_hub", "jax", "matplotlib"}


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["describe", "lv_bert", "--json"], ["convert", "--help"]],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    code = f"""
import sys
import lvbert_command
try:
    status = lvbert_command.main({arguments!r})
except SystemExit as end:
    status = end.code
found = sorted({HEAVY!r} & set(sys.modules))
sys.exit(f"status {{status}}, imported {{found}}" if status or found else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout


def test_the_package_has_its_public_names_only() -> None:
    found = {
        name
        for name, value in vars(lvbert_tf).items()
        if not name.startswith("_")
        and not (
            isinstance(value, types.ModuleType)
            and value.__name__.startswith("lvbert_tf.")
        )
    }
    assert found == set(lvbert_tf.__all__) - {"__version__"}
    assert callable(lvbert_tf.load_official_checkpoint)
