"""Toy models, the project's own exports, and the servers that most tests share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.client import RestClient
from serving.server.batching_config import BatchingConfig
from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import ModelConfig
from tests.export.models import Artefacts, done, session_artefacts
from tests.serving.running_server import RunningServer
from tests.serving.toy_models import add_warm_up, save_classifier, save_numbers

MODELS_CONFIG = """
model_config_list {{
  config {{
    name: "clf"
    base_path: "{base}/clf"
    model_platform: "tensorflow"
    model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    version_labels {{ key: "stable" value: 1 }}
    version_labels {{ key: "canary" value: 2 }}
  }}
  config {{ name: "numbers" base_path: "{base}/numbers" }}
}}
"""


OWN_CONFIG = """
  config {{
    name: "own"
    base_path: "{own}"
    model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    version_labels {{ key: "stable" value: 1 }}
    version_labels {{ key: "canary" value: 2 }}
  }}
  config {{ name: "spans" base_path: "{spans}" }}
  config {{ name: "words" base_path: "{words}" }}
}}
"""


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Artefacts:
    """The models and exports that the tests of `export` make, too."""
    return session_artefacts(tmp_path_factory)


@pytest.fixture(scope="session")
def own_export(artefacts: Artefacts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base folder of an exported classifier with the signature `scores_only`."""
    base = tmp_path_factory.mktemp("exports") / "own"
    done("saved-model", "--model", artefacts.model(), "--output", base, "--scores-only")
    return base


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``clf`` in two versions and ``numbers`` in one."""
    base = tmp_path_factory.mktemp("models")
    save_classifier(base / "clf" / "1", seed=1)
    save_classifier(base / "clf" / "2", seed=2)
    save_numbers(base / "numbers" / "1", factor=2.0, delay_s=0.5)
    add_warm_up(base / "clf" / "2", ["good", "bad movies"], "serving_default")
    return base


@pytest.fixture(scope="session")
def server_config(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration that `server` follows."""
    config = tmp_path_factory.mktemp("server") / "models.config"
    config.write_text(MODELS_CONFIG.format(base=models))
    return config


@pytest.fixture(scope="session")
def server(server_config: Path) -> Iterator[RunningServer]:
    """A server process with labels, batching off: what conformance is run against."""
    running = RunningServer(
        server_config.parent / "log",
        *("--config", str(server_config), "--poll-config", "--poll-seconds", "0.2"),
        "--stop-on-stdin-eof",
    )
    try:
        yield running
        # After all that the tests have done to it, it still ends as it should.
        assert running.stop(None)["stopped"] == "stdin"
    finally:
        running.kill()


@pytest.fixture(scope="session")
def own_server(
    server: RunningServer, server_config: Path, own_export: Path, artefacts: Artefacts
) -> RunningServer:
    """The same server with the project's own exports: `own`, `spans` and `words`."""
    if not (own_export / "2").exists():
        shutil.copytree(own_export / "1", own_export / "2.partial")
        (own_export / "2.partial").rename(own_export / "2")
    exports = {
        "own": own_export,
        "spans": artefacts.saved_model("span_predictor"),
        "words": artefacts.saved_model("masked_lm"),
    }
    partial = server_config.with_suffix(".partial")
    before = server_config.read_text().rstrip().removesuffix("}")
    partial.write_text(before + OWN_CONFIG.format(**exports))
    partial.rename(server_config)
    for name in exports:
        with RestClient(server.rest_url, name) as client:
            client.wait_until_ready(60)
    return server


@pytest.fixture(scope="session")
def batching_server(models: Path) -> Iterator[EmbeddedServer]:
    """A server in this process that batches, splits, and has a short queue."""
    options = ServerOptions(
        rest_port=0,
        grpc_port=0,
        batching=BatchingConfig(
            max_batch_size=8,
            batch_timeout_micros=50_000,
            num_batch_threads=1,
            max_enqueued_batches=2,
            allowed_batch_sizes=(2, 8),
            enable_large_batch_splitting=True,
        ),
    )
    configs = [ModelConfig(name, models / name) for name in ("clf", "numbers")]
    with EmbeddedServer(configs, options) as running:
        yield running
