"""The methods of the gRPC API: PredictionService and ModelService."""

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from common.command_line import CommandError
from serving.server import model_info
from serving.server.inference import Inference, ModelSpec
from serving.server.metrics import Metrics
from serving.server.model_config import ModelConfig, models_from_proto
from serving.server.status import (
    GRPC_MESSAGE_LIMIT,
    Code,
    ServingError,
    invalid_argument,
)
from serving.server.tensor_protos import fill_proto, to_array
from serving.server.warm_up import serialized_inputs

_log = logging.getLogger(__name__)

_STATUS = {code.value[0]: code for code in grpc.StatusCode}

Result = TypeVar("Result")
Reload = Callable[[list[ModelConfig]], None]


def _call(
    context: grpc.ServicerContext,
    compute: Callable[[], Result],
    record: Callable[[Code], None] = lambda code: None,
) -> Result:
    """Runs a method and turns its errors into gRPC statuses."""
    try:
        result = compute()
    except ServingError as error:
        code, message = error.code, error.message
    except Exception as error:
        _log.exception("a gRPC request failed")
        code, message = Code.INTERNAL, f"Internal error: {error!r}"
    else:
        record(Code.OK)
        return result
    record(code)
    context.abort(_STATUS[int(code)], message[:GRPC_MESSAGE_LIMIT])
    raise AssertionError("abort always raises")


