"""The REST API: from a path and a body to a status and an answer."""

import logging
import re
import threading
import time
import zlib
from contextlib import nullcontext
from dataclasses import dataclass
from urllib.parse import unquote

from serving.server import model_info
from serving.server.demo import Demo
from serving.server.inference import Inference, ModelSpec
from serving.server.json_examples import serialized_examples
from serving.server.json_parser import parse_object, show
from serving.server.json_responses import (
    classify_response,
    error_response,
    predict_response,
    regress_response,
)
from serving.server.json_tensors import predict_inputs
from serving.server.metrics import Metrics
from serving.server.status import Code, ServingError, invalid_argument

_log = logging.getLogger(__name__)

JSON_TYPE = "application/json"
# Bodies of more bytes are parsed, answers of more values written, a few at a time.
_LARGE_BODY = 2**20
_LARGE_ANSWER = 2**17
_ORIGIN = re.compile(r"https?://.*", re.DOTALL)
_API = re.compile(r"/v1/.*", re.IGNORECASE | re.DOTALL)
_MODEL = (
    r"/v1/models/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
)
_PREDICTION = re.compile(
    # Upstream matches without regard to case, then compares the verb exactly.
    _MODEL + ":(?P<verb>(?-i:classify|regress|predict))",
    re.IGNORECASE | re.ASCII,
)
_STATUS = re.compile(
    _MODEL.replace("/(?P<name>[^/:]+)", "(?:/(?P<name>[^/:]+))?")
    + "(?:/(?P<metadata>metadata))?",
    re.IGNORECASE | re.ASCII,
)
_NOT_FOUND_PAGE = (
    b"<html><head><title>404 Not Found</title></head>"
    b"<body><h1>Not Found</h1></body></html>"
)


@dataclass(frozen=True)
class Response:
    """An answer: HTTP status, content type, body."""

    status: int
    content_type: str
    body: bytes


