"""Requests that nobody planned, against a server process: ``make fuzz``.

Hypothesis makes them from what the API knows (paths, keys, types, shapes) and from
what it does not. Of each: no 500, no INTERNAL or UNKNOWN, no crash; and every so often
a probe whose answer is known. The server runs under a limit of its memory.
"""

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.serving.running_server import RunningServer

_METHODS = ("Predict", "Classify", "Regress", "GetModelMetadata")
_NAMES = st.sampled_from(
    ["text", "text_pair", "inputs", "input_ids", "segment_ids", "padding_mask", "x"]
)
_SIGNATURES = st.sampled_from(
    ["", "serving_default", "tokens", "classify", "scores_only", "nope", "é", "\x00"]
)
_TEXTS = st.one_of(
    st.text(max_size=40), st.sampled_from(["good movie", "", "\ud7ff" * 3])
)
_LEAVES = st.one_of(
    _TEXTS,
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.builds(lambda text: {"b64": text}, st.text(max_size=12)),
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_NAMES, inner, max_size=3)
    ),
    max_leaves=12,
)
_BODIES = st.one_of(
    st.lists(_TEXTS, min_size=1, max_size=4).map(
        lambda texts: json.dumps({"instances": texts}).encode()
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "instances": st.one_of(_JSON, st.lists(_TEXTS, max_size=5)),
            "inputs": st.one_of(_JSON, st.dictionaries(_NAMES, _JSON, max_size=3)),
            "examples": st.lists(
                st.dictionaries(_NAMES, _LEAVES, max_size=2), max_size=3
            ),
            "context": st.dictionaries(_NAMES, _LEAVES, max_size=2),
            "signature_name": st.one_of(_SIGNATURES, _JSON),
        },
    ).map(lambda body: json.dumps(body).encode()),
    st.binary(max_size=60),
    st.builds(
        lambda body, cut: json.dumps(body).encode()[:cut],
        _JSON,
        st.integers(0, 60),
    ),
)
_PATHS = st.one_of(
    st.just("/v1/models/clf:predict"),
    st.sampled_from(
        [
            "/v1/models/clf:predict",
            "/v1/models/clf:classify",
            "/v1/models/clf:regress",
            "/v1/models/clf/versions/1:predict",
            "/v1/models/clf/labels/stable:predict",
            "/v1/models/clf/labels/none:predict",
            "/v1/models/clf/versions/99999999999999999999:predict",
            "/v1/models/none:predict",
            "/v1/models/clf",
            "/v1/models/clf/metadata",
            "/monitoring/prometheus/metrics",
            "/",
        ]
    ),
    st.text("/v1models:clf%_?é#", max_size=20).map(lambda text: "/" + text),
)
_VERBS = st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "OPTIONS", "BREW"])
_HEADERS = st.sampled_from([{}, {"Content-Encoding": "gzip"}, {"Origin": "http://x"}])

_SIZES = st.sampled_from([0, 1, 2, 3, 7, 50_000, 2**31, 2**62, -1])
_NUMBERS = st.integers(-(2**31), 2**31 - 1)


class WrongAnswerError(AssertionError):
    """A request was answered as none may be."""


