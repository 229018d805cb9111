"""Exporting span predictors: questions and contexts to answers with offsets."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from export.heads.base import Array, EncodedGraph, Head, keras_names
from export.signatures import BATCH, SEQUENCE, TOKEN_INPUTS, Tensor

if TYPE_CHECKING:
    from export.parity import Case
    from export.task import Task

MAX_ANSWER_LENGTH = 30
"""Longest answer in tokens, as in the official code."""
_IMPOSSIBLE = -1e9


class SpanPredictorHead(Head):
    """`LVBertSpanPredictor`: scores of spans, or the best answer in a context."""

    kind = "span_predictor"
    model_class = "LVBertSpanPredictor"
    title = "span predictor"

    def text_input_names(self, task: "Task") -> tuple[str, ...]:
        """Returns ``question`` and ``context``."""
        return ("question", "context")

    def token_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns what the Keras model gives: (B, T), (B,), (B, K) and (B, K, T)."""
        beam = task.beam_size
        return (
            Tensor("start_logits", "float32", (BATCH, SEQUENCE)),
            Tensor("unanswerable_logit", "float32", (BATCH,)),
            Tensor("start_index", "int32", (BATCH, beam)),
            Tensor("start_log_probs", "float32", (BATCH, beam)),
            Tensor("end_log_probs", "float32", (BATCH, beam, SEQUENCE)),
        )

    def text_outputs(self, task: "Task") -> tuple[Tensor, ...]:
        """Returns the answer, its characters, its score and that of "no answer"."""
        return (
            Tensor("score", "float32", (BATCH,)),
            Tensor("unanswerable_score", "float32", (BATCH,)),
            Tensor("answer", "string", (BATCH,)),
            Tensor("start", "int32", (BATCH,)),
            Tensor("end", "int32", (BATCH,)),
        )

    def compute(
        self, model: Any, task: "Task", inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Computes scores of spans."""
        import tensorflow as tf

        outputs = model(keras_names(inputs), training=False)
        dtypes = {tensor.name: tensor.dtype for tensor in self.token_outputs(task)}
        return {name: tf.cast(outputs[name], dtype) for name, dtype in dtypes.items()}

    def finish(self, task: "Task", outputs: dict[str, Any], length: Any) -> Any:
        """Cuts logits and log-probabilities to as many tokens as were given."""
        return {
            **outputs,
            "start_logits": outputs["start_logits"][:, :length],
            "end_log_probs": outputs["end_log_probs"][:, :, :length],
        }

    def text_answer(self, graph: Any, texts: Sequence[Any]) -> dict[str, Any]:
        """Looks through all windows of each context for the best span."""
        import tensorflow as tf

        from export.inference_graph import equally_many

        texts = [
            tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
            for text in equally_many(texts, self.text_input_names(graph.task))
        ]
        windows = graph.model.preprocessor.window_tensors(*texts)
        inputs = {
            name: windows.inputs[keras]
            for name, keras in zip(
                TOKEN_INPUTS, keras_names(dict.fromkeys(TOKEN_INPUTS)), strict=True
            )
        }
        outputs = graph.run(inputs)
        rows = tf.shape(texts[0])[0]
        found, score, start, end = best_spans(outputs, windows, rows, graph.task)
        answer = tf.strings.substr(
            tf.where(found, texts[1], ""),
            tf.where(found, start, 0),
            tf.where(found, end - start, 0),
            unit="UTF8_CHAR",
        )
        unanswerable = tf.math.unsorted_segment_min(
            outputs["unanswerable_logit"], windows.example, rows
        )
        return {
            "answer": answer,
            "start": tf.where(found, start, -1),
            "end": tf.where(found, end, -1),
            "score": tf.where(found, score, 0.0),
            "unanswerable_score": unanswerable,
            "truncated": windows.question_tokens_cut > 0,
        }

    def emit(self, graph: "EncodedGraph") -> dict[str, str]:
        """Writes the head of `lvbert_tf.layers.span_head`."""
        from export.heads.span_nodes import emit_span_head

        return emit_span_head(
            graph.builder, graph.model.span_head, graph.hidden, graph.inputs
        )

    def keras_outputs(
        self, model: Any, task: "Task", inputs: dict[str, Array]
    ) -> dict[str, Array]:
        """Returns the outputs of the model as arrays."""
        outputs = model(inputs, training=False)
        return {
            tensor.name: np.asarray(outputs[tensor.name], dtype=tensor.dtype)
            for tensor in self.token_outputs(task)
        }

    def comparable(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Leaves out spans that cannot be answers, and sorts ends by their starts.

        What the head takes from those, 1000, has rounding errors larger than any
        tolerance. Beams of equal probability may come in either order: a start stands
        where its token does, not where its beam is.
        """
        if "start_logits" not in outputs:
            return dict(outputs)
        possible = (inputs["segment_ids"] * inputs["padding_mask"]) > 0
        possible[:, 0] = True
        rows, width = possible.shape
        starts = np.zeros((rows, width), "float32")
        ends = np.zeros((rows, width, width), "float32")
        for row in range(rows):
            for beam, token in enumerate(outputs["start_index"][row]):
                if token < width and possible[row, token]:
                    log_prob = outputs["start_log_probs"][row, beam]
                    if log_prob > -1e3:  # a beam with a token
                        starts[row, token] = log_prob
                        ends[row, token] = np.where(
                            possible[row], outputs["end_log_probs"][row, beam], 0
                        )
        return {
            "start_logits": np.where(possible, outputs["start_logits"], 0),
            "unanswerable_logit": outputs["unanswerable_logit"],
            "start_log_probs": starts,
            "end_log_probs": ends,
        }

    def text_cases(self, model: Any, task: "Task", seed: int = 0) -> "list[Case]":
        """Returns questions with contexts of one and of several windows."""
        from export.parity import Case, reference_texts, text_arrays

        texts = reference_texts(
            model.preprocessor.tokenizer.get_vocabulary(), task.sequence_length, seed
        )
        questions = [texts[1], texts[0], texts[4], texts[3]]
        contexts = [texts[2], texts[7], texts[4], texts[3]]
        names = self.text_input_names(task)
        with warnings.catch_warnings():
            # One question is longer than the model takes, so that cutting is compared.
            warnings.filterwarnings("ignore", "questions are cut", UserWarning)
            found = model.answer(
                questions, contexts, max_answer_length=MAX_ANSWER_LENGTH, n_best=2
            )
        scores = np.array([a[0].score if a else 0 for a in found], "float32")
        cases = [
            Case("texts", text_arrays(names, [questions, contexts]), {"score": scores})
        ]
        # Where another span is as good, either may be given.
        certain = [
            row
            for row, answers in enumerate(found)
            if len(answers) == 1 or (answers and _far(answers[0], answers[1]))
        ]
        if certain:
            columns = [
                [texts[row] for row in certain] for texts in (questions, contexts)
            ]
            outputs = {
                "start": np.array([found[row][0].start for row in certain], "int32"),
                "end": np.array([found[row][0].end for row in certain], "int32"),
            }
            cases.append(Case("answers", text_arrays(names, columns), outputs))
        return cases

    def check_answers(
        self, case: "Case", answer: Mapping[str, Array], task: "Task"
    ) -> None:
        """Checks that answers are what stands at their characters."""
        from export.parity import LabelMismatchError

        if "answer" not in answer:
            return
        for text, start, end, found in zip(
            case.inputs["context"],
            answer["start"],
            answer["end"],
            answer["answer"],
            strict=True,
        ):
            expected = text.decode("utf-8", "ignore")[max(0, start) : max(0, end)]
            if found.decode("utf-8") != expected:
                raise LabelMismatchError(
                    f"{case.name}: expected {expected!r} at {start} to {end}. "
                    f"Received: {found!r}"
                )


def _far(best: Any, second: Any) -> bool:
    return bool(best.score - second.score > 1e-3)


def best_spans(
    outputs: Mapping[str, Any], windows: Any, rows: Any, task: "Task"
) -> tuple[Any, Any, Any, Any]:
    """Returns the best span of every context by the rules of `best_answers`.

    Args:
        outputs: of the model, first axis W.
        windows: what `window_tensors` gave.
        rows: the number of contexts B.
        task: what the model does.

    Returns:
        Whether there is one, bool (B,); its score, float32 (B,); its first character
        and the one behind its last, int32 (B,).
    """
    import tensorflow as tf

    width = task.sequence_length
    starts = outputs["start_index"]  # (W, K)
    starts_at = tf.gather(windows.character_start, starts, batch_dims=1)
    allowed = (starts_at >= 0) & tf.gather(
        windows.has_most_context, starts, batch_dims=1
    )
    # As many ends as starts, as the official code keeps of each.
    likely, ends = tf.math.top_k(
        outputs["end_log_probs"], min(task.beam_size, width)
    )  # (W, K, K)
    ends_at = tf.gather(windows.character_end, ends, batch_dims=1)
    begin = starts[:, :, tf.newaxis]
    allowed = (
        allowed[:, :, tf.newaxis]
        & (ends_at >= 0)
        & (ends >= begin)
        & (ends < begin + MAX_ANSWER_LENGTH)
    )
    score = tf.where(
        allowed, outputs["start_log_probs"][:, :, tf.newaxis] + likely, _IMPOSSIBLE
    )
    beams = tf.shape(score)[2]
    flat = tf.reshape(score, [tf.shape(score)[0], tf.shape(score)[1] * beams])
    of_window = tf.reduce_max(flat, axis=1)  # (W,)
    best = tf.math.unsorted_segment_max(of_window, windows.example, rows)  # (B,)
    # The first window that has it.
    index = tf.range(tf.shape(of_window)[0])
    is_best = of_window >= tf.gather(best, windows.example)
    window = tf.math.unsorted_segment_min(
        tf.where(is_best, index, tf.size(index)), windows.example, rows
    )
    window = tf.minimum(window, tf.maximum(tf.size(index) - 1, 0))
    at = tf.argmax(tf.gather(flat, window), axis=1, output_type=tf.int32)
    start = tf.gather(tf.gather(starts_at, window), at // beams, batch_dims=1)
    ends_flat = tf.reshape(ends_at, tf.shape(flat))
    end = tf.gather(tf.gather(ends_flat, window), at, batch_dims=1)
    return best > _IMPOSSIBLE / 2, best, start, end