def _spec(message: Any) -> ModelSpec:
    """Reads the ModelSpec of a request."""
    if not message.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    spec = message.model_spec
    if not spec.name:
        raise invalid_argument("ModelSpec has no name specified.")
    choice = spec.WhichOneof("version_choice")
    return ModelSpec(
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
        spec.signature_name,
    )


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predicts, classifies, regresses, and tells the signatures."""

    def __init__(self, inference: Inference, metrics: Metrics) -> None:
        self._inference = inference
        self._metrics = metrics

    def Predict(  # noqa: N802  the name is the service's
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        """Runs any signature."""
        return self._timed(context, request, "Predict", self._predict)

    def Classify(  # noqa: N802
        self,
        request: classification_pb2.ClassificationRequest,
        context: grpc.ServicerContext,
    ) -> classification_pb2.ClassificationResponse:
        """Runs a classification signature on Examples."""
        return self._timed(context, request, "Classify", self._classify)

    def Regress(  # noqa: N802
        self, request: regression_pb2.RegressionRequest, context: grpc.ServicerContext
    ) -> regression_pb2.RegressionResponse:
        """Runs a regression signature on Examples."""
        return self._timed(context, request, "Regress", self._regress)

    def GetModelMetadata(  # noqa: N802
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.ServicerContext,
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Tells a loaded version's signatures."""
        return _call(
            context,
            lambda: model_info.metadata(
                self._inference, _spec(request), list(request.metadata_field)
            ),
        )

    def _timed(
        self,
        context: grpc.ServicerContext,
        request: Any,
        api: str,
        compute: Callable[[Any], Result],
    ) -> Result:
        started = time.perf_counter()

        def record(code: Code) -> None:
            name = request.model_spec.name
            self._metrics.record(
                name if self._inference.repository.has(name) else "",
                code,
                api,
                "GRPC",
                (time.perf_counter() - started) * 1e6,
            )

        return _call(context, lambda: compute(request), record)

    def _predict(
        self, request: predict_pb2.PredictRequest
    ) -> predict_pb2.PredictResponse:
        spec = _spec(request)
        with self._inference.model(spec) as model:
            signature = model.servable.signatures.get(spec.signature_name)
            if signature is None:
                raise ServingError(
                    Code.FAILED_PRECONDITION,
                    f'Serving signature key "{spec.signature_name}" not found.',
                )
            sent, expected = set(request.inputs), set(signature.inputs)
            if sent != expected:
                raise invalid_argument(
                    f"input size does not match signature: {len(sent)}!="
                    f"{len(expected)} len({{{_join(sent)}}}) != "
                    f"len({{{_join(expected)}}}). Sent extra: "
                    f"{{{_join(sent - expected)}}}. Missing but required: "
                    f"{{{_join(expected - sent)}}}."
                )
            names = list(request.output_filter)
            for name in names:
                if name not in signature.outputs:
                    raise invalid_argument(
                        f"output tensor alias not found in signature: {name} Outputs "
                        f"expected to be in the set {{{_join(signature.outputs)}}}."
                    )
                if names.count(name) > 1:
                    raise invalid_argument(f"duplicate output tensor alias: {name}")
            arrays = {
                name: to_array(name, proto, self._inference.limits)
                for name, proto in request.inputs.items()
            }
            outputs = model.run(signature, arrays, names or None)
            response = predict_pb2.PredictResponse()
            _fill_spec(response.model_spec, spec, model.version)
        for name, array in outputs.items():
            fill_proto(array, response.outputs[name])
        return response

    def _classify(
        self, request: classification_pb2.ClassificationRequest
    ) -> classification_pb2.ClassificationResponse:
        spec = _spec(request)
        response = classification_pb2.ClassificationResponse()
        with self._inference.model(spec) as model:
            classes, scores = model.classify(
                spec.signature, serialized_inputs(request.input, self._inference.limits)
            )
            _fill_spec(response.model_spec, spec, model.version)
        columns = classes if classes is not None else scores
        rows, width = columns.shape if columns is not None else (0, 0)
        for row in range(rows):
            entry = response.result.classifications.add()
            for column in range(width):
                entry.classes.add(
                    label=None if classes is None else classes[row, column],
                    score=None if scores is None else scores[row, column],
                )
        return response

    def _regress(
        self, request: regression_pb2.RegressionRequest
    ) -> regression_pb2.RegressionResponse:
        spec = _spec(request)
        response = regression_pb2.RegressionResponse()
        with self._inference.model(spec) as model:
            values = model.regress(
                spec.signature, serialized_inputs(request.input, self._inference.limits)
            )
            _fill_spec(response.model_spec, spec, model.version)
        for value in values:
            response.result.regressions.add(value=value)
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Tells the versions' states, and takes a new configuration."""

    def __init__(self, inference: Inference, reload: Reload | None) -> None:
        self._inference = inference
        self._reload = reload

    def GetModelStatus(  # noqa: N802
        self,
        request: get_model_status_pb2.GetModelStatusRequest,
        context: grpc.ServicerContext,
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Tells the states of a model's versions."""

        def compute() -> get_model_status_pb2.GetModelStatusResponse:
            if not request.HasField("model_spec"):
                raise invalid_argument("Missing ModelSpec")
            spec = request.model_spec
            version = spec.version.value if spec.HasField("version") else None
            return model_info.status(
                self._inference.repository.status(spec.name, version)
            )

        return _call(context, compute)

    def HandleReloadConfigRequest(  # noqa: N802
        self,
        request: model_management_pb2.ReloadConfigRequest,
        context: grpc.ServicerContext,
    ) -> model_management_pb2.ReloadConfigResponse:
        """Replaces the configuration, if callers may."""

        def compute() -> model_management_pb2.ReloadConfigResponse:
            if request.config.WhichOneof("config") != "model_config_list":
                raise invalid_argument(
                    "ServerModelConfig type not supported by HandleReloadConfigRequest."
                    " Only ModelConfigList is currently supported"
                )
            if self._reload is None:
                raise ServingError(
                    Code.PERMISSION_DENIED,
                    "Reloading the configuration over gRPC is off, as it lets a caller "
                    "run any graph on this machine (serve --allow-reload-config)",
                )
            try:
                self._reload(models_from_proto(request.config))
            except CommandError as error:
                raise invalid_argument(str(error)) from error
            return model_management_pb2.ReloadConfigResponse()

        return _call(context, compute)


def _fill_spec(message: Any, spec: ModelSpec, version: int) -> None:
    message.name = spec.name
    message.signature_name = spec.signature_name
    message.version.value = version


def _join(names: Any) -> str:
    return ",".join(sorted(names))
