"""The examples of ``docs/export.md`` work as they stand."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from serving.onnx_runtime import OnnxClassifier
from tests.export.models import TEXTS, Artefacts, done
from tests.paths import REPOSITORY

pytestmark = pytest.mark.export


def test_every_example_runs_in_order(
    artefacts: Artefacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # As installed: the folder that the distribution is built from.
    monkeypatch.syspath_prepend(REPOSITORY / "serving")
    shutil.copytree(artefacts.model(), tmp_path / "runs" / "reviews" / "model")
    texts = [text for text in TEXTS if text.strip()]  # a table has no empty texts
    labels = [
        answer["label"] for answer in OnnxClassifier(artefacts.onnx()).predict(texts)
    ]
    rows = [f"{text}\t{label}" for text, label in zip(texts, labels, strict=True)]
    Path("dev.tsv").write_text("\n".join(["text\tlabel", *rows]), encoding="utf-8")

    text = (REPOSITORY / "docs" / "export.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    commands = []
    for language, block in blocks:
        if language == "text":
            continue
        if language == "python":
            exec(compile(block, "docs/export.md", "exec"), {})
            continue
        assert language == "sh"
        for line in block.splitlines():
            program, *words = shlex.split(line)
            assert [program, *words[:2]] == ["python", "-m", "export"]
            done(*words[2:])
            commands.append(words[2])
    assert commands == ["saved-model", "onnx", "quantize", "check", "check"]
