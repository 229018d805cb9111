"""The Python examples of README and docs run, and their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

DOCUMENTS = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")])
# Examples that need what a run leaves behind are executed where they are tested.
ELSEWHERE = {"serving.md", "export.md"}


def _examples(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.S | re.M)


@pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS if _examples(d) and d.name not in ELSEWHERE],
    ids=lambda d: d.name,
)
def test_the_examples_run_one_after_the_other(document: Path, tmp_path: Path) -> None:
    code = "\n".join(_examples(document))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_to_files(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text())
    missing = [
        target
        for target in targets
        if not target.startswith(("http:", "https:", "mailto:"))
        and not (document.parent / target).exists()
    ]
    assert missing == []


def test_docstring_examples_run() -> None:
    code = """
import doctest, importlib, pkgutil, sys
import lvbert_tf
failures = tried = 0
for info in pkgutil.walk_packages(lvbert_tf.__path__, "lvbert_tf."):
    if info.name.endswith("__main__"):
        continue
    result = doctest.testmod(importlib.import_module(info.name))
    failures += result.failed
    tried += result.attempted
print(failures, tried)
sys.exit(failures > 0 or tried < 5)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
