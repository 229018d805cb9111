"""``latency``: measures what a layer of each type costs on this machine."""

import json
import os
import platform
import random
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tensorflow as tf

from common.command_line import CommandError, UsageError
from common.files import write_text
from lvbert_tf.architecture import letters as known_letters
from lvbert_tf.presets import ModelSize, model_size
from training.run.devices import set_up
from training.run.progress import Progress
from training.run.stage import run_once
from training.studies.latency_experiment import LATENCY, LatencyExperiment
from training.studies.latency_stacks import (
    Exporter,
    Stack,
    export_in_new_process,
    keras_stack,
    onnx_stack,
    token_inputs,
)

_FEW, _MANY = 1, 9
"""Layers of the two stacks whose difference is what a layer costs: what a call costs
beside its layers falls out."""
_TABLE = "latency.json"


def run(
    configuration: LatencyExperiment,
    *,
    output: Path | None = None,
    run_dir: Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Measures the forward pass of each layer type and writes the table.

    A layer's time is the difference between a stack of nine different layers and a
    stack of one, divided by eight; the stacks of all letters take turns, so that a
    busy machine slows all alike; the median counts. `base_milliseconds` is what is
    left: embeddings, projection and the call itself.

    Args:
        configuration: of the command. Runtime `"keras"` is a compiled function of
            TensorFlow; `"onnx"` and `"onnx-int8"` are what `python -m export` makes of
            the stacks, on onnxruntime.
        output: JSON file to write; None: in `run_dir`.
        run_dir: keeps the configuration and the result; measured once, it is not
            measured again.
        overwrite: whether `output` may exist.

    Returns:
        `milliseconds` and `spread_milliseconds` (half the interquartile range) by
        letter, `base_milliseconds`, `hardware` and what was measured.

    Raises:
        UsageError: if neither place is given, `output` exists or a letter is unknown.
    """
    file = _file(output, run_dir, overwrite)
    letters = configuration.model.letters
    unknown = [letter for letter in letters if letter not in known_letters()]
    if unknown or not letters:
        raise UsageError(
            f"--letters {letters}: expected letters of {''.join(known_letters())}"
        )
    # The table is of one machine.
    identity = {"processor": _processor(), "cores": len(os.sched_getaffinity(0))}
    table = run_once(
        LATENCY, configuration, run_dir, identity, lambda: _measured(configuration)
    )
    write_text(file, json.dumps(table, indent=2) + "\n")
    return {"output": str(file), **table}


def _file(output: Path | None, run_dir: Path | None, overwrite: bool) -> Path:
    """Returns where the table goes, before anything is measured."""
    if output is None:
        if run_dir is None:
            raise UsageError("--output FILE or --run-dir DIR is missing")
        return run_dir / _TABLE
    if output.exists() and not overwrite:
        raise UsageError(
            f"--output {output}: exists already; choose another name or --overwrite"
        )
    if not output.absolute().parent.is_dir():
        raise UsageError(
            f"--output {output}: no such folder {output.absolute().parent}"
        )
    return output


def _measured(configuration: LatencyExperiment) -> dict[str, Any]:
    model, call, study = configuration.model, configuration.call, configuration.study
    _set_threads(call.threads if call.runtime == "keras" else 0)
    set_up(deterministic="off", seed=study.seed)
    distinct = list(dict.fromkeys(model.letters))
    sizes = model.sizes()
    with TemporaryDirectory() as folder:
        stacks = make_stacks(
            stack_architectures(distinct),
            sizes,
            call.batch,
            call.sequence_length,
            runtime=call.runtime,
            threads=call.threads,
            seed=study.seed,
            folder=Path(folder),
        )
        times = measure(stacks, study.repeats)
    return {
        **table_of(times, distinct),
        "batch": call.batch,
        "sequence_length": call.sequence_length,
        "size": model.size if sizes == model_size(model.size) else None,
        "hidden_dim": sizes.hidden_dim,
        "repeats": study.repeats,
        "runtime": call.runtime,
        "threads": call.threads,
        "hardware": hardware(),
    }


def stack_architectures(letters: Iterable[str]) -> list[str]:
    """Returns the stacks from whose times a table follows."""
    return [letter * depth for letter in letters for depth in (_FEW, _MANY)]


def table_of(
    times: Mapping[str, Sequence[float]], letters: Sequence[str]
) -> dict[str, Any]:
    """Returns what times of `stack_architectures` say about layers.

    Args:
        times: milliseconds of every stack, round by round.
        letters: the layer types.
    """
    per_layer = {
        letter: [
            (many - few) / (_MANY - _FEW)
            for many, few in zip(
                times[letter * _MANY], times[letter * _FEW], strict=True
            )
        ]
        for letter in letters
    }
    milliseconds = {a: max(0.0, statistics.median(t)) for a, t in per_layer.items()}
    base = statistics.median(
        statistics.median(times[a * _FEW]) - _FEW * milliseconds[a] for a in per_layer
    )
    return {
        "milliseconds": milliseconds,
        "spread_milliseconds": {a: _spread(t) for a, t in per_layer.items()},
        "base_milliseconds": max(0.0, base),
    }


def hardware() -> dict[str, Any]:
    """Returns what the measurement ran on."""
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": [detail.get("device_name", "unknown") for detail in details],
        "system": platform.platform(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }


def make_stacks(
    architectures: Iterable[str],
    size: ModelSize,
    batch: int,
    length: int,
    *,
    runtime: str,
    threads: int,
    seed: int,
    folder: Path,
    export: Exporter = export_in_new_process,
) -> dict[str, Stack]:
    """Returns a function for each architecture that runs it once on a runtime.

    Args:
        architectures: strings of letters.
        size: of all models.
        batch: B, sequences at once.
        length: T, tokens.
        runtime: one of `latency_experiment.RUNTIMES`.
        threads: for one call; 0 leaves that to the runtime.
        seed: of the inputs.
        folder: where exports are written.
        export: runs a command of ``python -m export``.
    """
    inputs = token_inputs(batch, length, seed)
    if runtime == "keras":
        return {name: keras_stack(name, size, inputs) for name in architectures}
    stacks = {}
    with Progress(None, "models", "export") as progress:
        for name in architectures:
            stacks[name] = onnx_stack(
                name,
                size,
                inputs,
                folder / name,
                quantized=runtime == "onnx-int8",
                threads=threads,
                export=export,
            )
            progress.update(1)
    return stacks


def predicted_milliseconds(table: Mapping[str, Any], architecture: str) -> float:
    """Returns what a table says that an architecture takes."""
    times = table["milliseconds"]
    return float(table["base_milliseconds"] + sum(times[a] for a in architecture))


def _set_threads(threads: int) -> None:
    """Gives TensorFlow so many threads for one operation, and one for operations.

    Raises:
        CommandError: if TensorFlow runs already, with another number.
    """
    if not threads or tf.config.threading.get_intra_op_parallelism_threads() == threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError as error:
        raise CommandError(f"--threads {threads}: {error}") from None


def measure(stacks: Mapping[str, Stack], repeats: int) -> dict[str, list[float]]:
    """Returns milliseconds of every stack, `repeats` times in turn.

    Each round has an order of its own, so that nothing always runs behind the same.
    """
    for stack in stacks.values():  # traces, and warms up
        stack()
        stack()
    times: dict[str, list[float]] = {key: [] for key in stacks}
    order, generator = list(stacks), random.Random(0)
    with Progress(repeats, "rounds", "latency") as progress:
        for _ in range(repeats):
            generator.shuffle(order)
            for key in order:
                started = time.perf_counter()
                stacks[key]()
                times[key].append(1000 * (time.perf_counter() - started))
            progress.update(1)
    return times


def _spread(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    quarters = statistics.quantiles(values, n=4)
    return (quarters[2] - quarters[0]) / 2


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
