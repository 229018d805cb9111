"""How long one call takes in every form that a model leaves in, and in ELECTRA's.

All in turn in one process, so that a busy machine slows all alike; figures are ratios
to the SavedModel. PyTorch does not fit beside TensorFlow's pins: where
``LVBERT_TORCH_PYTHON`` names the Python of an environment with torch, transformers and
onnx, ELECTRA-small of `transformers` is exported there and its ONNX graph takes its
turn here; its time in PyTorch is measured there, against that same graph.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.measure import REPOSITORY, milliseconds

BATCHES, LENGTHS, REPETITIONS = (1, 8, 32), (32, 128, 512), 9
LABELS = ("negative", "positive")
_TORCH = "LVBERT_TORCH_PYTHON"
_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def run(
    batches: tuple[int, ...] = BATCHES,
    lengths: tuple[int, ...] = LENGTHS,
    most_tokens: int | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """Measures LV-BERT-small as a classifier, random weights.

    Args:
        batches: rows B of the inputs.
        lengths: their tokens T.
        most_tokens: leaves out shapes of more tokens.
        threads: of every runtime, if TensorFlow does not run yet; 0 leaves that to
            each. On a machine that others use, one thread each tells more: those of
            onnxruntime wait for each other.

    Returns:
        For every shape ``BxT`` the milliseconds of each form, the fastest call and the
        median, and the ratios of the fastest to the SavedModel's.
    """
    if threads:
        for name in _THREADS:
            os.environ[name] = str(threads)
    from lvbert_tf.vocabulary import SPECIAL_TOKENS

    words = [*SPECIAL_TOKENS, *(f"w{n}" for n in range(30522 - len(SPECIAL_TOKENS)))]
    with TemporaryDirectory() as name:
        folder = Path(name)
        forms = _forms(folder, words, threads)
        others = _electra(folder, batches, lengths, most_tokens, threads)
        if others:
            forms["electra_onnx"] = _onnx(folder / "electra.onnx", threads)
        result: dict[str, Any] = {}
        for batch in batches:
            for length in lengths:
                if most_tokens and batch * length > most_tokens:
                    continue
                inputs = _inputs(batch, length, len(words))
                cases = {form: partial(call, inputs) for form, call in forms.items()}
                # Long calls need fewer rounds for the same time.
                repetitions = REPETITIONS if batch * length < 4000 else 3
                times = milliseconds(cases, repetitions, warmups=1)
                base = times["saved_model"]["fastest"]
                shape = f"{batch}x{length}"
                result[shape] = {
                    "fastest_ms": {f: t["fastest"] for f, t in times.items()},
                    "median_ms": {f: t["median"] for f, t in times.items()},
                    "ratio": {f: t["fastest"] / base for f, t in times.items()},
                    "torch_to_electra_onnx": others.get(shape),
                }
                print(shape, result[shape]["ratio"], file=sys.stderr)
    return {"shapes": result, "electra": bool(others)}


Call = Callable[[dict[str, Any]], Any]


def _forms(folder: Path, words: list[str], threads: int) -> dict[str, Call]:
    import tensorflow as tf

    import lvbert_tf
    from common.saved_model_session import SavedModelSession
    from export.onnx_graph import export_onnx
    from export.quantization import quantize
    from export.saved_model import export_saved_model

    model = lvbert_tf.LVBertTextClassifier(
        lvbert_tf.LVBertBackbone.from_size("small", vocabulary_size=len(words)),
        len(LABELS),
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(
            lvbert_tf.LVBertTokenizer(words), sequence_length=512
        ),
        labels=LABELS,
    )
    export_saved_model(model, folder / "saved", warm_up=False)
    export_onnx(model, folder / "onnx")
    examples = folder / "examples.tsv"
    rows = "".join(f"w{n} w{n + 1}\t{LABELS[n % 2]}\n" for n in range(16))
    examples.write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    quantize(folder / "onnx", folder / "int8", examples, 100.0, letters="all")
    session = SavedModelSession(folder / "saved" / "1")
    forward = tf.function(lambda inputs: model(inputs, training=False))

    def keras(inputs: dict[str, Any]) -> Any:
        renamed = {
            name.replace("input_ids", "token_ids"): tf.constant(value)
            for name, value in inputs.items()
        }
        return forward(renamed).numpy()

    return {
        "saved_model": lambda inputs: session.run("tokens", inputs),
        "keras": keras,
        "onnx": _onnx(folder / "onnx" / "model.onnx", threads),
        "onnx_int8": _onnx(folder / "int8" / "model.onnx", threads),
    }


def _onnx(file: Path, threads: int) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        str(file), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]

    def call(inputs: dict[str, Any]) -> Any:
        feeds = {name: inputs[name].astype("int64") for name in names}
        return session.run(None, feeds)

    return call


def _inputs(batch: int, length: int, vocabulary_size: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    ids = generator.integers(5, vocabulary_size, (batch, length)).astype("int32")
    return {
        "input_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }


def _electra(
    folder: Path,
    batches: tuple[int, ...],
    lengths: tuple[int, ...],
    most_tokens: int | None,
    threads: int,
) -> dict[str, float]:
    """Exports ELECTRA-small; returns PyTorch's time against its ONNX graph's."""
    python = os.environ.get(_TORCH)
    if not python:
        print(f"{_TORCH} is not set: no ELECTRA to compare with", file=sys.stderr)
        return {}
    done = subprocess.run(
        [
            python,
            str(REPOSITORY / "benchmarks" / "electra_torch.py"),
            str(folder / "electra.onnx"),
            json.dumps([batches, lengths, most_tokens, threads]),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    ratios: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return ratios
