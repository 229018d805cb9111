"""Toy models, and the two servers that most tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.server.batching_config import BatchingConfig
from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import ModelConfig
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
def server(
    models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """A server process with labels, batching off: what conformance is run against."""
    folder = tmp_path_factory.mktemp("server")
    config = folder / "models.config"
    config.write_text(MODELS_CONFIG.format(base=models))
    running = RunningServer(
        folder / "log", "--config", str(config), "--stop-on-stdin-eof"
    )
    try:
        yield running
        # After all that the tests have done to it, it still ends as it should.
        assert running.stop(None)["stopped"] == "stdin"
    finally:
        running.kill()


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
