"""The deployment files: what can be checked of them without a cluster."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import requests
import yaml

from serving.server.batching_config import (
    read_batching_config,
    read_monitoring_config,
)
from serving.server.model_config import Specific, read_models_config
from tests.paths import REPOSITORY
from tests.serving.running_server import RunningServer

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
    # X09
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


def test_compose_matches_its_schema() -> None:
    import check_jsonschema

    folder = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "compose-spec.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    (compose,) = documents("docker-compose.yaml")
    assert [error.message for error in validator.iter_errors(compose)] == []
    # A schema that takes anything would show nothing.
    compose["services"]["serving"]["volums"] = []
    assert list(validator.iter_errors(compose))


def validate(document: dict[str, Any]) -> None:
    import kubernetes_validate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kubernetes_validate.validate(document, "1.34", strict=True)


def test_kubernetes_objects_match_their_schemas() -> None:
    import kubernetes_validate

    objects = documents("k8s.yaml")
    kinds = [document["kind"] for document in objects]
    assert kinds == ["Deployment", "Service", "PodDisruptionBudget"]
    for document in objects:
        validate(document)
    labels = objects[0]["spec"]["template"]["metadata"]["labels"]
    assert objects[2]["spec"]["selector"]["matchLabels"] == labels
    assert objects[2]["spec"]["minAvailable"] < objects[0]["spec"]["replicas"]
    objects[0]["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(objects[0])


def test_kserve_containers_match_the_schema_of_pods() -> None:
    """KServe's own schemas are in no package; what it hands to Kubernetes can be."""
    runtime, service = documents("kserve.yaml")
    model = service["spec"]["predictor"]["model"]
    container = dict(runtime["spec"]["containers"][0])
    container["readinessProbe"] = model["readinessProbe"]
    validate(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": {
                "containers": [
                    container,
                    {**container, "name": "b", "resources": model["resources"]},
                ]
            },
        }
    )
    assert model["runtime"] == runtime["metadata"]["name"]


def closed(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


TEXT, FLAG, COUNT = ({"type": kind} for kind in ("string", "boolean", "integer"))
ANYTHING: dict[str, Any] = {}  # of Kubernetes: checked as parts of a pod, above
PROTOCOLS = {"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
NAMED = closed("name", name=NAME)
# Of the fields that KServe's definitions (v1alpha1, v1beta1) have, those used here.
KSERVE = {
    "ServingRuntime": closed(
        "apiVersion kind metadata spec",
        apiVersion={"const": "serving.kserve.io/v1alpha1"},
        kind=TEXT,
        metadata=NAMED,
        spec=closed(
            "containers",
            supportedModelFormats={
                "type": "array",
                "items": closed(
                    "name", name=TEXT, version=TEXT, autoSelect=FLAG, priority=COUNT
                ),
            },
            protocolVersions={"type": "array", "items": PROTOCOLS},
            containers={"type": "array", "minItems": 1, "items": ANYTHING},
        ),
    ),
    "InferenceService": closed(
        "apiVersion kind metadata spec",
        apiVersion={"const": "serving.kserve.io/v1beta1"},
        kind=TEXT,
        metadata=NAMED,
        spec=closed(
            "predictor",
            predictor=closed(
                "model",
                minReplicas=COUNT,
                model=closed(
                    "modelFormat",
                    modelFormat=closed("name", name=TEXT, version=TEXT),
                    runtime=TEXT,
                    protocolVersion=PROTOCOLS,
                    storageUri={"type": "string", "pattern": "^(pvc|gs|s3|https?)://"},
                    readinessProbe=ANYTHING,
                    resources=ANYTHING,
                ),
            ),
        ),
    ),
}


def test_kserve_objects_match_their_definitions() -> None:
    objects = documents("kserve.yaml")
    assert [document["kind"] for document in objects] == list(KSERVE)
    for document in objects:
        jsonschema.validate(document, KSERVE[document["kind"]])
    objects[1]["spec"]["predictor"]["model"]["storageURI"] = "pvc://a"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(objects[1], KSERVE["InferenceService"])


METRIC = re.compile(r":tensorflow:serving:\w+")
# Of the stock image, with the labels it gives them.
STOCK = {
    ":tensorflow:serving:request_count": {"model_name", "status"},
    ":tensorflow:serving:request_latency": {"model_name", "API", "entrypoint", "le"},
}


def expressions() -> list[str]:
    (rules,) = documents("prometheus-rules.yaml")
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return [
        *(rule["expr"] for group in rules["groups"] for rule in group["rules"]),
        *(t["expr"] for panel in dashboard["panels"] for t in panel["targets"]),
    ]


def test_rules_are_rules() -> None:
    (document,) = documents("prometheus-rules.yaml")
    assert set(document) == {"groups"}
    names = []
    for group in document["groups"]:
        assert set(group) == {"name", "rules"}
        for rule in group["rules"]:
            kind = {"record", "alert"} & set(rule)
            assert len(kind) == 1
            assert set(rule) <= {*kind, "expr", "for", "labels", "annotations"}
            names.append(rule[kind.pop()])
            assert rule["expr"].count("(") == rule["expr"].count(")")
            assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
    assert len(set(names)) == len(names)


def test_metrics_and_labels_are_those_of_both_servers(server: RunningServer) -> None:
    """What a rule asks for must be on the page, else it never fires."""
    url = f"{server.rest_url}/v1/models/clf:predict"
    requests.post(url, json={"instances": ["good"]}, timeout=30)
    page = requests.get(
        f"{server.rest_url}/monitoring/prometheus/metrics", timeout=30
    ).text
    recorded = {"clf:errors:ratio5m", "clf:latency_us:p99_5m", "clf:requests:rate5m"}
    found = expressions()
    assert len(found) > 8
    for expression in found:
        names = METRIC.findall(expression)
        assert (
            names or any(name in expression for name in recorded) or "up{" in expression
        )
        for name in names:
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            base = name if name in STOCK else base
            assert base in STOCK, name
            assert f"\n{name}{{" in page
            asked = re.findall(r"(\w+)(?:=~|!=|=)\"", expression)
            grouped = ",".join(re.findall(r"by \(([^)]*)\)", expression)).split(",")
            labels = {*asked, *(label.strip() for label in grouped if label.strip())}
            assert labels <= STOCK[base], expression


def test_panels_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) == len(set(ids))
