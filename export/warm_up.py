"""Warm-up requests, which TensorFlow Serving runs before it serves a version.

Without them the first requests pay for the session's set-up. A record that fails makes
the server refuse the version, so they are written from the table of signatures and
parsed and tried before the version is published.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from common.command_line import UsageError
from export.heads import head_of
from export.signatures import (
    CLASSIFY,
    SCORES_ONLY,
    SERVING_DEFAULT,
    TOKENS,
    saved_model_signatures,
)
from export.task import Task

BATCHING_FILE = Path("assets.extra") / "batching.config"
WARM_UP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MAX_RECORDS = 1000
_SHORT_TOKENS = 8


def stubs_installed() -> bool:
    """Whether tensorflow-serving-api is there."""
    return find_spec("tensorflow_serving") is not None


def write_warm_up(
    directory: Path, model_name: str, task: Task, batch_sizes: Sequence[int]
) -> int:
    """Writes a short and a longest request for every signature and batch size.

    Args:
        directory: the version's folder.
        model_name: what the server will call the model.
        task: what the model does.
        batch_sizes: rows of the requests: the server's allowed batch sizes.

    Returns:
        The number of records.

    Raises:
        UsageError: if the stubs are missing, or there would be too many records.
    """
    if not stubs_installed():
        raise UsageError(
            "--warm-up needs tensorflow-serving-api, which is not installed "
            "(it comes with the extra 'serving')"
        )
    sizes = sorted(set(batch_sizes))
    if not sizes or sizes[0] < 1:
        raise UsageError(
            "--warm-up-batch-sizes: expected integers of at least 1. "
            f"Received: {list(batch_sizes)}"
        )
    records = [
        log.SerializeToString()
        for size in sizes
        for log in _requests(model_name, task, size)
    ]
    if len(records) > MAX_RECORDS:
        raise UsageError(
            f"--warm-up-batch-sizes: TensorFlow Serving reads {MAX_RECORDS} records "
            f"at most. Received: {len(sizes)} sizes, which make {len(records)}"
        )
    (directory / BATCHING_FILE).parent.mkdir(exist_ok=True)
    (directory / BATCHING_FILE).write_text(_batching_config(sizes), encoding="utf-8")
    path = directory / WARM_UP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return len(records)


def _batching_config(sizes: Sequence[int]) -> str:
    """Returns batching parameters that allow exactly the sizes that are warmed up."""
    lines = [
        "# For --batching_parameters_file: exactly the sizes that this version's",
        "# warm-up requests have. Never pad_variable_length_inputs: it pads input_ids",
        "# with [CLS] and padding_mask with 1.",
        f"max_batch_size {{ value: {max(sizes)} }}",
        "batch_timeout_micros { value: 0 }",
        "num_batch_threads { value: 2 }",
        "max_enqueued_batches { value: 64 }",
        *(f"allowed_batch_sizes: {size}" for size in sizes),
    ]
    return "\n".join(lines) + "\n"


def _requests(model_name: str, task: Task, size: int) -> Iterator[Any]:
    from tensorflow_serving.apis import prediction_log_pb2

    short = min(_SHORT_TOKENS, task.sequence_length)
    names = head_of(task).text_input_names(task)
    signatures = saved_model_signatures(task)
    for tokens in sorted({short, task.sequence_length}):
        # A full stop is one token, whatever the vocabulary.
        text = " ".join(["."] * max(1, tokens - 2)).encode()
        texts = np.array([text] * size, dtype=object)
        inputs = {
            SERVING_DEFAULT: dict.fromkeys(names, texts),
            SCORES_ONLY: dict.fromkeys(names, texts),
            TOKENS: _token_rows(task, size, tokens),
        }
        for signature, arrays in inputs.items():
            if signature not in signatures:
                continue
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = model_name
            request.model_spec.signature_name = signature
            for name, array in arrays.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
            yield log
        if CLASSIFY not in signatures:
            continue
        log = prediction_log_pb2.PredictionLog()
        classify = log.classify_log.request
        classify.model_spec.name = model_name
        classify.model_spec.signature_name = CLASSIFY
        for _ in range(size):
            example = classify.input.example_list.examples.add()
            for name in names:
                example.features.feature[name].bytes_list.value.append(text)
        yield log


def _token_rows(task: Task, size: int, tokens: int) -> dict[str, npt.NDArray[np.int32]]:
    ones = np.ones((size, tokens), dtype="int32")
    batch = {
        "input_ids": ones * task.pad_token_id,
        "segment_ids": ones * 0,
        "padding_mask": ones,
    }
    return {**batch, **head_of(task).more_inputs(task, batch)}
