"""What a client does wrong is answered as the client's error, and leaves no trace."""

import json
from typing import Any

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from google.protobuf import json_format
from prometheus_client.parser import text_string_to_metric_families
from tensorflow_serving.apis import (
    classification_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.server.json_tensors import predict_inputs
from serving.server.limits import Limits
from serving.server.status import ServingError
from serving.server.tensor_protos import to_array
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving


def test_a_base64_object_is_no_row_of_a_pair() -> None:
    document = {"instances": [{"b64": "Zm9v"}]}
    with pytest.raises(ServingError, match="plain list") as caught:
        predict_inputs(document, {"text": "string", "text_pair": "string"})
    assert caught.value.http_status == 400


@pytest.mark.parametrize("dtype", [tf.int8, tf.uint8, tf.int16, tf.uint16])
def test_numbers_out_of_range_are_refused(dtype: tf.DType) -> None:
    proto = tf.make_tensor_proto(np.array([1], dtype.as_numpy_dtype))
    proto.ClearField("tensor_content")
    proto.int_val[:] = [1 << 20]
    with pytest.raises(ServingError, match="input x: not a valid tensor") as caught:
        to_array("x", proto, Limits())
    assert caught.value.http_status == 400


@pytest.mark.parametrize(
    "body",
    [
        b'{"signature_name":"classify","examples":[{"text":"\xff\xfe"}]}',
        b'{"signature_name":"classify","examples":[{"\xff":"a"}]}',
        b'{"signature_name":"\xff","examples":[{"text":"a"}]}',
    ],
)
def test_classify_takes_any_bytes(server: RunningServer, body: bytes) -> None:
    url = f"{server.rest_url}/v1/models/clf:classify"
    answer = requests.post(url, data=body, timeout=30)
    assert answer.status_code in (200, 400)
    assert "Internal" not in answer.text


def test_classify_takes_any_bytes_over_grpc(server: RunningServer) -> None:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "clf"
    request.model_spec.signature_name = "classify"
    example = request.input.example_list.examples.add()
    example.features.feature["text"].bytes_list.value.append(b"\xff\xfe")
    example.features.feature["other"].bytes_list.value.append(b"\xff")
    lacking = request.input.example_list.examples.add()
    lacking.features.feature["txt"].bytes_list.value.append(b"\xff")
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Classify(request, timeout=30)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        del request.input.example_list.examples[1]
        assert len(stub.Classify(request, timeout=30).result.classifications) == 1


def test_undecodable_messages_are_refused_quietly(server: RunningServer) -> None:
    logged = server.log.read_text()
    with grpc.insecure_channel(server.grpc_address) as channel:
        for method in (
            "/tensorflow.serving.PredictionService/Predict",
            "/tensorflow.serving.PredictionService/Classify",
            "/tensorflow.serving.ModelService/GetModelStatus",
            "/grpc.health.v1.Health/Check",
        ):
            call = channel.unary_unary(method)
            with pytest.raises(grpc.RpcError) as caught:
                call(b"\x0a\xff\xff\xff\xff", timeout=30)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, method
    assert "Traceback" not in server.log.read_text()[len(logged) :]


def page(server: RunningServer) -> str:
    url = f"{server.rest_url}/monitoring/prometheus/metrics"
    return requests.get(url, timeout=30).text


def test_invented_names_do_not_grow_the_metrics(server: RunningServer) -> None:
    def ask(number: int) -> None:
        for path in (f"invented{number}/labels/x", f"invented{number}"):
            for body in (b"{", b'{"instances":["a"]}'):
                url = f"{server.rest_url}/v1/models/{path}:predict"
                session.post(url, data=body, timeout=30)
        request = predict_pb2.PredictRequest()
        json_format.ParseDict(
            {"modelSpec": {"name": f"invented{number}", "versionLabel": "x"}}, request
        )
        with pytest.raises(grpc.RpcError):
            stub.Predict(request, timeout=30)

    with (
        requests.Session() as session,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        ask(0)
        before = page(server)
        for number in range(1, 50):
            ask(number)
    after = page(server)
    families = {family.name: family for family in text_string_to_metric_families(after)}
    assert families[":tensorflow:serving:request_latency"].type == "histogram"
    assert {
        sample.name for sample in families[":tensorflow:serving:request_count"].samples
    }
    assert "invented" not in after
    assert len(after.splitlines()) == len(before.splitlines())


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/v1/models/clf:PREDICT", {}),
        ("POST", "/v1/models/clf:Classify", {}),
        ("OPTIONS", "/v1/models/clf:predict", {}),
        ("OPTIONS", "/v1/models/clf:predict", {"Origin": "null"}),
        ("PATCH", "/v1/models/clf", {}),
        ("BREW", "/v1/models/clf", {}),
        ("GET", "/v1/models/clf:predict", {}),
        ("POST", "/v1/models/clf/metadata", {}),
        ("POST", "/v1/models/clf:multiInference", {}),
    ],
)
def test_what_the_stock_server_does_not_know(
    server: RunningServer, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = requests.request(
        method, f"{server.rest_url}{path}", data=b"{}", headers=headers, timeout=30
    )
    assert answer.status_code == 400
    assert f"Malformed request: {method}" in answer.json()["error"]


def test_paths_match_without_regard_to_case(server: RunningServer) -> None:
    answer = requests.post(
        f"{server.rest_url}/V1/Models/clf:predict",
        data=json.dumps({"instances": ["good"]}),
        timeout=30,
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("model", "signature", "method", "code"),
    [
        # As `classifier.cc` and `regressor.cc` of the stock server look at them: how
        # many inputs, how many outputs, the input's name, the outputs' names.
        ("clf", "nope", "Classify", "INVALID_ARGUMENT"),
        ("clf", "nope", "Regress", "INVALID_ARGUMENT"),
        ("clf", "tokens", "Classify", "INVALID_ARGUMENT"),
        ("clf", "tokens", "Regress", "INVALID_ARGUMENT"),
        ("numbers", "serving_default", "Classify", "INVALID_ARGUMENT"),
        ("numbers", "nothing", "Classify", "INVALID_ARGUMENT"),
        ("clf", "serving_default", "Classify", "FAILED_PRECONDITION"),
        ("clf", "", "Classify", "FAILED_PRECONDITION"),
        ("clf", "scores_only", "Classify", "FAILED_PRECONDITION"),
        ("clf", "serving_default", "Regress", "INVALID_ARGUMENT"),
        ("clf", "scores_only", "Regress", "FAILED_PRECONDITION"),
        ("clf", "classify", "Regress", "INVALID_ARGUMENT"),
        ("numbers", "regress", "Classify", "FAILED_PRECONDITION"),
    ],
)
def test_wrong_signatures(
    server: RunningServer, model: str, signature: str, method: str, code: str
) -> None:
    request: Any = classification_pb2.ClassificationRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    request.input.example_list.examples.add()
    with grpc.insecure_channel(server.grpc_address) as channel:
        call = channel.unary_unary(f"/tensorflow.serving.PredictionService/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=30)
        assert caught.value.code().name == code
    # REST has one status for both.
    answer = requests.post(
        f"{server.rest_url}/v1/models/{model}:{method.lower()}",
        json={"signature_name": signature, "examples": [{}]},
        timeout=30,
    )
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("signature", "inputs", "code"),
    [
        ("nope", ("text",), "FAILED_PRECONDITION"),
        ("__saved_model_init_op", (), "FAILED_PRECONDITION"),
        ("serving_default", (), "INVALID_ARGUMENT"),
        ("serving_default", ("text", "more"), "INVALID_ARGUMENT"),
        ("tokens", ("text",), "INVALID_ARGUMENT"),
        # Examples are texts, but no readable ones.
        ("classify", ("inputs",), "INVALID_ARGUMENT"),
    ],
)
def test_wrong_signatures_of_predict(
    server: RunningServer, signature: str, inputs: tuple[str, ...], code: str
) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "clf"
    request.model_spec.signature_name = signature
    for name in inputs:
        request.inputs[name].CopyFrom(tf.make_tensor_proto(["no Example"]))
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Predict(request, timeout=30)
    assert caught.value.code().name == code
    columns = {name: ["no Example"] for name in inputs}
    answer = requests.post(
        f"{server.rest_url}/v1/models/clf:predict",
        json={"signature_name": signature, "inputs": columns},
        timeout=30,
    )
    # In columns REST ignores what the signature lacks, as the stock server does.
    assert answer.status_code == (200 if "more" in inputs else 400)
