"""What clients see of a server that stops."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import ModelConfig

pytestmark = pytest.mark.serving

BODY = b'{"instances": [[1.0]]}'
SLOW = b'{"signature_name": "slow", "instances": [0.5]}'


@pytest.fixture
def stopping(models: Path) -> Iterator[EmbeddedServer]:
    """A server that a test stops."""
    server = EmbeddedServer(
        [ModelConfig("numbers", models / "numbers")],
        ServerOptions(rest_port=0, grpc_port=0),
    )
    server.start()
    yield server
    server.stop()


def connected(server: EmbeddedServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.rest_url.split("//")[1], timeout=30)


def ask(
    connection: http.client.HTTPConnection, body: bytes = BODY
) -> tuple[int, str | None]:
    """Returns the status, and what the answer says of the connection."""
    connection.request("POST", "/v1/models/numbers:predict", body)
    response = connection.getresponse()
    json.loads(response.read())
    return response.status, response.getheader("connection")


def test_kept_connections_are_told_and_closed_in_order(
    stopping: EmbeddedServer,
) -> None:
    """No request that was sent meets a connection that is reset."""
    busy, idle = connected(stopping), connected(stopping)
    assert ask(idle) == (200, None)
    answers: list[tuple[int, str | None]] = []
    failures: list[BaseException] = []

    def repeat() -> None:
        try:
            while not answers or answers[-1][1] != "close":
                answers.append(ask(busy))
                time.sleep(0.02)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    time.sleep(0.2)
    stopping.stop()
    thread.join(30)
    assert failures == []
    assert {status for status, _ in answers} == {200}
    assert [said for _, said in answers].count("close") == 1
    assert answers[-1][1] == "close"
    # What nobody has used meanwhile ends in order: an end, no reset.
    assert idle.sock.recv(1) == b""
    busy.close()
    idle.close()


def test_running_requests_are_answered(stopping: EmbeddedServer) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "numbers"
    request.model_spec.signature_name = "slow"
    numbers = np.array([0.5], np.float32)
    request.inputs["numbers"].CopyFrom(tf.make_tensor_proto(numbers))
    connection = connected(stopping)
    with grpc.insecure_channel(stopping.grpc_address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        running = stub.Predict.future(request, timeout=30)
        statuses: list[tuple[int, str | None]] = []
        thread = threading.Thread(target=lambda: statuses.append(ask(connection, SLOW)))
        thread.start()
        time.sleep(0.1)
        stopping.stop()
        thread.join(30)
        assert statuses == [(200, "close")]
        assert len(running.result().outputs["value"].float_val) == 1
    connection.close()
    # Whoever comes after that is refused by the system, not left waiting.
    with pytest.raises(ConnectionRefusedError):
        ask(connected(stopping))
