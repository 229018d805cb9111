"""Stacks of layers on the runtime whose latency a table tells.

Exports are made by ``python -m export`` in processes of their own: applications meet
in model directories only.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

import lvbert_tf
from common.command_line import CommandError
from lvbert_tf.presets import ModelSize

Array = npt.NDArray[Any]
Stack = Callable[[], Any]
Exporter = Callable[..., dict[str, Any]]

VOCABULARY_SIZE = 1000
"""Looking up costs the same in a table of any size."""
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_POSITIONS = 512


def token_inputs(batch: int, length: int, seed: int) -> dict[str, Array]:
    """Returns random tokens without padding, int32 (B, T) by the backbone's names."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(VOCABULARY_SIZE, size=(batch, length)).astype("int32")
    return {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }


def keras_stack(architecture: str, size: ModelSize, inputs: dict[str, Array]) -> Stack:
    """Returns a function that runs a backbone once and waits for its output."""
    backbone = _backbone(architecture, size, inputs["token_ids"].shape[1])
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    forward = tf.function(lambda: backbone(tensors, training=False), autograph=False)
    return lambda: forward().numpy()


def onnx_stack(
    architecture: str,
    size: ModelSize,
    inputs: dict[str, Array],
    folder: Path,
    *,
    quantized: bool,
    threads: int,
    export: Exporter,
) -> Stack:
    """Exports a classifier on a backbone; returns a function that runs it once.

    Args:
        architecture: its layers.
        size: its size.
        inputs: what it takes.
        folder: a folder that is not there, for the artefacts.
        quantized: whether to give all products 8-bit weights.
        threads: of onnxruntime; 0 takes as many as there are cores.
        export: runs a command of ``python -m export``.

    Raises:
        CommandError: if onnxruntime is missing, or the export fails.
    """
    try:
        import onnxruntime
    except ImportError:
        raise CommandError(
            "--runtime onnx needs onnxruntime, which comes with the extra 'export'"
        ) from None
    length = inputs["token_ids"].shape[1]
    words = [f"w{number}" for number in range(VOCABULARY_SIZE - len(_SPECIAL))]
    classifier = lvbert_tf.LVBertTextClassifier(
        _backbone(architecture, size, length),
        2,
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(
            lvbert_tf.LVBertTokenizer([*_SPECIAL, *words]),
            sequence_length=max(3, length),
        ),
    )
    classifier.save_to_preset(str(folder / "model"))
    artefact = folder / "onnx"
    export("onnx", "--model", folder / "model", "--output", artefact)
    if quantized:
        examples = folder / "examples.tsv"
        rows = "".join(f"w{n} w{n + 1}\t{n % 2}\n" for n in range(16))
        examples.write_text(f"text\tlabel\n{rows}", encoding="utf-8")
        export(
            *("quantize", "--onnx", artefact, "--output", folder / "int8"),
            # Weights are random: there is no accuracy to lose.
            *("--eval", examples, "--max-drop", "100", "--letters", "all"),
        )
        artefact = folder / "int8"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(artefact / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    feeds = {
        name: inputs[keras_name].astype("int64")
        for name, keras_name in (
            ("input_ids", "token_ids"),
            ("segment_ids", "segment_ids"),
            ("padding_mask", "padding_mask"),
        )
    }
    return lambda: session.run(["scores"], feeds)


def _backbone(architecture: str, size: ModelSize, length: int) -> Any:
    return lvbert_tf.LVBertBackbone(
        VOCABULARY_SIZE,
        architecture,
        size.embedding_dim,
        size.hidden_dim,
        size.intermediate_dim,
        size.num_heads,
        kernel_size=size.kernel_size,
        max_sequence_length=max(_POSITIONS, length),
    )


def export_in_new_process(*words: str | Path) -> dict[str, Any]:
    """Runs ``python -m export`` and returns its result.

    Raises:
        CommandError: if it fails, with what it said.
    """
    done = subprocess.run(
        [sys.executable, "-m", "export", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise CommandError(f"python -m export {words[0]} failed: {done.stderr[-1000:]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result
