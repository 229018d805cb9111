"""Data preparation: its stages, end to end by workers, memory, and reading back.

The text is the books of the shared test data (`LVBERT_SHARED`, or ``../shared``). Rates
are in MB of raw text a second of processor time, user and system, of all processes
together: with neighbours on the machine that says more than the clock, whose figures
stand beside it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import REPOSITORY
from training.data.chunk_records import ChunkSettings
from training.data.chunk_tokenizer import ChunkTokenizer, TokenizerSettings
from training.data.corpus import Chunk, chunks, find_files
from training.data.examples import ExampleOptions
from training.data.manifest import DataManifest
from training.data.shard_writing import plan_shards
from training.data.worker_pool import Worker

SHARED = Path(os.environ.get("LVBERT_SHARED", REPOSITORY.parent / "shared"))
SEQUENCE_LENGTH = 128
BATCH = 16
_ROUNDS = 3
_SHARD_MEGABYTES = 8


def run() -> dict[str, Any]:
    """Runs the benchmark and returns its figures."""
    books = sorted((SHARED / "data" / "corpus").glob("books_*.txt.xz"))
    if not books:
        return {"skipped": f"no books in {SHARED}/data/corpus (set LVBERT_SHARED)"}
    folder = Path(tempfile.mkdtemp(prefix="data-preparation-"))
    try:
        whole = [
            _end_to_end(folder, books, workers)
            for workers in sorted({1, 2, len(os.sched_getaffinity(0))})
        ]
        part = _prepared(folder, books[:1], 1)
        _prepared(folder, books, 1)
        return {
            "stages": _stages(folder, books[:2]),
            "end_to_end": {f"workers_{one['workers']}": one for one in whole},
            "speedup_of_2_workers": {
                name: whole[1][name]["median"] / whole[0][name]["median"]
                for name in ("per_second", "per_second_without_start")
            },
            "memory": {
                "megabytes_of_text": [part.megabytes, whole[0]["megabytes"]],
                "peak_mib": [part.peak_mib, whole[0]["peak_mib"]],
                "ratio": whole[0]["peak_mib"] / part.peak_mib,
            },
            "verification": _verification(folder / "data"),
            "reading": _reading(folder / "data"),
        }
    finally:
        shutil.rmtree(folder)


@dataclass(frozen=True)
class _Usage:
    """What a command and all its processes took."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    result: dict[str, Any]

    @property
    def megabytes(self) -> float:
        """Raw text that was prepared."""
        return float(self.result["bytes"]) / 1e6


def _command(*arguments: str) -> _Usage:
    """Runs ``python -m training prepare``."""
    command = [sys.executable, "-m", "training", "prepare", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "usage.json"
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.usage", str(file), *command],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}")
        figures = json.loads(file.read_text(encoding="utf-8"))
    return _Usage(**figures, result=json.loads(done.stdout.splitlines()[-1]))


def _end_to_end(folder: Path, books: list[Path], workers: int) -> dict[str, Any]:
    """Measures the command as a user runs it, and what it takes to do nothing.

    `start` is the time for a corpus of a few words: imports above all. The rates count
    it in; `..._without_start` do not, as for a corpus of any size.
    """
    tiny = folder / "tiny.txt"
    tiny.write_text("".join(f"A few words, {number}.\n\n" for number in range(50)))
    starts = [_prepared(folder, [tiny], workers) for _ in range(_ROUNDS)]
    runs = [_prepared(folder, books, workers) for _ in range(_ROUNDS)]
    megabytes = runs[0].megabytes
    start_cpu = min(one.cpu_seconds for one in starts)
    start = min(one.seconds for one in starts)
    return {
        "workers": workers,
        "megabytes": megabytes,
        "start": {"seconds": start, "cpu_seconds": start_cpu},
        "per_second": _summary([megabytes / one.seconds for one in runs]),
        "per_cpu_second": _summary([megabytes / one.cpu_seconds for one in runs]),
        "per_second_without_start": _summary(
            [megabytes / (one.seconds - start) for one in runs]
        ),
        "per_cpu_second_without_start": _summary(
            [megabytes / (one.cpu_seconds - start_cpu) for one in runs]
        ),
        "peak_mib": statistics.median(one.peak_mib for one in runs),
    }


def _prepared(folder: Path, inputs: list[Path], workers: int) -> _Usage:
    """Prepares `inputs` into ``data``, with a given vocabulary."""
    return _command(
        *("--input", *map(str, inputs)),
        *("--vocabulary", str(SHARED / "data" / "vocab.bert-uncased.txt")),
        *("--output", str(folder / "data"), "--overwrite"),
        *("--sequence-length", str(SEQUENCE_LENGTH), "--workers", str(workers)),
        *("--shard-megabytes", str(_SHARD_MEGABYTES)),
    )


