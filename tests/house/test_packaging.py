"""The wheel holds the library and its command, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.paths import REPOSITORY


def test_the_wheel_ships_the_library_only(tmp_path: Path) -> None:
    # From a copy: a build leaves folders behind that would leak into the next one.
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "MANIFEST.in",
        "lvbert_command.py",
    ):
        (checkout / name).write_bytes((REPOSITORY / name).read_bytes())
    for package in ("lvbert_tf", "common", "training", "export", "serving", "tests"):
        for source in (REPOSITORY / package).rglob("*.py"):
            target = checkout / source.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    (checkout / "lvbert_tf" / "py.typed").touch()
    build = [sys.executable, "-m", "uv", "build", "--wheel", "--quiet"]
    subprocess.run(
        [*build, "--out-dir", str(tmp_path / "dist"), str(checkout)], check=True
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "lvbert_tf",
        "lvbert_command.py",
    }
    assert "lvbert_tf/py.typed" in names
    modules = {name for name in names if name.endswith(".py")}
    ours = {
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "lvbert_tf").rglob("*.py")
    }
    assert modules == ours | {"lvbert_command.py"}
