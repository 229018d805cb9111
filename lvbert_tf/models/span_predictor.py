"""LVBertSpanPredictor: answers questions by spans of a text."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from lvbert_tf.layers.arguments import check_known, check_weights, positive_integers
from lvbert_tf.layers.span_head import SpanHead
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.encoder_task import EncoderTask
from lvbert_tf.models.parts import check_parts
from lvbert_tf.models.rows import text_column, text_list
from lvbert_tf.models.span_decoding import Answer, best_answers, unanswerable_scores
from lvbert_tf.models.span_predictor_preprocessor import LVBertSpanPredictorPreprocessor
from lvbert_tf.models.span_targets import answer_targets

_TARGETS = ("start_positions", "end_positions", "unanswerable")


class SpanPredictor(EncoderTask, keras_hub.models.Task):
    """The kind of task, trained on checked and shuffled arrays."""


@keras.saving.register_keras_serializable(package="lvbert_tf")
class LVBertSpanPredictor(SpanPredictor):
    """A backbone with the official code's joint start and end head for SQuAD.

    Args:
        backbone: the encoder.
        preprocessor: turns questions and contexts into windows; None to pass inputs
            yourself.
        beam_size: starts K that prediction considers.
        intermediate_dim: width of the head's hidden layers.
        unanswerable_weight: weight of the loss of "no answer" (0 for data where every
            question has one).
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: the backbone's inputs; for training also `start_positions`, int32 (B,).

    Returns:
        What `SpanHead` returns.

    `fit` and `evaluate` take `x = {"question": ..., "context": ...}` and
    `y = {"answer_start": ..., "answer_text": ...}`, the character where the answer
    stands and the answer itself; -1 and "" where there is none. `answer` gives answers.
    A context that is longer than a window becomes several windows, so `predict` may
    return more rows than it got questions.

    Raises:
        ValueError: if tokenizer and backbone have vocabularies of different sizes.
    """

    backbone_cls = LVBertBackbone
    preprocessor_cls = LVBertSpanPredictorPreprocessor

    def __init__(
        self,
        backbone: LVBertBackbone,
        preprocessor: Any = None,
        beam_size: int = 20,
        intermediate_dim: int = 512,
        unanswerable_weight: float = 0.5,
        **kwargs: Any,
    ) -> None:
        check_known(self, kwargs)
        check_parts(backbone, preprocessor, LVBertSpanPredictorPreprocessor)
        beam_size, intermediate_dim = positive_integers(
            beam_size=beam_size, intermediate_dim=intermediate_dim
        )
        check_weights(unanswerable_weight=unanswerable_weight)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.span_head = SpanHead(
            beam_size, intermediate_dim, dtype=backbone.dtype_policy, name="span_head"
        )
        # === Functional model ===
        inputs = backbone.input
        outputs = self.span_head(
            backbone(inputs), inputs["segment_ids"], inputs["padding_mask"]
        )
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        # === Config ===
        self.beam_size = beam_size
        self.intermediate_dim = intermediate_dim
        self.unanswerable_weight = unanswerable_weight

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Scores spans; with `start_positions` among the inputs, ends given those."""
        if "start_positions" not in inputs:
            return super().call(inputs, training=training, mask=mask)
        features = {name: inputs[name] for name in self.backbone.input}
        hidden = self.backbone(features, training=training)
        return self.span_head(
            hidden,
            features["segment_ids"],
            features["padding_mask"],
            start_positions=inputs["start_positions"],
            training=training,
        )

    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        metrics: Any = "auto",
        **kwargs: Any,
    ) -> None:
        """Configures training; the loss is the official one.

        Raises:
            ValueError: for any other loss or metrics than "auto".
        """
        # None is what a saved model was compiled with.
        if loss not in ("auto", None) or metrics not in ("auto", None):
            raise ValueError(
                "LVBertSpanPredictor computes its own loss and metrics. Received: "
                f"loss={loss!r}, metrics={metrics!r}; expected 'auto' for both"
            )
        if optimizer == "auto":
            optimizer = keras.optimizers.Adam(5e-5)
        self.accuracies = {
            name: keras.metrics.Mean(name=f"{name}_accuracy")
            for name in ("start", "end", "unanswerable")
        }
        super().compile(optimizer=optimizer, loss=None, metrics=None, **kwargs)

    @property
    def metrics(self) -> list[Any]:
        """Returns the metrics that `fit` and `evaluate` report."""
        return [*super().metrics, *getattr(self, "accuracies", {}).values()]

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Returns the mean over windows of (start + end) / 2 + weight * no answer.

        Args:
            x: unused.
            y: dict of int32 (B,): `start_positions`, `end_positions` (0 for no answer
                in this window) and `unanswerable`, 1 if the question has no answer.
            y_pred: the outputs with `end_logits`.
            sample_weight: (B,) or None.
            training: unused.

        Raises:
            ValueError: if `y` lacks one of the three.
        """
        missing = [n for n in _TARGETS if not isinstance(y, dict) or n not in y]
        if missing or "end_logits" not in y_pred:
            raise ValueError(
                "LVBertSpanPredictor trains on raw questions and contexts through its "
                "preprocessor, or on inputs with `start_positions` and targets "
                f"{', '.join(_TARGETS)}. Received: none of "
                f"{missing or ['start_positions']}"
            )
        losses = self.losses_by_window(y, y_pred)
        if sample_weight is None:
            return ops.mean(losses)
        weights = ops.cast(sample_weight, losses.dtype)
        return ops.sum(losses * weights) / ops.maximum(ops.sum(weights), 1e-6)

    def losses_by_window(self, y: Any, y_pred: Any) -> Any:
        """Returns the official loss of every window, float32 (B,)."""
        crossentropy = keras.losses.sparse_categorical_crossentropy
        start = crossentropy(y["start_positions"], y_pred["start_logits"], True)
        end = crossentropy(y["end_positions"], y_pred["end_logits"], True)
        logit = y_pred["unanswerable_logit"]
        target = ops.cast(y["unanswerable"], logit.dtype)
        none = ops.softplus(logit) - target * logit
        return (start + end) / 2 + self.unanswerable_weight * none

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates and returns the shares of right starts, ends and no-answers."""
        hits = {
            "start": _hits(y_pred["start_logits"], y["start_positions"]),
            "end": _hits(y_pred["end_logits"], y["end_positions"]),
            "unanswerable": ops.equal(
                y_pred["unanswerable_logit"] > 0, ops.cast(y["unanswerable"], "bool")
            ),
        }
        for name, hit in hits.items():
            self.accuracies[name].update_state(hit, sample_weight=sample_weight)
        return {metric.name: metric.result() for metric in self.metrics}

    def _texts(self, x: Any) -> Any:
        if not isinstance(x, Mapping) or not {"question", "context"} <= set(x):
            given = sorted(x) if isinstance(x, Mapping) else type(x).__name__
            raise ValueError(
                "`x` must be a dict with `question` and `context`, each strings (B,). "
                f"Received: x={given}"
            )
        return {name: text_column(x[name], name) for name in ("question", "context")}

    def _targets(self, x: Any, y: Any) -> Any:
        if self.preprocessor is None:
            return super()._targets(x, y)
        return answer_targets(x["context"], y)

    def answer(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        batch_size: int = 32,
        max_answer_length: int = 30,
        n_best: int = 1,
        no_answer_threshold: float | None = None,
    ) -> list[list[Answer]]:
        """Answers every question by spans of its context.

        Args:
            questions: the questions.
            contexts: the texts to search, one for each question.
            batch_size: windows a step.
            max_answer_length: longest answer, in tokens.
            n_best: answers for each question, best first; fewer where there are not
                as many.
            no_answer_threshold: a question whose score of "no answer" is above it gets
                an empty list; None always answers where a span was found. The
                official code uses -2.75 for SQuAD 2.0.

        Warns:
            UserWarning: if questions are longer than `max_question_length` tokens,
                with how many tokens are cut off them.

        Raises:
            ValueError: without a preprocessor, or if the lists differ in length.
        """
        if self.preprocessor is None:
            raise ValueError(
                "`answer` needs a model with a preprocessor. Received: "
                "preprocessor=None"
            )
        batch_size, max_answer_length, n_best = positive_integers(
            batch_size=batch_size, max_answer_length=max_answer_length, n_best=n_best
        )
        questions = text_list(questions, "questions")
        contexts = text_list(contexts, "contexts")
        if len(questions) != len(contexts):
            raise ValueError(
                "Expected as many contexts as questions. Received: "
                f"{len(questions)} questions and {len(contexts)} contexts"
            )
        cut = self.preprocessor.question_tokens_cut(questions)
        if cut:
            warnings.warn(
                f"questions are cut to {self.preprocessor.max_question_length} tokens, "
                f"the preprocessor's `max_question_length`: {cut} tokens are lost",
                stacklevel=2,
            )
        scored = self._answers(
            questions, contexts, batch_size, max_answer_length, n_best
        )
        return [
            []
            if no_answer_threshold is not None and score > no_answer_threshold
            else answers
            for answers, score in scored
        ]

    def answers_and_scores(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        batch_size: int = 32,
        max_answer_length: int = 30,
        n_best: int = 1,
    ) -> list[tuple[list[Answer], float]]:
        """Answers questions, and scores that there is no answer for each.

        As `answer` without a threshold and without its warning; a question whose spans
        are all impossible gets an empty list, and a score all the same.
        """
        return list(
            self._answers(questions, contexts, batch_size, max_answer_length, n_best)
        )

    def _answers(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        batch_size: int,
        max_answer_length: int,
        n_best: int,
    ) -> Iterator[tuple[list[Answer], float]]:
        # Scores of ends take K * T numbers a window: a few windows at a time.
        for first in range(0, len(questions), batch_size):
            part = slice(first, first + batch_size)
            windows = self.preprocessor.windows(questions[part], contexts[part])
            rows = len(windows.example)
            outputs = [
                keras.tree.map_structure(
                    ops.convert_to_numpy,
                    keras.Model.predict_on_batch(
                        self,
                        {n: v[i : i + batch_size] for n, v in windows.inputs.items()},
                    ),
                )
                for i in range(0, rows, batch_size)
            ]
            merged = {
                name: np.concatenate([output[name] for output in outputs])
                for name in (outputs[0] if outputs else ())
            }
            answers = best_answers(
                merged,
                windows,
                contexts[part],
                max_answer_length=max_answer_length,
                n_best=n_best,
            )
            scores = unanswerable_scores(merged, windows, len(contexts[part]))
            yield from zip(answers, scores, strict=True)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "beam_size": self.beam_size,
            "intermediate_dim": self.intermediate_dim,
            "unanswerable_weight": self.unanswerable_weight,
        }


def _hits(logits: Any, positions: Any) -> Any:
    return ops.equal(ops.argmax(logits, axis=-1), ops.cast(positions, "int32"))
