"""The gRPC API, against a server process, and the client that needs no TensorFlow."""

from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import json_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from serving.client import ClientError, RestClient, Retry, connect
from serving.client.grpc_client import GrpcClient
from serving.client.wire_messages import PredictRequest, read_tensor, write_tensor
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address) as opened:
        yield opened


def test_health(channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "tensorflow.serving.PredictionService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_values_lie_in_the_typed_fields(channel: grpc.Channel) -> None:
    """Clients in other languages read float_val, not tensor_content."""
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "numbers"
    request.inputs["numbers"].CopyFrom(
        tf.make_tensor_proto(np.array([[1.0, 2.0]], np.float32))
    )
    answer = stub.Predict(request, timeout=30)
    assert list(answer.outputs["scaled"].float_val) == [2.0, 4.0]
    assert list(answer.outputs["batch_size"].int_val) == [1]
    assert tf.make_ndarray(answer.outputs["raw_bytes"]).tolist() == [b"\xff\x00"]


def test_classify_and_regress(channel: grpc.Channel) -> None:
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "clf"
    request.model_spec.signature_name = "classify"
    json_format.ParseDict(
        {"features": {"feature": {"text": {"bytesList": {"value": ["Z29vZA=="]}}}}},
        request.input.example_list.examples.add(),
    )
    classes = stub.Classify(request, timeout=30).result.classifications[0].classes
    assert [entry.label for entry in classes] == ["negative", "positive"]
    assert sum(entry.score for entry in classes) == pytest.approx(1, abs=1e-6)
    regression = regression_pb2.RegressionRequest()
    regression.model_spec.name = "numbers"
    regression.model_spec.signature_name = "regress"
    context = regression.input.example_list_with_context
    context.context.features.feature["x"].float_list.value.append(1.25)
    context.examples.add()
    answer = stub.Regress(regression, timeout=30)
    assert [entry.value for entry in answer.result.regressions] == [2.5]


@pytest.mark.parametrize(
    "proto",
    [
        {"dtype": "DT_STRING", "tensorShape": {"dim": [{"size": "3"}]}},
        {"dtype": "DT_STRING", "tensorShape": {"unknownRank": True}},
        {"dtype": "DT_STRING", "tensorShape": {"dim": [{"size": "-1"}]}},
        {
            "dtype": "DT_STRING",
            "tensorShape": {"dim": [{"size": "99999999999"}]},
            "stringVal": ["YQ=="],
        },
        {"dtype": "DT_INVALID", "tensorShape": {}},
        {"dtype": "DT_RESOURCE", "tensorShape": {"dim": [{"size": "1"}]}},
    ],
)
def test_malformed_tensors_are_refused(channel: grpc.Channel, proto: object) -> None:
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "clf"
    json_format.ParseDict(proto, request.inputs["text"])
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request, timeout=30)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_reloading_is_off_unless_asked_for(channel: grpc.Channel) -> None:
    stub = model_service_pb2_grpc.ModelServiceStub(channel)
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.config.add(name="x", base_path="/somewhere")
    with pytest.raises(grpc.RpcError) as caught:
        stub.HandleReloadConfigRequest(request, timeout=30)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    "array",
    [
        np.array([[0.5, -1.0]], np.float32),
        np.array([1e300]),
        np.array([[1, -2]], np.int32),
        np.array([2**40], np.int64),
        np.array([True, False]),
        np.array([3], np.uint8),
        np.array([b"a", b"\xff"], object),
        np.zeros([0, 2], np.float32),
    ],
)
def test_own_messages_are_the_real_ones_on_the_wire(array: np.ndarray) -> None:
    request = PredictRequest(output_filter=["scores"])
    request.model_spec.name = "m"
    request.model_spec.version.value = 7
    request.model_spec.signature_name = "s"
    write_tensor(array, request.inputs.add(key="x").value)
    real = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    assert real.model_spec.version.value == 7
    assert real.model_spec.signature_name == "s"
    assert list(real.output_filter) == ["scores"]
    assert real.inputs["x"].dtype in types_pb2.DataType.values()
    np.testing.assert_array_equal(tf.make_ndarray(real.inputs["x"]), array)
    # And back, from what TensorFlow itself writes.
    back = predict_pb2.PredictRequest()
    back.inputs["x"].CopyFrom(tf.make_tensor_proto(array))
    own = PredictRequest.FromString(back.SerializeToString())
    read = read_tensor(own.inputs[0].value)
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_grpc_client_answers_as_the_rest_client(server: RunningServer) -> None:
    texts = ["good movies", "bad", ""]
    with RestClient(server.rest_url, "clf", label="stable") as client:
        expected = client.predict(texts)
    with GrpcClient(server.grpc_address, "clf", label="stable", max_batch=2) as rpc:
        assert rpc.predict(texts) == expected
        arrays = rpc.predict_arrays({"text": np.array([b"bad"], object)}, ["label"])
        assert list(arrays) == ["label"]
    with GrpcClient(server.grpc_address, "clf", signature="scores_only") as rpc:
        assert len(rpc.predict(texts)) == 3
    row = {"input_ids": [4], "segment_ids": [0], "padding_mask": [1]}
    tokens = connect(
        f"grpc://{server.grpc_address}", "clf", signature="tokens", version=1
    )
    assert tokens.predict([row])[0].keys() == {"label", "scores"}
    tokens.close()


def test_grpc_client_tells_why_it_failed(server: RunningServer) -> None:
    with GrpcClient(server.grpc_address, "nope") as client:
        with pytest.raises(ClientError, match=r"NOT_FOUND.*nope") as caught:
            client.predict(["a"])
        assert caught.value.code == "NOT_FOUND"
    retry = Retry(tries=2, first_wait_s=0.01)
    with (
        GrpcClient("127.0.0.1:1", "clf", retry=retry) as client,
        pytest.raises(ClientError, match=r"after 2 tries.*UNAVAILABLE"),
    ):
        client.predict(["a"])
