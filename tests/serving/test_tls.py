"""TLS by flags, the warning without it, and the access log."""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import requests
import trustme
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from common.command_line import UsageError
from serving.client import ClientError, connect
from serving.server.access_log import AccessLog
from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import ModelConfig
from serving.server.tls import Tls, is_loopback

pytestmark = pytest.mark.serving


@dataclass
class Certificates:
    """PEM files: the authority, the server's and a client's."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    files = {"ca": folder / "ca.pem"}
    authority.cert_pem.write_to_path(str(files["ca"]))
    for name, host in (("server", "127.0.0.1"), ("client", "someone@example.org")):
        issued = authority.issue_cert(host)
        files[name], files[f"{name}_key"] = folder / f"{name}.pem", folder / f"{name}.k"
        for pem in issued.cert_chain_pems:
            pem.write_to_path(str(files[name]), append=True)
        issued.private_key_pem.write_to_path(str(files[f"{name}_key"]))
    return Certificates(**files)


@pytest.fixture(scope="module")
def secure(
    models: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedServer, Path]]:
    """A server with TLS, which wants to know its clients, and its access log."""
    log = tmp_path_factory.mktemp("log") / "access.jsonl"
    options = ServerOptions(
        rest_port=0,
        grpc_port=0,
        tls=Tls(certificates.server, certificates.server_key, certificates.ca),
        access_log=str(log),
    )
    with EmbeddedServer([ModelConfig("clf", models / "clf")], options) as running:
        yield running, log


@pytest.mark.parametrize("protocol", ["https", "grpcs"])
def test_clients_speak_tls(
    secure: tuple[EmbeddedServer, Path], certificates: Certificates, protocol: str
) -> None:
    server, _ = secure
    address = server.rest_url.split("//")[1]
    if protocol == "grpcs":
        address = server.grpc_address
    known = {"client_certificate": (certificates.client, certificates.client_key)}
    with connect(
        f"{protocol}://{address}", "clf", ca=certificates.ca, **known
    ) as client:
        assert client.predict(["good movie"])[0].keys() == {"scores", "label"}
    # Neither one that is unknown, nor one that does not know the server.
    for options in ({"ca": certificates.ca}, known):
        with (
            connect(f"{protocol}://{address}", "clf", timeout_s=1, **options) as client,
            pytest.raises(ClientError, match=r"SSL|ssl|UNAVAILABLE|Connection"),
        ):
            client.predict(["good"])


def test_the_clear_is_refused(secure: tuple[EmbeddedServer, Path]) -> None:
    server, _ = secure
    assert server.rest_url.startswith("https://")
    with pytest.raises(requests.ConnectionError):
        requests.get(server.rest_url.replace("https", "http"), timeout=5)
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
            stub.Predict(predict_pb2.PredictRequest(), timeout=5)


def test_the_access_log_has_a_line_a_request_and_no_text(
    secure: tuple[EmbeddedServer, Path], certificates: Certificates
) -> None:
    server, log = secure
    seen = len(log.read_text().splitlines())
    pair = (str(certificates.client), str(certificates.client_key))
    with requests.Session() as session:
        session.cert = pair
        url = f"{server.rest_url}/v1/models/clf"
        options: dict[str, Any] = {"timeout": 30, "verify": str(certificates.ca)}
        session.post(f"{url}:predict", json={"instances": ["a secret"]}, **options)
        session.post(f"{url}:predict", json={"secret": 1}, **options)
        session.get(f"{url}?who=secret", **options)
    known = {"client_certificate": (certificates.client, certificates.client_key)}
    with connect(
        f"grpcs://{server.grpc_address}", "clf", ca=certificates.ca, **known
    ) as client:
        client.predict(["a secret"])
        with pytest.raises(ClientError):
            client.predict([{"secret": "a"}])
    lines = [json.loads(line) for line in log.read_text().splitlines()[seen:]]
    statuses = [line["status"] for line in lines]
    assert statuses == [200, 400, 404, "OK", "INVALID_ARGUMENT"]
    assert [line["protocol"] for line in lines] == ["REST"] * 3 + ["gRPC"] * 2
    assert "secret" not in log.read_text()
    assert lines[0]["bytes_in"] == len('{"instances": ["a secret"]}')
    assert all(line["ms"] >= 0 and line["bytes_out"] >= 0 for line in lines)
    assert all("127.0.0.1" in line["client"] for line in lines)
    assert lines[3]["model"] == "clf"


def test_text_is_logged_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "access.jsonl"
    log = AccessLog(str(path), with_text=True)
    log.write(milliseconds=1.23456, text="a\nb", status=200)
    # Rotated: the next line goes to a new file of that name.
    path.rename(tmp_path / "old")
    log.write(milliseconds=2, text="x" * 5000, status=200)
    log.close()
    old = json.loads((tmp_path / "old").read_text())
    assert (old["text"], old["ms"], old["status"]) == ("a\nb", 1.235, 200)
    assert len(json.loads(path.read_text())["text"]) == 2000


def test_a_log_that_cannot_be_opened_is_wrong_usage(models: Path) -> None:
    options = ServerOptions(access_log=str(models / "none" / "log"))
    with pytest.raises(UsageError, match="--access-log"):
        EmbeddedServer([ModelConfig("clf", models / "clf")], options)


def test_wrong_files_name_their_flag(
    certificates: Certificates, tmp_path: Path
) -> None:
    good, key = certificates.server, certificates.server_key
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for files, flag in (
        (Tls(tmp_path / "none", key), "--tls-certificate"),
        (Tls(good, certificates.client_key), "--tls-key"),
        (Tls(good, key, empty), "--tls-client-ca"),
        (Tls(empty, key), "--tls-certificate"),
    ):
        with pytest.raises(UsageError, match=flag):
            files.check()
    Tls(good, key, certificates.ca).check()


def test_what_loopback_is() -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", ""):
        assert not is_loopback(host)


def test_a_warning_beyond_loopback(caplog: pytest.LogCaptureFixture) -> None:
    import argparse

    from serving.serve import add_arguments, warn_of_exposure

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    base = ["--model", "a=b"]
    pair = ["--tls-certificate", "c", "--tls-key", "k"]
    with caplog.at_level(logging.WARNING):
        warn_of_exposure(parser.parse_args(base))
        warn_of_exposure(parser.parse_args([*base, "--host", "0.0.0.0", *pair]))
        assert not caplog.records
        warn_of_exposure(parser.parse_args([*base, "--host", "0.0.0.0"]))
    assert "without TLS" in caplog.text
