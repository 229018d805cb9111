"""Batching, through the REST API of a server that does it."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from serving.server.batching_config import read_batching_config
from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import ModelConfig
from tests.paths import REPOSITORY

pytestmark = pytest.mark.serving


def ask(server: EmbeddedServer, model: str, body: Any) -> requests.Response:
    return requests.post(
        f"{server.rest_url}/v1/models/{model}:predict", json=body, timeout=30
    )


def together(server: EmbeddedServer, model: str, bodies: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: ask(server, model, body), bodies))


def test_concurrent_requests_share_a_batch(batching_server: EmbeddedServer) -> None:
    bodies = [{"instances": [[float(number)]]} for number in range(8)]
    answers = [answer.json() for answer in together(batching_server, "numbers", bodies)]
    rows = [answer["predictions"][0] for answer in answers]
    assert [row["scaled"] for row in rows] == [[2.0 * n] for n in range(8)]
    # Some ran together, and every batch was padded to an allowed size.
    assert {row["batch_size"] for row in rows} <= {2, 8}
    assert 8 in {row["batch_size"] for row in rows}


def test_the_shipped_file_neither_holds_up_nor_pads_who_is_alone(
    models: Path,
) -> None:
    config = read_batching_config(REPOSITORY / "serving" / "deploy" / "batching.config")
    assert config.batch_timeout_micros == 0
    options = ServerOptions(rest_port=0, grpc_port=0, batching=config)
    numbers = [ModelConfig("numbers", models / "numbers")]
    with EmbeddedServer(numbers, options) as server:
        for rows in (1, 2):
            answer = ask(server, "numbers", {"instances": [[1.0]] * rows}).json()
            assert [row["batch_size"] for row in answer["predictions"]] == [rows] * rows


def test_batched_answers_are_the_single_ones(batching_server: EmbeddedServer) -> None:
    texts = ["good", "bad movies", "", "movie", "unknown words here", "good good"]
    alone = [
        ask(batching_server, "clf", {"instances": [text]}).json()["predictions"][0]
        for text in texts
    ]
    answers = together(
        batching_server, "clf", [{"instances": [text]} for text in texts]
    )
    for single, answer in zip(alone, answers, strict=True):
        row = answer.json()["predictions"][0]
        assert row["label"] == single["label"]
        # Sums over other numbers of rows may round differently.
        assert row["scores"] == pytest.approx(single["scores"], abs=1e-6)


def test_large_requests_are_split(batching_server: EmbeddedServer) -> None:
    body = {"instances": [[float(number)] for number in range(21)]}
    rows = ask(batching_server, "numbers", body).json()["predictions"]
    assert [row["scaled"] for row in rows] == [[2.0 * n] for n in range(21)]
    assert [row["batch_size"] for row in rows] == [8] * 16 + [8] * 5


def test_lengths_never_share_a_batch(batching_server: EmbeddedServer) -> None:
    bodies = [{"instances": [[1.0] * width]} for width in (1, 2, 3, 1, 2, 3)]
    for body, answer in zip(
        bodies, together(batching_server, "numbers", bodies), strict=True
    ):
        assert answer.status_code == 200
        width = len(body["instances"][0])
        assert answer.json()["predictions"][0]["scaled"] == [2.0] * width


def test_one_bad_request_spoils_no_other(batching_server: EmbeddedServer) -> None:
    bodies = [{"instances": [[value]]} for value in (1.0, -1.0, 2.0, 3.0)]
    answers = together(batching_server, "numbers", bodies)
    assert [answer.status_code for answer in answers] == [200, 400, 200, 200]
    assert "must not be < 0" in answers[1].json()["error"]


def test_empty_scalar_and_uneven_inputs(batching_server: EmbeddedServer) -> None:
    empty = ask(batching_server, "clf", {"inputs": {"text": []}})
    assert (empty.status_code, empty.json()["outputs"]["label"]) == (200, [])
    assert ask(batching_server, "clf", {"inputs": "a"}).status_code == 400
    uneven = {"double": [1.0], "long": [1, 2], "flag": [True]}
    answer = ask(
        batching_server, "numbers", {"signature_name": "echo", "inputs": uneven}
    )
    assert answer.status_code == 400
    assert "0th-dimension" in answer.json()["error"]


def test_a_full_queue_is_refused_at_once(batching_server: EmbeddedServer) -> None:
    """One thread, slow batches, room for two waiting ones: the rest is told so."""
    bodies = [{"signature_name": "slow", "instances": [0.5] * 8} for _ in range(8)]
    started = time.monotonic()
    answers = together(batching_server, "numbers", bodies)
    codes = sorted(answer.status_code for answer in answers)
    assert set(codes) == {200, 503}, codes
    assert codes.count(200) >= 2
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert "full" in refused.json()["error"]
    assert refused.headers["Retry-After"] == "1"
    assert time.monotonic() - started < 60