def _stages(folder: Path, books: list[Path]) -> dict[str, Any]:
    """Measures each stage on its own, in this process."""
    import tensorflow as tf

    from lvbert_tf.vocabulary import read_vocabulary

    vocabulary = read_vocabulary(SHARED / "data" / "vocab.bert-uncased.txt")
    tokenizer = TokenizerSettings(tuple(vocabulary), True, None, "error")
    settings = ChunkSettings(
        tokenizer=tokenizer,
        examples=ExampleOptions(SEQUENCE_LENGTH),
        held_out=0.02,
        seed=0,
        official=False,
    )
    pieces, result = folder / "pieces", folder / "result"
    pieces.mkdir()
    result.mkdir()
    worker = Worker(settings, pieces, result)
    tokenize = ChunkTokenizer(tokenizer)
    files = find_files([str(book) for book in books])
    text = list(chunks(files))
    lines = [b"\n".join(chunk.documents).split(b"\n") for chunk in text]
    megabytes = sum(len(one) for chunk in text for one in chunk.documents) / 1e6
    strings = [tf.constant(one) for one in lines]
    tokenizer_alone = tf.function(
        lambda some: (
            tokenize.tokenizer.tokenize_strings(some, valid_utf8=True).flat_values
        ),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )

    def make_pieces() -> None:
        for chunk in text:
            worker.make_piece(Chunk(chunk.group, chunk.index, chunk.documents))

    def make_shards() -> None:
        for old in result.iterdir():
            old.unlink()
        tables = sorted(pieces.glob("*.npz"))
        for job in plan_shards(tables, pieces, _SHARD_MEGABYTES << 20):
            worker.make_shard(job)

    stages: dict[str, Callable[[], object]] = {
        "read_xz": lambda: list(chunks(files)),
        "tokenizer_alone": lambda: [tokenizer_alone(one) for one in strings],
        "tokenize_lines": lambda: [tokenize(one) for one in lines],
        "chunk_to_piece": make_pieces,
        "pieces_to_shards": make_shards,
    }
    rates = {name: _rate(megabytes, stage) for name, stage in stages.items()}
    return {
        **rates,
        # So many workers wait for nothing, because one process reads for them all.
        "workers_fed_by_one_reader": rates["read_xz"]["median"]
        / rates["chunk_to_piece"]["median"],
    }


def _verification(data: Path) -> dict[str, Any]:
    """Measures the comparison with checksums, which runs beside a stage's start."""
    manifest = DataManifest.load(data)
    size = sum(shard.bytes for shard in manifest.shards) / 1e6
    return {"megabytes": size, "per_cpu_second": _rate(size, manifest.verify)}


def _reading(data: Path) -> dict[str, Any]:
    """Measures masked batches against the training step that takes them.

    The step is ELECTRA's with LV-BERT-small, the paper's pretraining.
    """
    import tensorflow as tf

    import lvbert_tf
    from lvbert_tf.optimization import AdamW
    from training.data.records import training_dataset

    batches = iter(
        training_dataset(
            data, batch_size=BATCH, sequence_length=SEQUENCE_LENGTH, seed=0
        )
    )
    model = lvbert_tf.LVBertElectra(lvbert_tf.LVBertBackbone.from_size("small"))
    model.compile(optimizer=AdamW(1e-4))
    batch = next(batches)
    model(batch)
    model.optimizer.build(model.trainable_variables)
    step = tf.function(model.train_step, autograph=False)
    float(step(batch)["loss"])
    times: dict[str, list[float]] = {"batch": [], "step": []}
    clocks: dict[str, list[float]] = {"batch": [], "step": []}
    work: dict[str, tuple[int, Callable[[], object]]] = {
        "batch": (200, lambda: next(batches)),
        "step": (3, lambda: float(step(batch)["loss"])),
    }
    for _ in range(_ROUNDS):
        for name, (count, one) in work.items():
            cpu, clock = time.process_time(), time.perf_counter()
            for _ in range(count):
                one()
            times[name].append((time.process_time() - cpu) / count)
            clocks[name].append((time.perf_counter() - clock) / count)
    cpu_times = {name: statistics.median(values) for name, values in times.items()}
    wall = {name: statistics.median(values) for name, values in clocks.items()}
    return {
        "milliseconds_a_batch": 1000 * wall["batch"],
        "milliseconds_a_step": 1000 * wall["step"],
        "tokens_per_second": BATCH * SEQUENCE_LENGTH / wall["batch"],
        "times_a_training_step": {
            "clock": wall["step"] / wall["batch"],
            "processor_time": cpu_times["step"] / cpu_times["batch"],
        },
    }


def _rate(amount: float, work: Callable[[], object]) -> dict[str, float]:
    work()
    rates = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        work()
        rates.append(amount / (time.process_time() - start))
    return _summary(rates)


def _summary(rates: list[float]) -> dict[str, float]:
    return {
        "median": statistics.median(rates),
        "fastest": max(rates),
        "spread": max(rates) - min(rates),
    }
