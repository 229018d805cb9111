"""What an ONNX classifier scores on labelled examples, and how fast it is there."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.command_line import CommandError, UsageError
from common.labelled_tables.examples import LabelledExample
from export.onnx_parity import TOKENIZER_FILE, onnx_outputs
from export.signatures import TOKEN_INPUTS, onnx_signature
from export.task import Task

Array = npt.NDArray[Any]
Batch = dict[str, Array]


class MetricDropError(CommandError):
    """A cheaper artefact is worse than allowed."""


@dataclass(frozen=True)
class Evaluation:
    """Labelled examples as a model takes them.

    Attributes:
        task: what the model does.
        examples: texts and labels.
        batches: their token inputs, several at a time, in order.
        single: token inputs of one example, for latencies.
    """

    task: Task
    examples: Sequence[LabelledExample]
    batches: Sequence[Batch]
    single: Batch

    def scores(self, model_file: Path) -> Array:
        """Returns float32 (examples, C)."""
        run = onnx_outputs(model_file, onnx_signature(self.task))
        return np.concatenate([run(batch)["scores"] for batch in self.batches])

    def metric(self, scores: Array) -> tuple[str, float]:
        """Returns name and value, in percent, of the metric that suits the task."""
        if not np.isfinite(scores).all():
            raise MetricDropError("the graph gives scores that are not finite")
        if not self.task.regression:
            labels = np.array(self.task.labels)[scores.argmax(axis=-1)]
            gold = np.array([example.label for example in self.examples])
            return "accuracy", 100 * float(np.mean(labels == gold))
        gold = np.array([float(example.label) for example in self.examples])
        values = scores[:, 0].astype("float64")
        if len(gold) < 2 or np.ptp(gold) == 0 or np.ptp(values) == 0:
            raise UsageError(
                "--eval: expected at least two examples whose labels, and whose "
                "scores, are not all the same: the correlation is undefined"
            )
        return "pearson", 100 * float(np.corrcoef(values, gold)[0, 1])


def evaluation(
    source: Path,
    task: Task,
    examples: Sequence[LabelledExample],
    batch_size: int,
    sequence_length: int | None,
) -> Evaluation:
    """Tokenizes examples with an artefact's own tokenizer.

    Args:
        source: directory of the artefact.
        task: what it does.
        examples: texts and labels.
        batch_size: examples at a time.
        sequence_length: tokens of the input for latencies; None takes the median of
            the examples.
    """
    batches = list(token_batches(source, task, examples, batch_size))
    lengths = [
        int(length) for batch in batches for length in batch["padding_mask"].sum(axis=1)
    ]
    width = sequence_length or round(statistics.median(lengths))
    if width > task.longest_input:
        raise UsageError(
            f"--sequence-length: expected at most {task.longest_input}. "
            f"Received: {width}"
        )
    width = task.sequence_length if task.fixed_length else width
    row = np.resize(
        np.concatenate(
            [batch["input_ids"][batch["padding_mask"] > 0] for batch in batches]
        ),
        (1, width),
    )
    single = {
        "input_ids": row,
        "segment_ids": np.zeros_like(row),
        "padding_mask": np.ones_like(row),
    }
    return Evaluation(task, examples, batches, single)


def token_batches(
    source: Path, task: Task, examples: Sequence[LabelledExample], batch_size: int
) -> Iterator[Batch]:
    """Turns examples into token inputs with an artefact's own tokenizer."""
    import tensorflow as tf
    import tokenizers

    from lvbert_tf.models.packing import pack_segments

    tokenizer = tokenizers.Tokenizer.from_file(str(source / TOKENIZER_FILE))
    special = tokenizer.get_vocab()
    for start in range(0, len(examples), batch_size):
        columns = zip(
            *(example.texts for example in examples[start : start + batch_size]),
            strict=True,
        )
        segments = [
            tf.ragged.constant(
                [
                    encoding.ids
                    for encoding in tokenizer.encode_batch(
                        list(column), add_special_tokens=False
                    )
                ],
                dtype=tf.int32,
                ragged_rank=1,
            )
            for column in columns
        ]
        packed = pack_segments(
            *segments,
            sequence_length=task.sequence_length if task.fixed_length else None,
            max_sequence_length=task.sequence_length,
            cls_token_id=special["[CLS]"],
            sep_token_id=special["[SEP]"],
            pad_token_id=task.pad_token_id,
        )
        yield {
            name: tensor.numpy()
            for name, tensor in zip(TOKEN_INPUTS, packed, strict=True)
        }