class Fuzzer:
    """Sends requests and judges the answers.

    Args:
        server: serves `clf` with the signatures of an exported classifier.
    """

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.counts: Counter[str] = Counter()
        self._sent = 0
        self._channel = grpc.insecure_channel(server.grpc_address)
        self._rest = http.client.HTTPConnection(server.rest_url.split("//")[1])
        self._expected = self._probe()

    def rest(self, verb: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Sends a REST request; any answer but 500 and the like is right."""
        target = "".join(c if 33 <= ord(c) < 127 else "%C3%A9" for c in path)
        status, answer = self._ask(verb, target, body, headers)
        self.counts[f"REST {status}"] += 1
        if status in (500, 502, 504) or status >= 505:
            raise WrongAnswerError(
                f"{status} for {verb} {target} {body!r}: {answer[:300]!r}"
            )
        self._count()

    def grpc(self, method: str, message: bytes) -> None:
        """Sends a gRPC request; any code but INTERNAL and the like is right."""
        call = self._channel.unary_unary(
            f"/tensorflow.serving.PredictionService/{method}"
        )
        try:
            call(message, timeout=60)
            code, details = "OK", ""
        except grpc.RpcError as error:
            code, details = error.code().name, error.details()
        self.counts[f"gRPC {code}"] += 1
        if code in ("INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE"):
            raise WrongAnswerError(f"{code} for {method} {message!r}: {details}")
        self._count()

    def close(self) -> None:
        """Probes a last time and closes the connections."""
        self._check()
        self._rest.close()
        self._channel.close()

    def _count(self) -> None:
        self._sent += 1
        if self._sent % 100 == 0:
            self._check()

    def _check(self) -> None:
        answer = self._probe()
        if answer != self._expected:
            raise WrongAnswerError(
                f"the probe was answered {answer}, at first {self._expected}"
            )

    def _probe(self) -> Any:
        body = b'{"instances": ["good movie", "bad movies"]}'
        status, answer = self._ask("POST", "/v1/models/clf:predict", body, {})
        if status != 200:
            raise WrongAnswerError(f"the probe was answered {status}: {answer!r}")
        return json.loads(answer)

    def _ask(
        self, verb: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        for attempt in (1, 2):
            try:
                self._rest.request(verb, target, body, headers)
                response = self._rest.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, OSError) as error:
                self._rest.close()  # an answer may have closed it: once more
                if attempt == 2:
                    raise WrongAnswerError(
                        f"no answer to {verb} {target} {body!r}"
                    ) from error
        raise AssertionError


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Predict, Classify and Regress requests, whole or damaged."""
    from tensorflow_serving.apis import classification_pb2, predict_pb2

    if draw(st.integers(0, 3)) == 0:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "clf"
        # Well formed, but for the bytes of the texts, their number and its broadcast.
        texts = draw(st.lists(st.binary(max_size=30), min_size=1, max_size=4))
        tensor = request.inputs["text"]
        tensor.dtype = 7
        tensor.string_val.extend(texts)
        more = draw(st.sampled_from([0, 0, 0, 5, 200, 5000]))
        tensor.tensor_shape.dim.add(size=len(texts) + more)
        return request.SerializeToString()
    if draw(st.booleans()):
        request = predict_pb2.PredictRequest()
        for name in draw(st.lists(_NAMES, max_size=3)):
            _fill(draw, request.inputs[name])
        request.output_filter.extend(
            draw(st.lists(st.sampled_from(["scores", "label", "no"]), max_size=2))
        )
    else:
        request = classification_pb2.ClassificationRequest()
        for _ in range(draw(st.integers(0, 3))):
            example = request.input.example_list.examples.add()
            feature = example.features.feature[draw(_NAMES)]
            feature.bytes_list.value.extend(draw(st.lists(st.binary(max_size=9))))
    request.model_spec.name = draw(st.sampled_from(["clf", "clf", "clf", "", "none"]))
    request.model_spec.signature_name = draw(_SIGNATURES)
    if draw(st.booleans()):
        request.model_spec.version.value = draw(st.sampled_from([1, 2, 9, -1]))
    message = request.SerializeToString()
    if draw(st.integers(0, 9)) == 0:
        return message[: draw(st.integers(0, len(message)))] + draw(
            st.binary(max_size=4)
        )
    return message


def _fill(draw: st.DrawFn, tensor: Any) -> None:
    """Any type with any shape and values of any field, fewer or more than it claims."""
    tensor.dtype = draw(st.sampled_from([*range(24), 7, 7, 7, 3, 3, 101]))
    for size in draw(st.lists(_SIZES, max_size=3)):
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_shape.unknown_rank = draw(st.integers(0, 9)) == 0
    field = draw(
        st.sampled_from(["string_val", "int_val", "float_val", "tensor_content"])
    )
    if field == "string_val":
        tensor.string_val.extend(draw(st.lists(st.binary(max_size=20), max_size=3)))
    elif field == "int_val":
        tensor.int_val.extend(draw(st.lists(_NUMBERS, max_size=6)))
    elif field == "float_val":
        tensor.float_val.extend(draw(st.lists(st.floats(width=32), max_size=3)))
    else:
        tensor.tensor_content = draw(st.binary(max_size=24))


def fuzz(server: RunningServer, requests: int, number: int) -> Counter[str]:
    """Sends `requests`, half of them over gRPC; returns how they were answered.

    Raises:
        WrongAnswerError: for the first wrong answer, made as small as it can be.
    """
    fuzzer = Fuzzer(server)
    options = settings(
        max_examples=requests // 2,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )

    @seed(number)
    @options
    @given(_VERBS, _PATHS, _BODIES, _HEADERS)
    def rest(verb: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        fuzzer.rest(verb, path, body, headers)

    @seed(number)
    @options
    @given(st.sampled_from(["Predict", "Predict", *_METHODS]), messages())
    def over_grpc(method: str, message: bytes) -> None:
        fuzzer.grpc(method, message)

    rest()
    over_grpc()
    fuzzer.close()
    return fuzzer.counts


def main() -> int:
    """Starts a server on a toy export, fuzzes it, and prints how it answered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--memory-gb", type=float, default=8.0, help="address space")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--model", type=Path, help="an export to fuzz (default: a small one, made now)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = arguments.model
        if model is None:
            from tests.serving.toy_models import save_classifier

            model = folder / "clf"
            save_classifier(model / "1", seed=1)
        server = RunningServer(
            folder / "log",
            *("--model", f"clf={model}", "--stop-on-stdin-eof"),
            memory_bytes=int(arguments.memory_gb * 2**30),
        )
        try:
            before, started = server.resident_mb(), time.monotonic()
            counts = fuzz(server, arguments.requests, arguments.seed)
            report = {
                "requests": sum(counts.values()),
                "seconds": round(time.monotonic() - started, 1),
                "answers": dict(sorted(counts.items())),
                "resident_mb": [before, server.resident_mb()],
                "tracebacks": (folder / "log").read_text().count("Traceback"),
            }
            server.stop(None)
        finally:
            server.kill()
    print(json.dumps(report))
    return 1 if report["tracebacks"] else 0


if __name__ == "__main__":
    sys.exit(main())
