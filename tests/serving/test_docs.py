"""The examples of docs/serving.md, run as they are written."""

import contextlib
import io
import json
import re
import shutil
import subprocess

import pytest

from serving.serve import add_arguments
from serving.server.batching_config import read_batching_config
from serving.server.text_proto import BatchingParameters
from tests.paths import REPOSITORY
from tests.serving.running_server import RunningServer

pytestmark = pytest.mark.serving

PAGE = (REPOSITORY / "docs" / "serving.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


def adapted(text: str, server: RunningServer) -> str:
    """Puts the test server's addresses in the place of the default ones."""
    text = text.replace("http://127.0.0.1:8501", server.rest_url)
    text = text.replace("/v1/models/clf", "/v1/models/own")
    return text.replace("grpc://127.0.0.1:8500", f"grpc://{server.grpc_address}")


@pytest.mark.parametrize(
    "block",
    [text for kind, text in BLOCKS if kind == "bash"],
    ids=["rows", "columns", "tokens", "classify", "other-models", "others"],
)
@pytest.mark.export
def test_curl_commands(own_server: RunningServer, block: str) -> None:
    # X14: as they are written, on what this project exports.
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    commands = re.split(r"\n(?=curl )", block.strip())
    for command in commands:
        result = subprocess.run(
            ["bash", "-c", f"{adapted(command, own_server)} --fail-with-body"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        if "monitoring" in command:
            assert ":tensorflow:serving:request_count" in result.stdout
            continue
        answer = json.loads(result.stdout)
        assert "error" not in answer
        if "instances" in command:
            keys = answer["predictions"][0].keys()
            assert keys in ({"scores", "label"}, {"scores", "tokens"}) or (
                {"answer", "start", "end", "score"} < keys
            )


def test_python_example(server: RunningServer) -> None:
    (source,) = [text for kind, text in BLOCKS if kind == "python"]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(adapted(source, server), {})
    lines = output.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1]
    assert lines[0].startswith("100 ")


def test_json_examples_are_json() -> None:
    for kind, text in BLOCKS:
        if kind == "json":
            json.loads(text)


def test_named_options_exist() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    known = set(re.findall(r"--[a-z-]+", parser.format_help()))
    named = set(re.findall(r"`(--[a-z-]+)[ `]", PAGE))
    assert {"--model", "--batching", "--poll-config"} <= named
    assert named <= known | {"--concurrency", "--url", "--texts", "--figure"}


def test_the_shown_models_config_is_the_deployed_one() -> None:
    (shown,) = [text for kind, text in BLOCKS if text.startswith("model_config_list")]
    deployed = (REPOSITORY / "serving" / "deploy" / "models.canary.config").read_text()
    assert shown in deployed


def test_the_batching_table_names_real_fields() -> None:
    table = re.findall(r"^\| `(\w+)[ :].*?` \|", PAGE, re.MULTILINE)
    path = REPOSITORY / "serving" / "deploy" / "batching.config"
    assert read_batching_config(path).max_batch_size == 64
    assert len(table) == 7  # the rows whose first cell names a field
    assert set(table) <= set(BatchingParameters.DESCRIPTOR.fields_by_name)
