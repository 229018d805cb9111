"""The page of ``serve --demo``, by its parts and in a browser."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from serving.server.demo import PAGE
from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import ModelConfig
from tests.export.models import TEXTS, VOCABULARY
from tests.serving.running_server import RunningServer

pytestmark = [pytest.mark.serving, pytest.mark.export]


@pytest.fixture(scope="module")
def demo(models: Path, own_export: Path) -> Iterator[EmbeddedServer]:
    """The project's own export, and the toy models, with the page."""
    configs = [
        ModelConfig("own", own_export),
        ModelConfig("clf", models / "clf"),
        ModelConfig("numbers", models / "numbers"),
    ]
    options = ServerOptions(rest_port=0, grpc_port=0, demo=True)
    with EmbeddedServer(configs, options) as running:
        yield running


def test_without_the_flag_there_is_no_page(server: RunningServer) -> None:
    for path in ("/", "/demo/models"):
        assert requests.get(f"{server.rest_url}{path}", timeout=30).status_code == 404


def test_the_page_needs_nothing_from_elsewhere(demo: EmbeddedServer) -> None:
    answer = requests.get(f"{demo.rest_url}/", timeout=30)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert not re.search(r"https?://|src=|@import|url\(|innerHTML", PAGE.read_text())


def test_models_that_take_texts_are_offered(demo: EmbeddedServer) -> None:
    answer = requests.get(f"{demo.rest_url}/demo/models", timeout=30).json()
    assert [model["name"] for model in answer["models"]] == ["clf", "own"]
    own = answer["models"][1]
    assert own == {
        "name": "own",
        "pairs": False,
        "labels": ["negative", "neutral", "positive"],
    }


def test_tokens_are_those_that_the_model_reads(demo: EmbeddedServer) -> None:
    """Their ids, sent to the signature `tokens`, give the scores of the text."""
    url = f"{demo.rest_url}/v1/models/own:predict"
    for text in TEXTS:
        view = requests.post(
            f"{demo.rest_url}/demo/tokens",
            json={"model": "own", "text": text},
            timeout=30,
        ).json()
        assert view["limit"] == 40
        tokens = view["tokens"]
        if len(tokens) > view["limit"]:
            tokens = [*tokens[: view["limit"] - 1], "[SEP]"]
        ids = [VOCABULARY.index(token) for token in tokens]
        row = {
            "input_ids": ids,
            "segment_ids": [0] * len(ids),
            "padding_mask": [1] * len(ids),
        }
        by_ids = requests.post(
            url, json={"signature_name": "tokens", "instances": [row]}, timeout=30
        ).json()["predictions"][0]
        by_text = requests.post(url, json={"instances": [text]}, timeout=30).json()
        scores = by_text["predictions"][0]["scores"]
        assert by_ids["scores"] == pytest.approx(scores, abs=1e-5)


def test_what_cannot_be_shown_is_said(demo: EmbeddedServer) -> None:
    url = f"{demo.rest_url}/demo/tokens"
    for body, status in (
        ('{"model": "clf", "text": "a"}', 200),
        ('{"model": "none", "text": "a"}', 404),
        ('{"model": "own", "text": 7}', 400),
        ('{"text": "a"}', 400),
        ("[", 400),
        ("[]", 400),
        ('{"model": "own", "text": "\\ud800"}', 200),
    ):
        answer = requests.post(url, data=body, timeout=30)
        assert answer.status_code == status, body


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium on this machine")


def test_the_page_in_a_browser(demo: EmbeddedServer, tmp_path: Path) -> None:
    """The form is sent as a user would, and the page says what the API says."""
    page = PAGE.read_text().replace(
        '  else $("error")',
        '  if (models.length) { $("model").value = "own"; $("text").value = '
        '"good <b>movie</b>"; $("form").requestSubmit(); }\n  else $("error")',
    )
    assert "requestSubmit" in page
    demo._http._api._demo._page = page.encode()  # the same page, that asks by itself
    dom = subprocess.run(
        [
            *(browser(), "--headless", "--no-sandbox", "--disable-gpu"),
            *("--no-proxy-server", f"--user-data-dir={tmp_path}"),
            *("--virtual-time-budget=8000", "--dump-dom", f"{demo.rest_url}/"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    demo._http._api._demo._page = PAGE.read_bytes()
    answer = requests.post(
        f"{demo.rest_url}/v1/models/own:predict",
        json={"instances": ["good <b>movie</b>"]},
        timeout=30,
    ).json()["predictions"][0]
    assert f'<h2 id="label">{answer["label"]}</h2>' in dom
    for score in answer["scores"]:
        assert f"<td>{score:.3f}</td>" in dom
    assert '<span class="token">[CLS]</span><span class="token">good</span>' in dom
    assert "nothing is cut" in dom
    assert " ms, with the way here" in dom
