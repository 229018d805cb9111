"""How long one call takes in every form that a model leaves in, and in ELECTRA's.

All in turn in one process, so that a busy machine slows all alike; figures are ratios
to the SavedModel. What float32 products alone would take at the speed that onnxruntime
reaches in one of them is measured too: no float32 graph can be faster. PyTorch does not
fit beside TensorFlow's pins: where ``LVBERT_TORCH_PYTHON`` names the Python of an
environment with torch, transformers and onnx, ELECTRA-small of `transformers` is
exported there and its ONNX graph takes its turn here; its time in PyTorch is measured
there, against that same graph.
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
VOCABULARY_SIZE, WIDTH, INNER_WIDTH = 30522, 256, 1024
ELECTRA = "electra.onnx"
_TORCH = "LVBERT_TORCH_PYTHON"
_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def run(
    batches: tuple[int, ...] = BATCHES,
    lengths: tuple[int, ...] = LENGTHS,
    most_tokens: int | None = None,
    threads: int = 0,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Measures LV-BERT-small as a classifier, random weights.

    Args:
        batches: rows B of the inputs.
        lengths: their tokens T.
        most_tokens: leaves out shapes of more tokens.
        threads: of every runtime, if TensorFlow does not run yet; 0 leaves that to
            each. On a machine that others use, one thread each tells more: those of
            onnxruntime wait for each other.
        folder: what `prepare` filled; None prepares a temporary one.

    Returns:
        For every shape ``BxT`` the milliseconds of each form, the fastest call and the
        median, and the ratios of the fastest to the SavedModel's; ``products_ms``,
        what the model's float32 products take at the speed of one of them.
    """
    if threads:
        for name in _THREADS:
            os.environ[name] = str(threads)
    if folder is None:
        with TemporaryDirectory() as name:
            prepare(Path(name))
            return run(batches, lengths, most_tokens, threads, Path(name))
    forms = _forms(folder, threads)
    others = _torch_ratios(folder, batches, lengths, most_tokens, threads)
    if others:
        forms["electra_onnx"] = _onnx(folder / ELECTRA, threads)
    product = _onnx(_one_product(folder / "product.onnx"), threads)
    result: dict[str, Any] = {}
    for batch in batches:
        for length in lengths:
            if most_tokens and batch * length > most_tokens:
                continue
            inputs = _inputs(batch, length)
            cases = {form: partial(call, inputs) for form, call in forms.items()}
            x = np.ones((batch * length, WIDTH), "float32")
            cases["product"] = partial(product, {"x": x})
            # Long calls need fewer rounds for the same time.
            repetitions = REPETITIONS if batch * length < 2000 else 3
            times = milliseconds(cases, repetitions, warmups=1, settling=1)
            one = times.pop("product")["fastest"]
            share = 2 * x.shape[0] * WIDTH * INNER_WIDTH / (batch * _flops(length))
            base = times["saved_model"]["fastest"]
            shape = f"{batch}x{length}"
            result[shape] = {
                "fastest_ms": {f: t["fastest"] for f, t in times.items()},
                "median_ms": {f: t["median"] for f, t in times.items()},
                "ratio": {f: t["fastest"] / base for f, t in times.items()},
                "products_ms": one / share,
                "torch_to_electra_onnx": others.get(shape),
            }
            print(shape, result[shape]["ratio"], file=sys.stderr)
    return {"shapes": result, "electra": bool(others), "threads": threads}


Call = Callable[[dict[str, Any]], Any]


def prepare(folder: Path) -> None:
    """Exports the model in every form, and ELECTRA's where there is a torch."""
    import lvbert_tf
    from export.onnx_graph import export_onnx
    from export.quantization import quantize
    from export.saved_model import export_saved_model
    from lvbert_tf.vocabulary import SPECIAL_TOKENS

    rest = VOCABULARY_SIZE - len(SPECIAL_TOKENS)
    words = [*SPECIAL_TOKENS, *(f"w{n}" for n in range(rest))]
    model = lvbert_tf.LVBertTextClassifier(
        lvbert_tf.LVBertBackbone.from_size("small", vocabulary_size=len(words)),
        len(LABELS),
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(
            lvbert_tf.LVBertTokenizer(words), sequence_length=512
        ),
        labels=LABELS,
    )
    model.save_to_preset(str(folder / "model"))
    export_saved_model(model, folder / "saved", warm_up=False)
    export_onnx(model, folder / "onnx")
    examples = folder / "examples.tsv"
    rows = "".join(f"w{n} w{n + 1}\t{LABELS[n % 2]}\n" for n in range(16))
    examples.write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    quantize(folder / "onnx", folder / "int8", examples, 100.0, letters="all")
    _torch_ratios(folder, (), (), None, 1)


def _flops(length: int) -> float:
    from lvbert_tf.cost import Dimensions, model_flops

    return model_flops("lv_bert", Dimensions.of_size("small"), length)


def _one_product(file: Path) -> Path:
    """Writes a graph of the inner product of a feed-forward layer."""
    from onnx import TensorProto, helper, numpy_helper, save

    kernel = np.full((WIDTH, INNER_WIDTH), 0.5, "float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "kernel"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", INNER_WIDTH])],
        [numpy_helper.from_array(kernel, "kernel")],
    )
    save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ),
        file,
    )
    return file


def _forms(folder: Path, threads: int) -> dict[str, Call]:
    import tensorflow as tf

    import lvbert_tf
    from common.saved_model_session import SavedModelSession

    model = lvbert_tf.LVBertTextClassifier.from_preset(str(folder / "model"))
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
        feeds = {
            name: inputs[name] if name == "x" else inputs[name].astype("int64")
            for name in names
        }
        return session.run(None, feeds)

    return call


def _inputs(batch: int, length: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    ids = generator.integers(5, VOCABULARY_SIZE, (batch, length)).astype("int32")
    return {
        "input_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }


def _torch_ratios(
    folder: Path,
    batches: tuple[int, ...],
    lengths: tuple[int, ...],
    most_tokens: int | None,
    threads: int,
) -> dict[str, float]:
    """Returns ELECTRA's time in PyTorch against its ONNX graph's, written once."""
    python = os.environ.get(_TORCH)
    if not python:
        print(f"{_TORCH} is not set: no ELECTRA to compare with", file=sys.stderr)
        return {}
    done = subprocess.run(
        [
            python,
            str(REPOSITORY / "benchmarks" / "electra_torch.py"),
            str(folder / ELECTRA),
            json.dumps([batches, lengths, most_tokens, threads]),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    ratios: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return ratios
