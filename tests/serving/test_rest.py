"""The REST API, against a server process."""

import base64
import contextlib
import gzip
import http.client
import json
import math
import socket
from typing import Any

import pytest
import requests

from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


def ask(server: RunningServer, path: str, body: Any) -> tuple[int, Any]:
    """Posts JSON; returns status and answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = requests.post(f"{server.rest_url}{path}", data=data, timeout=30)
    return response.status_code, response.json()


def test_text_in_scores_and_label_out(server: RunningServer) -> None:
    status, answer = ask(
        server, "/v1/models/clf:predict", {"instances": ["good movies", "bad"]}
    )
    assert status == 200
    for row in answer["predictions"]:
        assert sum(row["scores"]) == pytest.approx(1.0, abs=1e-6)
        best = row["scores"].index(max(row["scores"]))
        assert row["label"] == ("negative", "positive")[best]


def test_tokens_give_what_their_text_gives(server: RunningServer) -> None:
    _, text = ask(server, "/v1/models/clf:predict", {"instances": ["good movies"]})
    row = {
        "input_ids": [4, 6, 7, 0],
        "segment_ids": [0] * 4,
        "padding_mask": [1, 1, 1, 0],
    }
    _, tokens = ask(
        server,
        "/v1/models/clf:predict",
        {"signature_name": "tokens", "instances": [row]},
    )
    assert tokens["predictions"][0]["scores"] == pytest.approx(
        text["predictions"][0]["scores"], abs=1e-6
    )


def test_versions_answer_differently(server: RunningServer) -> None:
    body = {"instances": ["good"]}
    _, first = ask(server, "/v1/models/clf/versions/1:predict", body)
    _, second = ask(server, "/v1/models/clf/versions/2:predict", body)
    assert first != second
    assert ask(server, "/v1/models/clf/labels/canary:predict", body)[1] == second


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"inputs": "a"}, 400, "expected shape [?]"),
        ({"inputs": {"b64": "YQ=="}}, 400, "expected shape [?]"),
        ({"instances": [["a"]]}, 400, "expected shape [?]"),
        (b'{"instances":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "nested"),
        (b'{"instances":["\\ud800"]}', 400, "surrogate"),
    ],
)
def test_hostile_text_is_refused(
    server: RunningServer, body: Any, status: int, part: str
) -> None:
    found, answer = ask(server, "/v1/models/clf:predict", body)
    assert found == status
    assert part in answer["error"]


def test_numbers_keep_their_values(server: RunningServer) -> None:
    body = b'{"instances": [[0.05, 1, 16777215, NaN, Infinity, 5e-45]]}'
    response = requests.post(
        f"{server.rest_url}/v1/models/numbers:predict", data=body, timeout=30
    )
    # NaN is not >= 0, so this model refuses it: the check is the graph's.
    assert response.status_code == 400
    body = b'{"instances": [[0.05, 1, 16777215, Infinity]]}'
    response = requests.post(
        f"{server.rest_url}/v1/models/numbers:predict", data=body, timeout=30
    )
    row = response.json()["predictions"][0]
    # Shortest text of the float32, always with a point; no strict JSON for infinity.
    assert "0.1, 2.0, 33554430.0, Infinity" in response.text
    assert math.isinf(row["scaled"][3])
    assert row["raw_bytes"] == {"b64": base64.b64encode(b"\xff\x00").decode()}


def test_types_are_strict(server: RunningServer) -> None:
    def echo(**values: Any) -> tuple[int, Any]:
        return ask(
            server,
            "/v1/models/numbers:predict",
            {"signature_name": "echo", "inputs": values},
        )

    good: dict[str, Any] = {"double": [1], "long": [2**40], "flag": [True]}
    assert echo(**good) == (
        200,
        {"outputs": {"double": [1.0], "flag": [True], "long": [2**40]}},
    )
    for name, value in (
        ("long", [2**63]),
        ("long", [True]),
        ("flag", [1]),
        ("double", ["1"]),
        ("double", [2**53 + 1]),
    ):
        status, answer = echo(**{**good, name: value})
        assert status == 400, (name, value)
        assert "type" in answer["error"] or "precision" in answer["error"]


def test_regress(server: RunningServer) -> None:
    body = {"signature_name": "regress", "examples": [{"x": 1.5}, {"x": [2.0]}]}
    status, answer = ask(server, "/v1/models/numbers:regress", body)
    assert (status, answer) == (200, {"results": [3.0, 4.0]})


def test_signature_without_inputs(server: RunningServer) -> None:
    body = {"signature_name": "nothing", "inputs": {}}
    status, answer = ask(server, "/v1/models/numbers:predict", body)
    assert status == 400
    assert "nothing" in answer["error"]


def test_body_and_bomb_are_bounded(server: RunningServer) -> None:
    headers = {"Content-Encoding": "gzip"}
    url = f"{server.rest_url}/v1/models/clf:predict"
    bomb = gzip.compress(b" " * (70 * 2**20), compresslevel=1)
    response = requests.post(url, data=bomb, headers=headers, timeout=30)
    assert response.status_code == 400
    assert "larger than" in response.json()["error"]
    response = requests.post(url, data=b"not gzip", headers=headers, timeout=30)
    assert response.status_code == 400
    assert "gzip" in response.json()["error"]
    response = requests.post(url, data=b" " * (65 * 2**20), timeout=30)
    assert response.status_code == 413


def test_connection_is_kept_and_pipelined_requests_are_answered(
    server: RunningServer,
) -> None:
    host, port = server.rest_url.split("//")[1].split(":")
    with contextlib.closing(
        http.client.HTTPConnection(host, int(port), timeout=30)
    ) as connection:
        for _ in range(3):
            connection.request("POST", "/v1/models/clf:predict", b'{"inputs":["a"]}')
            response = connection.getresponse()
            response.read()
            assert response.status == 200
            assert response.getheader("Connection") != "close"
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        request = b"GET /v1/models/clf HTTP/1.1\r\nHost: x\r\n\r\n"
        raw.sendall(request * 2)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 2:
            part = raw.recv(65536)
            assert part
            answers += part


def test_metrics_count_requests(server: RunningServer) -> None:
    ask(server, "/v1/models/clf:predict", {"instances": ["good"]})
    ask(server, "/v1/models/made-up-name:predict", {"instances": ["good"]})
    response = requests.get(
        f"{server.rest_url}/monitoring/prometheus/metrics", timeout=10
    )
    assert response.status_code == 200
    counts = {
        line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1])
        for line in response.text.splitlines()
        if line.startswith(":tensorflow:serving:request_count{")
    }
    name = ':tensorflow:serving:request_count{model_name="clf",status="OK"}'
    assert counts[name] >= 1
    assert "made-up-name" not in response.text
    latency = ':tensorflow:serving:request_latency_count{model_name="clf"'
    assert latency in response.text


def test_metadata_names_the_signature(server: RunningServer) -> None:
    answer = requests.get(
        f"{server.rest_url}/v1/models/clf/labels/stable/metadata", timeout=10
    ).json()
    assert answer["model_spec"] == {"name": "clf", "signature_name": "", "version": "1"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
