"""What this project exports, asked through a server over REST and gRPC."""

from typing import Any

import pytest
import requests

import lvbert_tf
from serving.client import connect
from serving.server.batching_config import BatchingConfig
from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import ModelConfig
from tests.export.models import TEXTS, Artefacts, keras_probabilities
from tests.serving.running_server import RunningServer

pytestmark = [pytest.mark.serving, pytest.mark.export]

TOLERANCE = 2e-5
QUESTIONS = ("was the film good", "who?", "a movie", "x")
CONTEXTS = ("the film was good, the movie bad", "", "the Café 中中 " * 12, "good")
MASKED = ("the [MASK] was good", "[MASK][MASK] bad film", "no mask here")


def asked(server: RunningServer, model: str, rows: list[Any], **options: Any) -> Any:
    """Asks over REST and gRPC, which must agree, and returns the answer."""
    answers = []
    for url in (server.rest_url, f"grpc://{server.grpc_address}"):
        with connect(url, model, **options) as client:
            answers.append(client.predict(rows))
    assert answers[0] == answers[1]
    return answers[0]


def test_texts_get_the_scores_of_keras(
    own_server: RunningServer, artefacts: Artefacts
) -> None:
    model = lvbert_tf.LVBertTextClassifier.from_preset(str(artefacts.model()))
    expected = keras_probabilities(model, list(TEXTS))
    answers = asked(own_server, "own", list(TEXTS), label="stable")
    for answer, row in zip(answers, expected, strict=True):
        assert answer["scores"] == pytest.approx(row.tolist(), abs=TOLERANCE)
        assert answer["label"] == model.labels[int(row.argmax())]
    alone = asked(own_server, "own", list(TEXTS), signature="scores_only")
    assert alone == [answer["scores"] for answer in answers]


def test_answers_to_questions_are_those_of_keras(
    own_server: RunningServer, artefacts: Artefacts
) -> None:
    model = lvbert_tf.LVBertSpanPredictor.from_preset(
        str(artefacts.model("span_predictor"))
    )
    keras = model.answer(list(QUESTIONS), list(CONTEXTS))
    rows = [
        {"question": question, "context": context}
        for question, context in zip(QUESTIONS, CONTEXTS, strict=True)
    ]
    answers = asked(own_server, "spans", rows)
    for context, answer, expected in zip(CONTEXTS, answers, keras, strict=True):
        if not expected:
            assert (answer["answer"], answer["start"], answer["end"]) == ("", -1, -1)
            continue
        assert answer["answer"] == expected[0].text
        assert context[answer["start"] : answer["end"]] == expected[0].text
        assert answer["score"] == pytest.approx(expected[0].score, abs=TOLERANCE)
        assert answer["unanswerable_score"] == pytest.approx(
            expected[0].unanswerable_score, abs=TOLERANCE
        )


def test_masks_are_filled_as_by_keras(
    own_server: RunningServer, artefacts: Artefacts
) -> None:
    model = lvbert_tf.LVBertMaskedLM.from_preset(str(artefacts.model("masked_lm")))
    answers = asked(own_server, "words", list(MASKED))
    # As many places as the row with most masks has; the others end in "" and 0.
    assert [sum(row[0] != "" for row in a["tokens"]) for a in answers] == [1, 2, 0]
    for answer, filled in zip(answers, model.fill(list(MASKED[:2]), 5), strict=False):
        for place, expected in enumerate(filled):
            assert answer["tokens"][place] == [token for token, _ in expected]
            assert answer["scores"][place] == pytest.approx(
                [share for _, share in expected], abs=TOLERANCE
            )
    # For those who tokenize themselves.
    row = {"input_ids": [2, 5, 4, 3], "segment_ids": [0] * 4, "padding_mask": [1] * 4}
    (logits,) = asked(
        own_server, "words", [{**row, "mask_positions": [2]}], signature="tokens"
    )
    assert len(logits) == 1
    assert len(logits[0]) == model.backbone.vocabulary_size
    with pytest.raises(Exception, match="mask_positions must be from 0"):
        asked(own_server, "words", [{**row, "mask_positions": [4]}], signature="tokens")


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [{"b64": "Zm9v"}]},
        {"instances": ["a question without its context"]},
        {"instances": [{"question": "a"}]},
        {"inputs": {"question": ["a", "b"], "context": ["c"]}},
        {"inputs": {"question": "a", "context": "c"}},
    ],
)
def test_half_a_pair_is_the_clients_error(
    own_server: RunningServer, body: dict[str, Any]
) -> None:
    url = f"{own_server.rest_url}/v1/models/spans:predict"
    answer = requests.post(url, json=body, timeout=30)
    assert answer.status_code == 400, answer.text
    assert "Internal" not in answer.text


def test_batches_change_no_answer(
    own_server: RunningServer, artefacts: Artefacts
) -> None:
    """Requests of other people in a batch, and rows that only fill it, are not seen."""
    config = BatchingConfig(
        max_batch_size=4,
        batch_timeout_micros=100_000,
        num_batch_threads=1,
        allowed_batch_sizes=(4,),
    )
    options = ServerOptions(rest_port=0, grpc_port=0, batching=config)
    models = [ModelConfig("words", artefacts.saved_model("masked_lm"))]
    with EmbeddedServer(models, options) as batching:
        for text in MASKED[:2]:
            (alone,) = asked(own_server, "words", [text])
            with connect(batching.rest_url, "words") as client:
                (batched,) = client.predict([text])
            assert batched["tokens"] == alone["tokens"]
