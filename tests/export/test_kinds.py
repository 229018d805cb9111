"""Backbones, masked LMs and span predictors: exported, compared, and used."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

import lvbert_tf
from common.saved_model_session import SavedModelSession
from serving.onnx_runtime import (
    ArtefactError,
    InputError,
    OnnxClassifier,
    OnnxEncoder,
    OnnxMaskedLM,
    OnnxSpanPredictor,
)
from tests.export.models import KINDS, SEQUENCE_LENGTH, TEXTS, Artefacts, run
from tests.paths import golden

pytestmark = pytest.mark.export

TOLERANCE = 1e-4
MASKED = ("good [MASK].", "[MASK]", "[MASK][MASK] a film[MASK]Café [MASK] bad")
QUESTIONS = ("was the movie good", "what", "", "the bad " * 20)
CONTEXTS = (
    "The movie was good, the film bad.",
    "Café 中中 x " + "zebra film was badly made, " * 6,
    "x",
    "a\u0301b  naïve\tfilm",
)


def strings(values: Any) -> Any:
    return np.array([value.encode() for value in values], dtype=object)


@pytest.mark.parametrize(
    "kind",
    [
        "backbone",
        pytest.param("masked_lm", marks=pytest.mark.slow),
        pytest.param("span_predictor", marks=pytest.mark.slow),
    ],
)
def test_both_artefacts_pass_their_check(artefacts: Artefacts, kind: str) -> None:
    for path in (artefacts.saved_model(kind), artefacts.onnx(kind)):
        result = run("check", "--model", artefacts.model(kind), "--artefact", path)
        assert result.status == 0, result.errors
        assert result.output is not None
        assert result.output["same_model"] is True
        # Logits are larger than 1, and so is what is allowed for them.
        assert 0 < result.output["max_abs_difference"] < 1e-4
        assert result.output["cases"]["every id"] > 0


@pytest.mark.parametrize("name", ["plain", *KINDS])
def test_a_batch_of_no_rows(artefacts: Artefacts, name: str) -> None:
    session = onnxruntime.InferenceSession(str(artefacts.onnx(name) / "model.onnx"))
    none = np.zeros((0, 7), "int64")
    inputs = {value.name: none for value in session.get_inputs()}
    outputs = session.run(None, inputs)
    assert outputs
    assert all(output.shape[0] == 0 for output in outputs)


@pytest.mark.parametrize("name", ["backbone", "masked_lm", "span_predictor"])
def test_signatures_are_what_the_docs_promise(artefacts: Artefacts, name: str) -> None:
    signatures = Artefacts.result(artefacts.saved_model(name))["signatures"]
    assert set(signatures) == {"serving_default", "tokens"}
    texts, tokens = signatures["serving_default"], signatures["tokens"]
    expected = {
        "backbone": (
            {"text"},
            {"sequence_output", "pooled_output", "padding_mask"},
            {"sequence_output", "pooled_output"},
        ),
        "masked_lm": ({"text"}, {"scores", "tokens"}, {"logits"}),
        "span_predictor": (
            {"question", "context"},
            {"answer", "start", "end", "score", "unanswerable_score"},
            {
                *("start_logits", "unanswerable_logit", "start_index"),
                *("start_log_probs", "end_log_probs"),
            },
        ),
    }[name]
    assert set(texts["inputs"]) == expected[0]
    assert set(texts["outputs"]) == expected[1]
    assert set(tokens["outputs"]) == expected[2]
    onnx = Artefacts.result(artefacts.onnx(name))
    assert set(onnx["outputs"]) == expected[2]


def test_hidden_states_are_those_of_keras(artefacts: Artefacts) -> None:
    backbone = lvbert_tf.LVBertBackbone.from_preset(str(artefacts.model("backbone")))
    encoder = OnnxEncoder(artefacts.onnx("backbone"))
    answers = encoder.encode(TEXTS, batch_size=2)
    with SavedModelSession(artefacts.saved_model("backbone") / "1") as session:
        served = session.run("serving_default", {"text": strings(TEXTS)})
    tokenizer = lvbert_tf.LVBertTokenizer.from_preset(str(artefacts.model("backbone")))
    for row, (text, answer) in enumerate(zip(TEXTS, answers, strict=True)):
        ids = [2, *tokenizer(text)[:62], 3]
        inputs = {
            "token_ids": np.array([ids]),
            "segment_ids": np.zeros((1, len(ids)), "int32"),
            "padding_mask": np.ones((1, len(ids)), "int32"),
        }
        hidden = backbone(inputs, training=False).numpy()[0]
        np.testing.assert_allclose(answer["hidden"], hidden, atol=TOLERANCE)
        assert len(answer["tokens"]) == len(ids)
        assert answer["truncated"] == (len(tokenizer(text)) > 62)
        own = served["sequence_output"][row]
        np.testing.assert_allclose(own[: len(ids)], hidden, atol=TOLERANCE)
        assert not own[len(ids) :].any()
        assert served["padding_mask"][row].sum() == len(ids)
        np.testing.assert_allclose(
            served["pooled_output"][row], hidden[0], atol=TOLERANCE
        )
    vectors = encoder.embed(TEXTS)
    np.testing.assert_allclose(vectors[1], answers[1]["hidden"].mean(axis=0), atol=1e-6)
    first = encoder.embed(TEXTS, pooling="first")
    np.testing.assert_allclose(first, served["pooled_output"], atol=TOLERANCE)
    assert encoder.embed([]).shape == (0, 32)
    with pytest.raises(InputError, match="pooling: expected mean or first"):
        encoder.embed(TEXTS, pooling="max")


@pytest.mark.parametrize("name", ["masked_lm", "masked_lm-official"])
def test_masks_are_filled_as_by_keras(artefacts: Artefacts, name: str) -> None:
    model = lvbert_tf.LVBertMaskedLM.from_preset(str(artefacts.model(name)))
    predictor = OnnxMaskedLM(artefacts.onnx(name))
    expected = model.fill(MASKED, 5)
    # What else is in a batch changes nothing, whether or not convolutions see padding.
    for filled in (
        [model.fill([text], 5)[0] for text in MASKED],
        predictor.fill(MASKED, batch_size=2),
        [predictor.fill([text])[0] for text in MASKED],
    ):
        for own, keras in zip(filled, expected, strict=True):
            for mask, other in zip(own, keras, strict=True):
                assert [token for token, _ in mask] == [token for token, _ in other]
                np.testing.assert_allclose(
                    [share for _, share in mask],
                    [share for _, share in other],
                    atol=TOLERANCE,
                )
    with SavedModelSession(artefacts.saved_model(name) / "1") as session:
        texts = (*MASKED, "no mask", "")
        served = session.run("serving_default", {"text": strings(texts)})
        assert (served["tokens"] != b"").any(axis=2).sum(axis=1).tolist() == [
            *(1, 1, 4, 0, 0)
        ]
        own = predictor.fill(MASKED)
        for row, masks in enumerate(own):
            for column, mask in enumerate(masks):
                assert [t.decode() for t in served["tokens"][row, column]] == [
                    token for token, _ in mask
                ]
                np.testing.assert_allclose(
                    served["scores"][row, column], [s for _, s in mask], atol=TOLERANCE
                )
        none = session.run("serving_default", {"text": strings(["x"])})
        assert none["scores"].shape == (1, 0, 5)
        ids = np.array([[2, 5, 3]], "int32")
        batch = {
            "input_ids": ids,
            "segment_ids": ids * 0,
            "padding_mask": ids * 0 + 1,
            "mask_positions": np.array([[3]], "int32"),
        }
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="mask_positions must be from 0"
        ):
            session.run("tokens", batch)


def test_texts_that_cannot_be_filled(artefacts: Artefacts) -> None:
    predictor = OnnxMaskedLM(artefacts.onnx("masked_lm"))
    with pytest.raises(InputError, match=r"texts\[1\]: expected a \[MASK\]"):
        predictor.fill(["[MASK]", "none"])
    with pytest.raises(InputError, match=r"texts\[0\]: a \[MASK\] stands behind"):
        predictor.fill(["a " * SEQUENCE_LENGTH + "[MASK]"])
    with pytest.raises(InputError, match="top_k"):
        predictor.fill(["[MASK]"], top_k=0)
    with pytest.raises(InputError, match="one string"):
        predictor.fill("[MASK]")
    with pytest.raises(ArtefactError, match="kind masked_lm"):
        OnnxMaskedLM(artefacts.onnx("backbone"))
    assert predictor.fill([]) == []


@pytest.mark.parametrize("name", ["span_predictor", "span_predictor-official"])
def test_answers_are_those_of_keras_and_stand_in_the_context(
    artefacts: Artefacts, name: str
) -> None:
    model = lvbert_tf.LVBertSpanPredictor.from_preset(str(artefacts.model(name)))
    with pytest.warns(UserWarning, match="questions are cut to"):
        keras = model.answer(list(QUESTIONS), list(CONTEXTS), n_best=3)
    predictor = OnnxSpanPredictor(artefacts.onnx(name))
    answers = predictor.answer(QUESTIONS, CONTEXTS, n_best=3, batch_size=3)
    inputs = {"question": strings(QUESTIONS), "context": strings(CONTEXTS)}
    with SavedModelSession(artefacts.saved_model(name) / "1") as session:
        served = session.run("serving_default", inputs)
        with pytest.raises(tf.errors.InvalidArgumentError, match="equally many"):
            session.run("serving_default", inputs | {"context": strings(CONTEXTS[:1])})
        empty = session.run(
            "serving_default", {"question": strings([]), "context": strings([])}
        )
    assert empty["answer"].shape == (0,)
    assert any(answer["truncated"] for answer in answers)
    for row, (expected, own) in enumerate(zip(keras, answers, strict=True)):
        context = CONTEXTS[row]
        assert [a["text"] for a in own["answers"]] == [a.text for a in expected]
        for answer, other in zip(own["answers"], expected, strict=True):
            assert (answer["start"], answer["end"]) == (other.start, other.end)
            assert context[answer["start"] : answer["end"]] == answer["text"]
            assert answer["score"] == pytest.approx(other.score, abs=TOLERANCE)
        best = expected[0]
        assert served["answer"][row].decode() == best.text
        assert (served["start"][row], served["end"][row]) == (best.start, best.end)
        np.testing.assert_allclose(served["score"][row], best.score, atol=TOLERANCE)
        for value in (own["unanswerable_score"], served["unanswerable_score"][row]):
            assert value == pytest.approx(best.unanswerable_score, abs=TOLERANCE)
    with pytest.raises(InputError, match="contexts: expected as many"):
        predictor.answer(["a"], [])
    with pytest.raises(InputError, match="n_best"):
        predictor.answer(["a"], ["b"], n_best=0)


def test_offsets_are_those_of_the_tokenizer_of_the_library() -> None:
    """Over strings made to be hard: accents, Hangul, controls, unassigned."""
    from serving.lvbert_runtime.span_predictor import offsets_of

    content = json.loads(
        (golden("tokenizer") / "mini_vocab_lower.json").read_text(encoding="utf-8")
    )
    tokenizer = lvbert_tf.LVBertTokenizer(
        str(golden("tokenizer") / "mini_vocab.txt"), duplicates="last"
    )
    portable = tokenizer.to_tokenizers()
    texts = [case["text"] for case in content["cases"]]
    assert len(texts) > 200
    for text in texts:
        text = text.encode("utf-8", "ignore").decode()
        expected = tokenizer.tokenize_with_offsets(tf.constant([text]))
        encoding = portable.encode(text, add_special_tokens=False)
        assert encoding.ids == expected.ids[0].numpy().tolist()
        offsets = zip(
            expected.starts[0].numpy().tolist(),
            expected.ends[0].numpy().tolist(),
            strict=True,
        )
        assert offsets_of(text, encoding) == list(offsets), repr(text)


def test_what_only_classifiers_can(artefacts: Artefacts, tmp_path: Path) -> None:
    evaluation = tmp_path / "dev.tsv"
    evaluation.write_text("text\tlabel\na\tb\n")
    for words, message in (
        (("saved-model", "--scores-only"), "only classifiers give scores alone"),
        (("saved-model", "--pairs"), "only classifiers take pairs"),
    ):
        result = run(
            *(words[0], "--model", artefacts.model("masked_lm")),
            *("--output", tmp_path / "out", *words[1:]),
        )
        assert result.status == 2
        assert message in result.errors
    result = run(
        *("quantize", "--onnx", artefacts.onnx("backbone")),
        *("--output", tmp_path / "out", "--eval", evaluation),
    )
    assert result.status == 2
    assert "expected a classifier or a regression" in result.errors
    with pytest.raises(ArtefactError, match="kind text_classifier"):
        OnnxClassifier(artefacts.onnx("backbone"))
