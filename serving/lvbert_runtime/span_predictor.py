"""Questions and contexts to answers with the characters they stand at."""

import unicodedata
from collections.abc import Sequence
from typing import Any

from .artefact import Fields
from .inputs import InputError, whole_number, without_surrogates
from .model import Array, OnnxModel, Row
from .spans import Window, best_spans, windows_of

MAX_ANSWER_LENGTH = 30


class OnnxSpanPredictor(OnnxModel):
    """A span predictor that takes raw text; arguments as those of `OnnxModel`."""

    kind = "span_predictor"

    def _read_task(self, task: Fields) -> None:
        super()._read_task(task)
        self._stride = task.integer("stride", 1)
        # Beside the question a window needs room for a token of the context.
        longest = self._sequence_length - 4
        self._max_question = task.integer("max_question_length", 0, longest)

    def answer(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        n_best: int = 1,
        max_answer_length: int = MAX_ANSWER_LENGTH,
        batch_size: int = 32,
    ) -> list[dict[str, Any]]:
        """Answers every question by spans of its context, however long that is.

        Args:
            questions: the questions.
            contexts: the texts to search, one for each question.
            n_best: answers for each question, best first; fewer where there are not as
                many.
            max_answer_length: longest answer, in tokens.
            batch_size: windows computed at a time.

        Returns:
            For each ``{"answers": [...], "unanswerable_score": float, "truncated":
            bool}``. An answer is ``{"text", "start", "end", "score"}``: the text is
            ``context[start:end]`` (of a context without lone surrogates), the score a
            log-probability. ``unanswerable_score`` is the least logit of "no answer";
            ``truncated`` says that tokens of the question were cut.

        Raises:
            InputError: if an argument is not as described.
        """
        n_best = whole_number("n_best", n_best, 1)
        max_answer_length = whole_number("max_answer_length", max_answer_length, 1)
        asked = self._encode("questions", questions)
        given = self._encode("contexts", contexts)
        if len(asked) != len(given):
            raise InputError(
                f"contexts: expected as many as questions, {len(asked)}. "
                f"Received: {len(given)}"
            )
        windows: list[Window] = []
        rows: list[Row] = []
        for index, (question, context) in enumerate(zip(asked, given, strict=True)):
            kept = question.ids[: self._max_question]
            for window in windows_of(
                index, len(kept), len(context.ids), self._sequence_length, self._stride
            ):
                windows.append(window)
                rows.append(self._window_row(kept, context.ids, window))
        outputs: list[dict[str, Array]] = [{} for _ in rows]
        for chosen, batch in self._batches(rows, batch_size):
            computed = self._run(batch)
            for position, index in enumerate(chosen):
                outputs[index] = {
                    name: values[position] for name, values in computed.items()
                }
        answers = []
        for index, (question, text) in enumerate(zip(asked, contexts, strict=True)):
            own = [i for i, window in enumerate(windows) if window.example == index]
            clean = without_surrogates(text)
            spans = best_spans(
                [outputs[i] for i in own],
                [windows[i] for i in own],
                offsets_of(clean, given[index]),
                max_answer_length,
                20 * n_best,  # several may read the same
            )
            answers.append(
                {
                    "answers": _distinct(clean, spans)[:n_best],
                    "unanswerable_score": min(
                        float(outputs[i]["unanswerable_logit"]) for i in own
                    ),
                    "truncated": len(question.ids) > self._max_question,
                }
            )
        return answers

    def _window_row(
        self, question: list[int], context: list[int], window: Window
    ) -> Row:
        head = [self._cls_id, *question, self._sep_id]
        shown = context[window.start : window.start + window.length]
        tail = [*shown, self._sep_id]
        return head + tail, [0] * len(head) + [1] * len(tail)


def _distinct(
    context: str, spans: Sequence[tuple[float, int, int]]
) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for score, start, end in spans:
        text = context[start:end]
        if text.strip() and text not in found:
            found[text] = {"text": text, "start": start, "end": end, "score": score}
    return list(found.values())


def offsets_of(text: str, encoding: Any) -> list[tuple[int, int]]:
    """Returns first and last-but-one characters of tokens, as the served graph does.

    Characters that became nothing, like combining accents, belong to what they follow.
    """
    offsets = [(int(start), int(end)) for start, end in encoding.offsets]
    limits = [start for start, _ in (*offsets[1:], (len(text), 0))][: len(offsets)]
    result = []
    for (start, end), limit in zip(offsets, limits, strict=True):
        while end < limit and _becomes_nothing(text[end]):
            end += 1
        result.append((start, end))
    return result


def _becomes_nothing(character: str) -> bool:
    dropped = unicodedata.category(character) in ("Mn", "Cc", "Cf", "Co", "Cs", "Cn")
    return character == "\ufffd" or (dropped and character not in "\t\n\r")
