"""What no file of the project may say, and what its documents promise."""

import re
import subprocess

from tests.paths import REPOSITORY


def _files() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    names = done.stdout.split("\n") if done.returncode == 0 else []
    return [name for name in names if name and not name.startswith("tests/golden/")]


def test_no_file_names_a_machine_or_a_registry() -> None:
    # Spelled so that this file does not name them either.
    forbidden = re.compile("/" + r"(work|farm|root)/|pypi\.org|python" + "hosted")
    found = []
    for name in _files():
        path = REPOSITORY / name
        if path.suffix in {".png", ".npz", ".gz", ".xz"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {m[0]}" for m in forbidden.finditer(text)]
    assert found == []


def test_no_file_is_larger_than_it_should_be() -> None:
    large = [
        f"{name}: {(REPOSITORY / name).stat().st_size}"
        for name in _files()
        if (REPOSITORY / name).is_file()
        and (REPOSITORY / name).stat().st_size > 1_000_000
    ]
    assert large == []


def test_every_pinned_package_has_a_hash() -> None:
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if re.match(r"^[a-z0-9][\w.-]*==", line)]
    assert len(pins) > 100
    assert all(line.endswith("\\") for line in pins)
