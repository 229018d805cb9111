"""The distribution `lvbert-runtime`: built, installed where nothing else is, used."""

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lvbert_tf.version import __version__
from serving.lvbert_runtime import OnnxClassifier
from serving.lvbert_runtime import __version__ as runtime_version
from tests.export.models import TEXTS, session_artefacts
from tests.paths import REPOSITORY

pytestmark = pytest.mark.export


def test_versions_agree() -> None:
    assert runtime_version == __version__


def test_it_imports_relatively() -> None:
    """Both of its names must work: in the wheel there is no package `serving`."""
    for path in (REPOSITORY / "serving" / "lvbert_runtime").glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) (serving|lvbert_tf)", source, re.M)


@pytest.mark.slow
def test_the_wheel_answers_in_a_clean_environment(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    uv = shutil.which("uv") or str(REPOSITORY / ".venv" / "bin" / "uv")
    artefact = session_artefacts(tmp_path_factory).onnx()
    shutil.copytree(artefact, tmp_path / "models" / "reviews-onnx")
    source = tmp_path / "source"
    shutil.copytree(
        REPOSITORY / "serving", source, ignore=shutil.ignore_patterns("__pycache__")
    )

    def call(*words: str | Path) -> str:
        done = subprocess.run(
            list(map(str, words)), cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call(uv, "build", "--wheel", "--out-dir", tmp_path / "dist", source)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert top == {"lvbert_runtime", f"lvbert_runtime-{__version__}.dist-info"}
    call(uv, "venv", "--python", "3.11", tmp_path / "clean")
    python = tmp_path / "clean" / "bin" / "python"
    # The clients are in the wheel; what they need comes with the extra.
    call(uv, "pip", "install", "--python", python, f"{wheel}[client]")

    text = (REPOSITORY / "docs" / "export.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text(
        f"{example}\nimport importlib.util, json\n"
        "for name in ('tensorflow', 'keras', 'lvbert_tf', 'serving'):\n"
        "    assert importlib.util.find_spec(name) is None, name\n"
        "from lvbert_runtime.client import RestClient, connect\n"
        "from lvbert_runtime.client.grpc_client import GrpcClient\n"
        "assert isinstance(connect('http://127.0.0.1:1', 'm'), RestClient)\n"
        "assert isinstance(connect('grpc://127.0.0.1:1', 'm'), GrpcClient)\n"
        "from lvbert_runtime import OnnxEncoder, OnnxMaskedLM, OnnxSpanPredictor\n"
        f"print(json.dumps(classifier.predict({list(TEXTS)!r})))\n",
        encoding="utf-8",
    )
    answers = json.loads(call(python, program))
    for answer, here in zip(
        answers, OnnxClassifier(artefact).predict(TEXTS), strict=True
    ):
        assert answer["label"] == here["label"]
        assert answer["truncated"] == here["truncated"]
        np.testing.assert_allclose(answer["scores"], here["scores"], atol=1e-6)
