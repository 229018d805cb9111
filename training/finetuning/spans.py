"""Question answering as a problem to train: windows in, spans of the context out."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from common.command_line import UsageError
from lvbert_tf import LVBertSpanPredictor, LVBertSpanPredictorPreprocessor
from training.finetuning.classifier import pads_freely, warn_of_untrained_positions
from training.finetuning.experiment import FinetuneExperiment
from training.finetuning.pretrained import Pretrained
from training.finetuning.squad_files import Question
from training.finetuning.task_data import TaskData
from training.metrics.squad import OFFICIAL_THRESHOLD, evaluate_v1, evaluate_v2
from training.run.progress import Progress

_CHUNK = 64
_INPUTS = ("token_ids", "segment_ids", "padding_mask")
_TARGETS = ("start_positions", "end_positions", "unanswerable")


class SpanProblem:
    """A span predictor on a pretrained encoder, with its questions; see `Problem`.

    Args:
        settings: of the experiment.
        start: the pretrained model.
        data: the questions.
    """

    chance: float | None = None
    counts_hits = True

    def __init__(
        self, settings: FinetuneExperiment, start: Pretrained, data: TaskData
    ) -> None:
        self._settings = settings
        self.data = data
        self.metric = data.task.metric
        self.has_unanswerable = data.task.name != "squad1" and any(
            not question.answers for question in (*data.train, *data.dev)
        )
        preprocessor = _preprocessor(settings, start)
        self.width = preprocessor.sequence_length
        self.pads_freely = pads_freely(start.backbone)
        self.model = LVBertSpanPredictor(
            start.backbone,
            preprocessor=preprocessor,
            beam_size=settings.span.beam_size,
            unanswerable_weight=0.5 if self.has_unanswerable else 0.0,
        )
        if settings.run.class_weights != "none" or settings.run.label_smoothing:
            raise UsageError(
                "run.class_weights and run.label_smoothing: expected none and 0 for "
                f"span tasks, found {settings.run.class_weights} and "
                f"{settings.run.label_smoothing}"
            )
        warn_of_untrained_positions(start, self.width)
        self._windows = _training_windows(preprocessor, data.train)
        self._cut = {
            name: cut_question_tokens(preprocessor, part, name)
            for name, part in (("train", data.train), ("dev", data.dev))
        }
        self.lengths = self._windows["padding_mask"].sum(axis=1).astype(np.int64)
        self._answers: tuple[dict[str, str], dict[str, float]] = ({}, {})

    def batch(self, rows: Sequence[int] | Any, width: int) -> tuple[Any, Any]:
        """Returns inputs and targets of training windows."""
        width = width if self.pads_freely else self.width
        inputs = {name: self._windows[name][rows, :width] for name in _INPUTS}
        targets = {name: self._windows[name][rows] for name in _TARGETS}
        inputs["start_positions"] = targets["start_positions"]
        return inputs, targets

    def losses(self, inputs: Any, targets: Any, training: bool) -> tuple[Any, Any]:
        """Returns each window's official loss, and whether start and end are right."""
        outputs = self.model(inputs, training=training)
        losses = self.model.losses_by_window(targets, outputs)
        hits = (
            tf.argmax(outputs["start_logits"], axis=-1, output_type=tf.int32)
            == targets["start_positions"]
        ) & (
            tf.argmax(outputs["end_logits"], axis=-1, output_type=tf.int32)
            == targets["end_positions"]
        )
        return losses, tf.cast(hits, tf.float32)

    def evaluate(self, label: str) -> dict[str, Any]:
        """Returns the official figures of the dev questions, in percent.

        Of SQuAD 2.0 those at the official threshold, and the best ones with theirs.
        """
        dev: Sequence[Question] = self.data.dev
        length = self._settings.span.max_answer_length
        predictions, scores = predict_answers(self.model, dev, length, label)
        self._answers = (predictions, scores)
        gold = {question.id: list(question.answers) for question in dev}
        distinct = len(set(predictions.values()))
        shared = {"degenerate": distinct == 1 and len(dev) > 1}
        if not self.has_unanswerable:
            return {**evaluate_v1(gold, predictions), **shared}
        return {**evaluate_v2(gold, predictions, scores, OFFICIAL_THRESHOLD), **shared}

    def report(self, seed: int) -> dict[str, Any]:
        """Returns the files of predictions and scores of "no answer"."""
        predictions, scores = self._answers
        return {
            "files": {
                "predictions.json": json.dumps(predictions, indent=1) + "\n",
                "null_odds.json": json.dumps(scores, indent=1) + "\n",
            }
        }

    def provenance(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Returns what the stored model says of itself: the tuned threshold, too."""
        return {
            "no_answer_threshold": figures.get("best_f1_thresh"),
            "max_answer_length": self._settings.span.max_answer_length,
        }

    def summary(self) -> dict[str, Any]:
        """Returns how many windows there are, and which lack their answer."""
        windows = self._windows
        without = (windows["start_positions"] == 0) & (windows["unanswerable"] == 0)
        return {
            "train": {
                "questions": len(self.data.train),
                "windows": len(self.lengths),
                "windows_without_the_whole_answer": int(without.sum()),
                "question_tokens_cut": self._cut["train"],
            },
            "dev": {
                "questions": len(self.data.dev),
                "question_tokens_cut": self._cut["dev"],
            },
        }

    def store(self, path: Path) -> None:
        """Writes the model as a preset directory."""
        stored = LVBertSpanPredictor(
            self.model.backbone,
            preprocessor=self.model.preprocessor,
            beam_size=self.model.beam_size,
            unanswerable_weight=self.model.unanswerable_weight,
        )
        stored.span_head.set_weights(self.model.span_head.get_weights())
        stored.save_to_preset(str(path))


def predict_answers(
    model: Any, questions: Sequence[Question], max_answer_length: int, label: str
) -> tuple[dict[str, str], dict[str, float]]:
    """Returns the best answer of each question, "" where there is none, and its score.

    The score is that of "no answer": the higher, the likelier there is none.
    """
    predictions: dict[str, str] = {}
    scores: dict[str, float] = {}
    with Progress(len(questions), "questions", label) as progress:
        for first in range(0, len(questions), _CHUNK):
            part = questions[first : first + _CHUNK]
            answered = model.answers_and_scores(
                [question.question for question in part],
                [question.context for question in part],
                max_answer_length=max_answer_length,
            )
            for question, (answers, score) in zip(part, answered, strict=True):
                predictions[question.id] = answers[0].text if answers else ""
                scores[question.id] = score
            progress.update(len(part))
    return predictions, scores


def _preprocessor(
    settings: FinetuneExperiment, start: Pretrained
) -> LVBertSpanPredictorPreprocessor:
    longest = start.backbone.max_sequence_length
    length = settings.run.sequence_length or min(512, longest)
    if length > longest:
        raise UsageError(
            f"run.sequence_length: the model has {longest} positions, found {length}"
        )
    question = settings.span.max_question_length or min(64, max(1, length // 4))
    room = max(1, length - question - 3)
    stride = settings.span.stride or min(128, max(1, room // 2))
    try:
        return LVBertSpanPredictorPreprocessor(
            start.tokenizer,
            sequence_length=length,
            stride=stride,
            max_question_length=question,
        )
    except ValueError as error:
        raise UsageError(
            f"run.sequence_length, span.stride, span.max_question_length: {error}"
        ) from error


def _training_windows(
    preprocessor: LVBertSpanPredictorPreprocessor, questions: Sequence[Question]
) -> dict[str, Any]:
    """Returns inputs and targets of all windows, int32."""
    parts: list[dict[str, Any]] = []
    for first in range(0, len(questions), _CHUNK):
        chunk = questions[first : first + _CHUNK]
        x = {
            "question": tf.constant([q.question for q in chunk]),
            "context": tf.constant([q.context for q in chunk]),
        }
        y = {
            "answer_start": tf.constant([q.answer_start for q in chunk]),
            "answer_text": tf.constant(
                [q.answers[0] if q.answers else "" for q in chunk]
            ),
        }
        inputs, targets = preprocessor(x, y=y)
        arrays = {**inputs, **targets}
        parts.append({name: np.asarray(arrays[name]) for name in (*_INPUTS, *_TARGETS)})
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def cut_question_tokens(
    preprocessor: LVBertSpanPredictorPreprocessor,
    questions: Sequence[Question],
    part: str,
) -> int:
    """Returns how many tokens questions lose to their limit, and warns of them.

    Args:
        preprocessor: with the limit.
        questions: the questions.
        part: what the warning calls them.
    """
    cut = preprocessor.question_tokens_cut([q.question for q in questions])
    if cut:
        print(
            f"warning: {part}: questions longer than "
            f"{preprocessor.max_question_length} tokens are cut ({cut} tokens in all; "
            "--set span.max_question_length=N)",
            file=sys.stderr,
        )
    return cut
