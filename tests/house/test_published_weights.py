"""The commands of docs/models.md, from another's checkpoint to a served answer."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import lvbert_tf
from lvbert_tf.cli import main
from serving.onnx_runtime import OnnxClassifier
from tests.commands import run
from tests.lvbert_tf.published_checkpoints import (
    exact_gelu,
    keras_hub_backbone,
    write_transformers,
)
from tests.paths import REPOSITORY
from tests.serving.running_server import RunningServer

pytestmark = [pytest.mark.slow, pytest.mark.serving, pytest.mark.export]

GOOD = ["the house was old", "the rain and the house", "old and loud"]
BAD = ["rain rain rain", "the rain was rain", "loud rain and rain"]


def _commands() -> list[list[str]]:
    page = (REPOSITORY / "docs" / "models.md").read_text("utf-8")
    section = page.split("## Published weights as a start")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    return [shlex.split(line) for line in block.splitlines()]


def _write_reviews(folder: Path) -> None:
    folder.mkdir()
    rows = [f"{text}\tgood" for text in GOOD] + [f"{text}\tbad" for text in BAD]
    for name, times in (("train", 4), ("dev", 1)):
        # No row twice: each copy ends in a letter of its own.
        copies = [
            row.replace("\t", f" {letter}\t")
            for letter in "abcd"[:times]
            for row in rows
        ]
        text = "\n".join(["text\tlabel", *copies])
        (folder / f"{name}.tsv").write_text(text, "utf-8")


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_every_command_of_the_docs_works(
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    reference = exact_gelu(keras_hub_backbone("bert"))
    write_transformers(tmp_path / "bert-base-uncased", "bert", reference, file)
    _write_reviews(tmp_path / "reviews")
    server = None
    ran = []
    try:
        for program, *words in _commands():
            if program == "lvbert":
                assert main(words) == 0
                ran.append(words[0])
                continue
            assert [program, words[0]] == ["python", "-m"]
            _, application, command, *options = words
            ran.append(command)
            if command == "serve":
                place = options[-1].replace("=", f"={tmp_path}/")
                server = RunningServer(tmp_path / "log", "--model", place)
                continue
            if server is not None:
                address = server.rest_url
                options = [o.replace("http://127.0.0.1:8501", address) for o in options]
            done = run(application, command, *options)
            assert done.status == 0, done.errors
    finally:
        if server is not None:
            server.kill()
    assert ran == [
        *("convert", "describe", "finetune", "saved-model", "onnx", "serve", "predict")
    ]
    (served,) = done.output["predictions"]
    model = lvbert_tf.LVBertTextClassifier.from_preset("runs/reviews/model")
    (answer,) = model.classify(["a good film"])
    assert served["label"] == answer["label"]
    np.testing.assert_allclose(served["scores"], answer["scores"], atol=1e-5)
    (onnx,) = OnnxClassifier("onnx/reviews").predict(["a good film"])
    np.testing.assert_allclose(onnx["scores"], answer["scores"], atol=1e-5)
    result = json.loads((tmp_path / "runs/reviews/result.json").read_text())
    assert result["runs"]