class RestApi:
    """Answers requests; knows nothing of sockets.

    Args:
        inference: finds and runs models.
        metrics: counts requests.
        metrics_path: where the metrics are served, or None.
        max_body_bytes: the most that a compressed body may grow to.
        demo: a page to try the models; None: there is none.
    """

    def __init__(
        self,
        inference: Inference,
        metrics: Metrics,
        metrics_path: str | None,
        max_body_bytes: int,
        demo: Demo | None = None,
    ) -> None:
        self._demo = demo
        self._inference = inference
        self._metrics = metrics
        self._metrics_path = metrics_path
        self._max_body_bytes = max_body_bytes
        # Compressed bodies count little while they wait, and as Python's lists a large
        # one takes twenty times its size: few are unpacked and parsed at a time.
        self._parsed = threading.BoundedSemaphore(2)
        # A large answer, too, takes ten times its size as lists and text.
        self._written = threading.BoundedSemaphore(2)

    def handle(
        self,
        method: str,
        target: str,
        body: bytes,
        encoding: str = "",
        origin: str = "",
    ) -> Response:
        """Answers one request.

        Args:
            method: ``GET``, ``POST`` and so on.
            target: path and query string as they were sent: TF Serving matches both.
            body: the body as it was sent.
            encoding: the ``Content-Encoding`` header.
            origin: the ``Origin`` header; without one OPTIONS means nothing.
        """
        if method == "GET" and target == self._metrics_path:
            text = self._metrics.text().encode()
            return Response(200, "text/plain; version=0.0.4", text)
        if not _API.fullmatch(target):
            if self._demo is not None:
                try:
                    answer = self._demo.answer(method, target, body)
                except ServingError as error:
                    return _failure(error)
                if answer is not None:
                    return Response(200, *answer)
            return Response(404, "text/html", _NOT_FOUND_PAGE)
        if method == "OPTIONS" and _ORIGIN.fullmatch(origin):
            return Response(200, "text/plain", b"")
        try:
            return Response(
                200, JSON_TYPE, self._answer(method, target, body, encoding)
            )
        except ServingError as error:
            return _failure(error)
        except (RecursionError, MemoryError) as error:
            return _failure(invalid_argument(f"The request is too large: {error!r}"))
        except Exception as error:
            _log.exception("%s %s failed", method, target)
            return _failure(ServingError(Code.INTERNAL, f"Internal error: {error!r}"))

    def _answer(self, method: str, target: str, body: bytes, encoding: str) -> bytes:
        if method == "POST" and (match := _PREDICTION.fullmatch(target)):
            spec, verb = _spec(match), match["verb"]
            started = time.perf_counter()
            code = Code.INTERNAL
            try:
                large = encoding or len(body) > _LARGE_BODY
                with self._parsed if large else nullcontext():
                    answer = self._run(verb, spec, self._decompress(body, encoding))
                code = Code.OK
            except ServingError as error:
                code = error.code
                raise
            finally:
                # Names that do not exist are the client's: they are not kept.
                known = self._inference.repository.has(spec.name)
                self._metrics.record(
                    spec.name if known else "",
                    code,
                    verb.capitalize(),
                    "REST",
                    (time.perf_counter() - started) * 1e6,
                )
            return answer
        if method == "GET" and (match := _STATUS.fullmatch(target)):
            if not match["name"]:
                raise invalid_argument("Missing model name in request.")
            spec = _spec(match)
            if match["metadata"]:
                return model_info.metadata_json(
                    model_info.metadata(
                        self._inference, spec, [model_info.SIGNATURE_DEF]
                    )
                )
            statuses = self._inference.repository.status(spec.name, spec.version)
            return model_info.status_json(model_info.status(statuses))
        raise invalid_argument(f"Malformed request: {method} {target}")

    def _run(self, verb: str, spec: ModelSpec, body: bytes) -> bytes:
        document = parse_object(body)
        signature_name = document.get("signature_name", "")
        if not isinstance(signature_name, str):
            raise invalid_argument(
                f"JSON Value: {show(document)} not formatted correctly. "
                "'signature_name' key must be a string value."
            )
        if verb != "predict":
            examples = serialized_examples(document, self._inference.limits)
            with self._inference.model(spec) as model:
                if verb == "classify":
                    return classify_response(*model.classify(signature_name, examples))
                return regress_response(model.regress(signature_name, examples))
        with self._inference.model(spec) as model:
            name = ModelSpec(spec.name, signature=signature_name).signature_name
            signature = model.servable.signatures.get(name)
            if signature is None:
                raise invalid_argument(
                    f'Serving signature name: "{name}" not found in signature def'
                )
            if not signature.inputs:
                raise invalid_argument(f"Failed to get input map for signature: {name}")
            rows, inputs = predict_inputs(
                document,
                {key: tensor.dtype for key, tensor in signature.inputs.items()},
            )
            outputs = model.run(signature, inputs)
        large = sum(array.size for array in outputs.values()) > _LARGE_ANSWER
        with self._written if large else nullcontext():
            return predict_response(outputs, rows)

    def _decompress(self, body: bytes, encoding: str) -> bytes:
        if encoding.lower() not in ("gzip", "x-gzip"):
            return body
        decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            plain = decompressor.decompress(body, self._max_body_bytes)
        except zlib.error as error:
            raise invalid_argument(f"The body is not valid gzip: {error}") from None
        if decompressor.unconsumed_tail:
            raise invalid_argument(
                f"The uncompressed body is larger than {self._max_body_bytes} bytes"
            )
        if not decompressor.eof:
            raise invalid_argument("The body is not valid gzip: it is cut short")
        return plain


def _spec(match: re.Match[str]) -> ModelSpec:
    version = match["version"]
    if version is not None and int(version) >= 2**63:
        raise invalid_argument(f"Failed to convert version: {version} to numeric.")
    label = match["label"]
    return ModelSpec(
        unquote(match["name"]),
        None if version is None else int(version),
        None if label is None else unquote(label),
    )


def _failure(error: ServingError) -> Response:
    return Response(error.http_status, JSON_TYPE, error_response(error.message))
