"""The deployment files: what can be checked of them without a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from serving.server.batching_config import (
    read_batching_config,
    read_monitoring_config,
)
from serving.server.model_config import Specific, read_models_config
from tests.paths import REPOSITORY

DEPLOY = REPOSITORY / "serving" / "deploy"
IMAGE = "tensorflow/serving:2.20.0"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_the_embedded_server_reads_them() -> None:
    (first,) = read_models_config(DEPLOY / "models.config")
    # It must start with whatever a first export has made.
    assert first.wanted([1]) == [1]
    assert first.labels == {}
    models = read_models_config(DEPLOY / "models.canary.config")
    assert [model.name for model in models] == ["clf"]
    assert isinstance(models[0].policy, Specific)
    assert set(models[0].labels.values()) <= set(models[0].policy.versions)
    batching = read_batching_config(DEPLOY / "batching.config")
    assert batching.allowed_batch_sizes[-1] == batching.max_batch_size
    path = read_monitoring_config(DEPLOY / "monitoring.config")
    assert path == "/monitoring/prometheus/metrics"


def test_labels_at_start_up_are_allowed() -> None:
    """Without the flag the stock server refuses labels in its first configuration."""
    flag = "--allow_version_labels_for_unavailable_models=true"
    assert flag in documents("docker-compose.yaml")[0]["services"]["serving"]["command"]
    container = documents("k8s.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    assert flag in container["args"]


def test_flags_and_files_go_together() -> None:
    """Upstream takes a batching file without --enable_batching for an error."""
    compose = documents("docker-compose.yaml")[0]["services"]["serving"]
    container = documents("k8s.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    for flags in (compose["command"], container["args"]):
        assert "--enable_batching=true" in flags
        named = [flag.split("=")[1] for flag in flags if "/config/" in flag]
        assert all((DEPLOY / Path(path).name).is_file() for path in named)
        assert len(named) == 3
        assert "--enable_profiler=false" in flags


def test_threads_are_named_wherever_the_server_runs() -> None:
    """In a container it may count the cores of the machine."""
    compose = documents("docker-compose.yaml")[0]["services"]["serving"]["command"]
    pod = documents("k8s.yaml")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    runtime = documents("kserve.yaml")[0]["spec"]["containers"][0]["args"]
    for flags in (compose, pod, runtime):
        values = dict(flag.split("=", 1) for flag in flags)
        assert int(values["--rest_api_num_threads"]) > 1
        for name in ("intra", "inter"):
            assert int(values[f"--tensorflow_{name}_op_parallelism"]) >= 1


def test_probes_ask_for_a_loaded_model() -> None:
    page = "/v1/models/clf/metadata"
    container = documents("k8s.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == page
    kserve = documents("kserve.yaml")[1]["spec"]["predictor"]["model"]
    assert kserve["readinessProbe"]["httpGet"] == {"path": page, "port": 8080}
    compose = documents("docker-compose.yaml")[0]["services"]["serving"]
    assert page in compose["healthcheck"]["test"][-1]


def test_one_pinned_image_and_loopback_ports() -> None:
    compose = documents("docker-compose.yaml")[0]["services"]["serving"]
    container = documents("k8s.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    runtime = documents("kserve.yaml")[0]["spec"]["containers"][0]
    assert {compose["image"], container["image"], runtime["image"]} == {IMAGE}
    assert all(port.startswith("127.0.0.1:") for port in compose["ports"])


def test_the_storage_uri_names_the_folder_above_the_versions() -> None:
    uri = documents("kserve.yaml")[1]["spec"]["predictor"]["model"]["storageUri"]
    assert not uri.rstrip("/").rsplit("/", 1)[1].isdigit()


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.yaml")), ids=lambda p: p.name)
def test_names_are_used_as_defined(path: Path) -> None:
    """Volumes, ports and selectors name what is there."""
    for document in documents(path.name):
        if document.get("kind") != "Deployment":
            continue
        pod = document["spec"]["template"]
        assert document["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            assert {m["name"] for m in container["volumeMounts"]} == volumes
            ports = {port["name"] for port in container["ports"]}
            assert container["readinessProbe"]["httpGet"]["port"] in ports
