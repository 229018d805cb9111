"""Questions and contexts in, answers out."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import (
    LVBertBackbone,
    LVBertSpanPredictor,
    LVBertSpanPredictorPreprocessor,
    LVBertTokenizer,
)
from tests.paths import REPOSITORY

NAMES = ["anna", "bert", "carl", "dora"]
PLACES = ["paris", "rome", "oslo", "lima"]
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("where", "is", "in", "the", "a", "and", "?", ".", "of", "town", "old", "##s"),
    *NAMES,
    *PLACES,
]


def _preprocessor(**kwargs: Any) -> LVBertSpanPredictorPreprocessor:
    arguments: dict[str, Any] = {
        "sequence_length": 24,
        "stride": 6,
        "max_question_length": 6,
        **kwargs,
    }
    return LVBertSpanPredictorPreprocessor(LVBertTokenizer(VOCABULARY), **arguments)


def _predictor(**kwargs: Any) -> LVBertSpanPredictor:
    keras.utils.set_random_seed(0)
    backbone = LVBertBackbone(
        len(VOCABULARY), "csf", 16, 32, 64, 2, dropout=0.0, attention_dropout=0.0
    )
    arguments: dict[str, Any] = {
        "preprocessor": _preprocessor(),
        "beam_size": 4,
        "intermediate_dim": 16,
        **kwargs,
    }
    return LVBertSpanPredictor(backbone, **arguments)


def _examples() -> tuple[dict[str, list[str]], dict[str, list[Any]]]:
    """Sixteen questions after a place; a fourth of them without an answer."""
    questions, contexts, starts, texts = [], [], [], []
    for i, name in enumerate(NAMES):
        for j, place in enumerate(PLACES):
            other = NAMES[(i + 1) % 4]
            answerable = j != 3
            told = name if answerable else other
            context = f"{told.title()} is in the old town of {place.title()}."
            questions.append(f"Where is {name.title()}?")
            contexts.append(context)
            starts.append(context.index(place.title()) if answerable else -1)
            texts.append(place.title() if answerable else "")
    return (
        {"question": questions, "context": contexts},
        {"answer_start": starts, "answer_text": texts},
    )


def _tensors(part: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: tf.constant(values) for name, values in part.items()}


@pytest.fixture(scope="module")
def trained() -> LVBertSpanPredictor:
    x, y = _examples()
    predictor = _predictor()
    predictor.compile(optimizer=keras.optimizers.Adam(3e-3))
    data = tf.data.Dataset.from_tensor_slices((_tensors(x), _tensors(y)))
    # One long epoch: each new one costs more than its two batches.
    predictor.fit(data.repeat(60).batch(8), verbose=0)
    return predictor


def test_it_learns_to_answer(trained: LVBertSpanPredictor) -> None:
    x, y = _examples()
    found = trained.answer(
        x["question"], x["context"], batch_size=5, no_answer_threshold=0.0
    )
    for answers, start, text in zip(
        found, y["answer_start"], y["answer_text"], strict=True
    ):
        if start < 0:
            assert answers == []
        else:
            assert (answers[0].text, answers[0].start) == (text, start)
            assert answers[0].unanswerable_score < 0
    always = trained.answer(x["question"][:1], x["context"][:1], n_best=3)[0]
    assert len(always) > 1
    assert [a.score for a in always] == sorted((a.score for a in always), reverse=True)


def test_evaluate_reports_the_shares(trained: LVBertSpanPredictor) -> None:
    x, y = _examples()
    result = trained.evaluate(
        _tensors(x), _tensors(y), batch_size=4, verbose=0, return_dict=True
    )
    assert result["start_accuracy"] == result["end_accuracy"] == 1.0
    assert result["unanswerable_accuracy"] == 1.0
    assert result["loss"] < 0.2


def test_an_answer_deep_in_a_long_context_is_found(
    trained: LVBertSpanPredictor,
) -> None:
    context = "The old town and the old town. " * 6 + "Carl is in the old town of Lima."
    predictions = trained.predict(
        {
            "question": tf.constant(["Where is Carl?"]),
            "context": tf.constant([context]),
        },
        verbose=0,
    )
    windows = trained.preprocessor.windows(["Where is Carl?"], [context])
    assert len(windows.example) > 5
    assert predictions["start_logits"].shape[0] == len(windows.example)
    # Every token of the context is in some window, and its best one is one.
    best = windows.character_start[windows.has_most_context]
    assert len(set(best.tolist())) == len(best)
    tokens = trained.preprocessor.tokenizer.tokenize([context])
    assert len(best) == len(np.asarray(tokens[0]))
    assert sorted(best.tolist())[-1] == len(context) - 1
    assert trained.answer(["Where is Carl?"], [context], n_best=20)[0]


def test_answers_keep_case_accents_and_brackets() -> None:
    context = "  Zoë (née d'Été) is in Malmö!"
    tokenizer = LVBertTokenizer(
        [*VOCABULARY[:5], "zoe", "(", "nee", "d", "'", "ete", ")", "malmo", "!"]
    )
    preprocessor = LVBertSpanPredictorPreprocessor(tokenizer, 32, 8, 4)
    windows = preprocessor.windows(["zoe"], [context])
    shown = [
        context[a:b]
        for a, b in zip(
            windows.character_start[0], windows.character_end[0], strict=True
        )
        if a >= 0
    ]
    assert shown == [
        *("Zoë", "(", "née", "d", "'", "Été", ")", "is", "in", "Malmö", "!")
    ]


@pytest.mark.parametrize(
    "suffix", ["preset", pytest.param("keras", marks=pytest.mark.slow)]
)
def test_it_comes_back_in_a_fresh_process(
    trained: LVBertSpanPredictor, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"model.{suffix}"
    if suffix == "keras":
        trained.save(path)
        load = f"keras.models.load_model({str(path)!r})"
    else:
        trained.save_to_preset(str(path))
        load = f"lvbert_tf.LVBertSpanPredictor.from_preset({str(path)!r})"
    code = (
        "import keras, lvbert_tf\n"
        f"model = {load}\n"
        "assert model.beam_size == 4 and model.intermediate_dim == 16\n"
        "answer = model.answer(['Where is Dora?'], ['Dora is in the old town of "
        "Rome.'])[0][0]\n"
        "print(answer.text, answer.start, answer.end, answer.score)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = trained.answer(["Where is Dora?"], ["Dora is in the old town of Rome."])[0][
        0
    ]
    *found, score = output.strip().splitlines()[-1].rsplit(" ", 3)
    assert found == [here.text, str(here.start), str(here.end)]
    # Whether this process computes deterministically depends on the tests before.
    assert float(score) == pytest.approx(here.score, abs=1e-4)


def test_odd_texts_have_no_answers_and_no_errors() -> None:
    predictor = _predictor()
    assert predictor.answer([], []) == []
    found = predictor.answer(["", "where", "?"], ["", "   ", "is"], n_best=2)
    assert [[a.text for a in answers] for answers in found] == [[], [], ["is"]]
    long = "where " * 50
    windows = predictor.preprocessor.windows([long], ["in rome"])
    assert windows.question_tokens_cut == 44
    with pytest.warns(UserWarning, match="cut to 6 tokens.*: 44 tokens are lost"):
        predictor.answer([long], ["in rome"])


def test_wrong_use_is_told() -> None:
    for arguments, expected in (
        ({"sequence_length": 9}, "at least one of the context"),
        ({"stride": 16}, "between 1 and 15"),
        ({"stride": 0}, "stride=0"),
    ):
        with pytest.raises(ValueError, match=expected):
            _preprocessor(**arguments)
    preprocessor = _preprocessor()
    with pytest.raises(ValueError, match="`question` and `context`"):
        preprocessor(tf.constant(["where?"]))
    x = {"question": tf.constant(["where?"]), "context": tf.constant(["in rome"])}
    y = {"answer_start": tf.constant([0]), "answer_text": tf.constant(["rome"])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="must stand in `context`"):
        preprocessor(x, y=y)
    # The row is named, also where the place is beyond the text.
    x = {name: tf.repeat(value, 3) for name, value in x.items()}
    y = {
        "answer_start": tf.constant([3, -1, 900]),
        "answer_text": tf.constant(["rome", "", "rome"]),
    }
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        preprocessor(x, y=y)
    assert re.search(r"not so:\W*2\b", str(raised.value))
    assert "the context ends before" in str(raised.value)
    x = {name: value[:1] for name, value in x.items()}
    predictor = _predictor()
    with pytest.raises(ValueError, match="as many contexts"):
        predictor.answer(["where?"], [])
    with pytest.raises(ValueError, match="its own loss"):
        predictor.compile(loss="mse")
    inputs = preprocessor(x)
    predictor.preprocessor = None
    with pytest.raises(ValueError, match="needs a model with a preprocessor"):
        predictor.answer(["where?"], ["in rome"])
    with pytest.raises(ValueError, match="Received: none of"):
        predictor.fit(
            tf.data.Dataset.from_tensors((inputs, {"start_positions": [0]})), verbose=0
        )
