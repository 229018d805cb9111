"""A trained supernet of the paper's small size, made once and kept, to search in."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path("runs/benchmarks/search")
STEPS = 300

_OVERRIDES = (
    "optimizer.learning_rate=1e-3",
    "optimizer.warmup_steps=50",
    f"run.steps={STEPS}",
    "run.batch_size=16",
    f"run.checkpoint_every={STEPS}",
    "run.evaluate_every=0",
    "data.validation_examples=64",
    "model.dropout=0.0",
    "model.attention_dropout=0.0",
)


def supernet_and_data() -> tuple[Path, Path]:
    """Returns the run directory of a supernet and a data directory.

    `LVBERT_BENCHMARK_SUPERNET` and `LVBERT_BENCHMARK_DATA` name one's own. Otherwise a
    supernet of the small size takes some steps on `prepared_data`. That is little, but
    enough for candidates to differ.
    """
    supernet = os.environ.get("LVBERT_BENCHMARK_SUPERNET")
    data = os.environ.get("LVBERT_BENCHMARK_DATA")
    if supernet and data:
        return Path(supernet), Path(data)
    records, run_dir = prepared_data(), ROOT / "supernet"
    words = [word for setting in _OVERRIDES for word in ("--set", setting)]
    _train_command(
        "supernet", "--data", str(records), "--run-dir", str(run_dir), *words
    )
    return run_dir, records


def prepared_data() -> Path:
    """Returns a data directory of the paper's length and size of vocabulary.

    It is made of `LVBERT_BENCHMARK_CORPUS`, a text file; by default of the quickstart's
    public reviews.
    """
    corpus = os.environ.get("LVBERT_BENCHMARK_CORPUS")
    ROOT.mkdir(parents=True, exist_ok=True)
    records = ROOT / "records"
    if not (records / "index.json").exists():
        if not corpus:
            corpus = str(ROOT / "reviews.txt")
            _write_reviews(Path(corpus))
        _train_command(
            "prepare", "--input", corpus, "--output", str(records), *_VOCABULARY
        )
    return records


def _write_reviews(file: Path) -> None:
    from training.data.labelled import write_corpus
    from training.data.public_reviews import public_reviews

    if not file.exists():
        reviews = public_reviews(ROOT / "public")
        rows = [*reviews.read_reviews(), *reviews.read_sentences()]
        write_corpus(file, [row.text for row in rows])


_VOCABULARY = ("--vocabulary-size", "30522", "--held-out", "0.04")


def _train_command(*words: str) -> dict[str, object]:
    command = [sys.executable, "-m", "training", *words]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, object] = json.loads(output.stdout.splitlines()[-1])
    return result
