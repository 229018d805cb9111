"""The head, the windows and the answers of SQuAD against the official code."""

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf import LVBertSpanPredictorPreprocessor, LVBertTokenizer
from lvbert_tf.conversion import load_official_checkpoint
from lvbert_tf.models.span_decoding import best_answers
from tests.paths import golden, require_shared

pytestmark = pytest.mark.golden


@pytest.fixture(scope="module")
def squad() -> tuple[Any, Any]:
    folder = golden("finetune/squad")
    config = json.loads((folder / "config.json").read_text())
    heads = config["hparams"]["model_hparam_overrides"]["num_attention_heads"]
    model = load_official_checkpoint(
        folder / "model.ckpt", kind="span_predictor", num_heads=heads
    )
    return model, np.load(folder / "io.npz")


def _inputs(vectors: Any) -> dict[str, Any]:
    return {
        "token_ids": vectors["feature::input_ids"],
        "segment_ids": vectors["feature::segment_ids"],
        "padding_mask": vectors["feature::input_mask"],
    }


def _close(ours: Any, official: Any) -> None:
    """Equal within 5e-5 where the token can be in an answer, as GOLDEN.md says."""
    counted = official > -500
    assert counted.any()
    # One part in a million of what the mask takes away is rounding.
    assert np.abs(np.asarray(ours)[counted] - official[counted]).max() <= 5e-5
    assert (np.asarray(ours)[~counted] < -500).all()


def test_prediction_takes_the_official_beam(squad: tuple[Any, Any]) -> None:
    model, vectors = squad
    outputs = {k: np.asarray(v) for k, v in model(_inputs(vectors)).items()}
    _close(outputs["start_logits"], vectors["predict::start_logits"])
    difference = outputs["unanswerable_logit"] - vectors["predict::answerable_logit"]
    assert np.abs(difference).max() <= 5e-5
    _close(outputs["start_log_probs"], vectors["predict::start_top_log_probs"])
    real = vectors["predict::start_top_log_probs"] > -500
    official_starts = vectors["predict::start_top_index"]
    assert (outputs["start_index"][real] == official_starts[real]).all()
    best = np.argsort(-outputs["end_log_probs"], axis=-1, kind="stable")[..., :20]
    values = np.take_along_axis(outputs["end_log_probs"], best, axis=-1)
    for row, beam in np.argwhere(real):
        official = vectors["predict::end_top_log_probs"][row, beam]
        _close(values[row, beam], official)
        kept = official > -500
        expected = vectors["predict::end_top_index"][row, beam][kept]
        assert (best[row, beam][kept] == expected).all()


def test_training_gives_the_official_logits_and_losses(squad: tuple[Any, Any]) -> None:
    model, vectors = squad
    inputs = {
        **_inputs(vectors),
        "start_positions": vectors["feature::squad_start_positions"],
    }

    outputs = model(inputs, training=False)
    _close(outputs["start_logits"], vectors["train::start_logits"])
    _close(outputs["end_logits"], vectors["train::end_logits"])
    targets = {
        "start_positions": vectors["feature::squad_start_positions"],
        "end_positions": vectors["feature::squad_end_positions"],
        "unanswerable": vectors["feature::squad_is_impossible"],
    }
    losses = np.asarray(model.losses_by_window(targets, outputs))
    assert np.abs(losses - vectors["train::loss"]).max() <= 5e-5
    loss = model.compute_loss(y=targets, y_pred=outputs)
    assert float(loss) == pytest.approx(float(vectors["train::loss"].mean()), abs=5e-5)


@pytest.fixture(scope="module")
def short_windows() -> tuple[dict[str, Any], LVBertSpanPredictorPreprocessor]:
    recorded = json.loads(golden("finetune/qa_v2_short_windows.json").read_text())
    hparams = recorded["hparams"]
    vocabulary = require_shared("data/vocab.bert-uncased.txt")
    preprocessor = LVBertSpanPredictorPreprocessor(
        LVBertTokenizer(str(vocabulary)),
        sequence_length=hparams["max_seq_length"],
        stride=hparams["doc_stride"],
        max_question_length=hparams["max_query_length"],
    )
    return recorded, preprocessor


def _examples(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {**question, "context": paragraph["context"]}
        for article in recorded["dataset"]["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def test_training_windows_are_the_official_ones(short_windows: Any) -> None:
    recorded, preprocessor = short_windows
    examples = _examples(recorded)
    answers = [e["answers"][0] if e["answers"] else None for e in examples]
    inputs, targets = preprocessor(
        {
            "question": tf.constant([e["question"] for e in examples]),
            "context": tf.constant([e["context"] for e in examples]),
        },
        y={
            "answer_start": tf.constant(
                [-1 if a is None else a["answer_start"] for a in answers]
            ),
            "answer_text": tf.constant(
                ["" if a is None else a["text"] for a in answers]
            ),
        },
    )
    official = [f for e in recorded["train_features"] for f in e["features"]]
    assert [e["id"] for e in recorded["train_features"]] == [e["id"] for e in examples]
    for ours, name in (
        (inputs["token_ids"], "input_ids"),
        (inputs["segment_ids"], "segment_ids"),
        (inputs["padding_mask"], "input_mask"),
        (targets["start_positions"], "start_positions"),
        (targets["end_positions"], "end_positions"),
        (targets["unanswerable"], "is_impossible"),
    ):
        expected = np.array([f[name] for f in official]).astype("int32")
        assert np.array_equal(np.asarray(ours), expected), name
    assert np.array_equal(inputs["start_positions"], targets["start_positions"])


def test_answers_are_the_official_ones(short_windows: Any) -> None:
    recorded, preprocessor = short_windows
    examples = _examples(recorded)
    contexts = [e["context"] for e in examples]
    windows = preprocessor.windows([e["question"] for e in examples], contexts)
    official = recorded["dev_features"]
    assert [examples[i]["id"] for i in windows.example] == [f["id"] for f in official]
    for row, feature in enumerate(official):
        assert (
            windows.inputs["token_ids"][row].tolist()
            == (feature["features"]["input_ids"])
        )
        most = feature["features"]["token_is_max_context"]
        expected = [most.get(str(t), False) for t in range(40)]
        assert windows.has_most_context[row].tolist() == expected
    outputs = _recorded_outputs(recorded)
    answers = best_answers(outputs, windows, contexts, max_answer_length=30)
    for example, found in zip(examples, answers, strict=True):
        # The official code writes "empty" where it finds no span.
        text = found[0].text if found else "empty"
        assert text == recorded["predictions"][example["id"]], example["id"]
        if found:
            score = found[0].unanswerable_score
            expected = recorded["null_scores"][example["id"]]
            assert score == pytest.approx(expected, abs=1e-6)


def _recorded_outputs(recorded: dict[str, Any]) -> dict[str, Any]:
    """Spreads recorded best ends over all tokens, as the model gives them."""
    recordings = recorded["model_outputs"]
    beam = recorded["hparams"]["beam_size"]
    ends = np.full((len(recordings), beam, 40), -1e4)
    for row, recording in enumerate(recordings):
        for k in range(beam):
            # The made-up scores name some ends twice: the better score counts.
            at, scores = recording["end_top_index"][k], recording["end_top_log_probs"]
            np.maximum.at(ends[row, k], at, scores[k])
    return {
        "start_index": np.array([r["start_top_index"] for r in recordings]),
        "start_log_probs": np.array([r["start_top_log_probs"] for r in recordings]),
        "end_log_probs": ends,
        "unanswerable_logit": np.array([r["answerable_logit"] for r in recordings]),
    }
