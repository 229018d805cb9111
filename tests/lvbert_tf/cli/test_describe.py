"""``lvbert describe``: figures of strings and directories, errors, pictures."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lvbert_tf import cost
from lvbert_tf.cli import main


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str], str]:
    status = main(["describe", *argv])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


def figures(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    status, lines, _ = run(capsys, *argv, "--json")
    assert status == 0
    assert len(lines) == 1
    result: dict[str, Any] = json.loads(lines[0])
    return result


def test_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    result = figures(capsys, "lv_bert")
    assert result["architecture"] == "ccsffscffsccsfcfscfcssfs"
    assert result["num_layers"] == 24
    assert result["counts"] == {"c": 8, "s": 8, "f": 8}
    assert result["word_embedding_params"] == 3_906_816
    assert result["backbone_params"] == 8_519_968
    assert result["total_params"] == 12_525_856
    assert result["paper_params"] == 8_497_480
    assert result["space_size"] == 282_429_536_481
    assert result["paper_flops"] == pytest.approx(1.2e18, rel=0.1)
    assert result["model_flops"] == cost.model_flops(
        "lv_bert", cost.Dimensions.of_size("small"), 128
    )


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    result = figures(
        capsys,
        *("(sf)x12", "--size", "base"),
        *("--vocabulary-size", "1000", "--sequence-length", "512"),
    )
    dimensions = cost.Dimensions.of_size("base", vocabulary_size=1000)
    assert result["architecture"] == "sf" * 12
    assert result["word_embedding_params"] == 768_000
    assert result["total_params"] == cost.total_params("electra", dimensions)
    assert result["model_flops"] == cost.model_flops("electra", dimensions, 512)
    assert result["paper_schedule"] == "base"


def test_for_people_the_json_comes_last(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = run(capsys, "ccsf")
    assert status == 0
    assert json.loads(lines[-1])["architecture"] == "ccsf"
    text = "\n".join(lines[:-1])
    assert "c  dynamic convolution 2" in text.replace("  2", " 2")
    assert "space_size" in text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("ccq",), "  ccq\n    ^"),
        (("",), "at least one layer"),
        (("models/mine",), "Nor is there a model directory models/mine"),
        (("s", "--sequence-length", "0"), "--sequence-length: expected a whole"),
        (("s", "--vocabulary-size", "-3"), "--vocabulary-size: expected a whole"),
        (("s", "--size", "huge"), "invalid choice: 'huge'"),
        ((), "the following arguments are required"),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], message: str
) -> None:
    status, lines, errors = run(capsys, *argv)
    assert status == 2
    assert lines == []
    assert message in errors
    assert "Traceback" not in errors


def test_a_model_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import lvbert_tf

    backbone = lvbert_tf.LVBertBackbone(
        vocabulary_size=7,
        architecture="csfcs",
        embedding_dim=6,
        hidden_dim=12,
        intermediate_dim=20,
        num_heads=3,
        kernel_size=5,
        max_sequence_length=40,
        mask_convolution=False,
    )
    backbone.save_to_preset(str(tmp_path))
    result = figures(capsys, str(tmp_path), "--sequence-length", "32")
    assert result["architecture"] == "csfcs"
    assert result["total_params"] == backbone.count_params()
    assert result["mask_convolution"] is False
    assert result["vocabulary_sha256"] is None
    assert result["trained_sequence_length"] is None
    assert result["dimensions"]["kernel_size"] == 5
    status, _, errors = run(capsys, str(tmp_path), "--size", "small")
    assert status == 2
    assert "--size is for an architecture" in errors

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]
    tokenizer = lvbert_tf.LVBertTokenizer(vocabulary)
    tokenizer.save_to_preset(str(tmp_path))
    result = figures(capsys, str(tmp_path))
    assert result["vocabulary_sha256"] == tokenizer.vocabulary_sha256

    provenance = {"vocabulary_sha256": "abc", "trained_sequence_length": 16}
    (tmp_path / "training.json").write_text(json.dumps(provenance))
    result = figures(capsys, str(tmp_path))
    assert result["vocabulary_sha256"] == "abc"
    assert result["trained_sequence_length"] == 16


@pytest.mark.parametrize("size", ["small"])
def test_counts_are_those_of_the_real_model(size: str) -> None:
    import lvbert_tf

    dimensions = cost.Dimensions.of_size(size)
    for spec in ("lv_bert", "c", "s", "f"):
        backbone = lvbert_tf.LVBertBackbone.from_size(size, spec)
        assert backbone.count_params() == cost.total_params(spec, dimensions)
        layers = sum(layer.count_params() for layer in backbone.encoder.layer_list)
        assert layers == cost.backbone_params(spec, dimensions)


def test_pairs_and_supernets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import lvbert_tf

    sizes: dict[str, Any] = {
        "embedding_dim": 4,
        "hidden_dim": 8,
        "intermediate_dim": 8,
        "num_heads": 2,
    }
    backbone = lvbert_tf.LVBertBackbone(9, "sc", **sizes)
    pair = lvbert_tf.LVBertElectra(backbone, generator_fraction=0.5)
    pair.save_to_preset(str(tmp_path / "pair"))
    result = figures(capsys, str(tmp_path / "pair"))
    assert result["model"] == "LVBertElectra"
    assert result["architecture"] == "sc"
    assert result["total_params"] == backbone.count_params()

    supernet = lvbert_tf.LVBertSupernet(9, letters="sc", num_layers=3, **sizes)
    supernet.save_to_preset(str(tmp_path / "supernet"))
    result = figures(capsys, str(tmp_path / "supernet"))
    assert result["architecture"] is None
    assert result["letters"] == "sc"
    assert result["space_size"] == 8
    status, _, errors = run(
        capsys, str(tmp_path / "supernet"), "--plot", str(tmp_path / "x.png")
    )
    assert status == 2
    assert "supernet" in errors


def test_no_model_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, errors = run(capsys, str(tmp_path))
    assert status == 2
    assert "found no config.json" in errors
    (tmp_path / "config.json").write_text("{")
    assert run(capsys, str(tmp_path))[0] == 2
    (tmp_path / "config.json").write_text('{"class_name": "X", "config": {"a": 1}}')
    status, _, errors = run(capsys, str(tmp_path))
    assert status == 2
    assert "not a model of lvbert_tf" in errors


def test_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "layers.svg"
    result = figures(capsys, "ccsf", "--plot", str(file))
    assert result["plot"] == str(file)
    assert "<svg" in file.read_text()
    assert list(tmp_path.iterdir()) == [file]
    status, _, errors = run(capsys, "ccsf", "--plot", str(tmp_path / "layers.doc"))
    assert status == 2
    assert "expected a suffix out of" in errors
    status, _, errors = run(capsys, "ccsf", "--plot", str(file / "x.png"))
    assert status == 2
    assert "layers.svg" in errors


def test_plot_without_matplotlib(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    status, _, errors = run(capsys, "ccsf", "--plot", str(tmp_path / "x.png"))
    assert status == 1
    assert "needs matplotlib" in errors


def test_vocabulary_hash_is_that_of_the_file(tmp_path: Path) -> None:
    from lvbert_tf.cli.describe import _vocabulary_sha256

    assert _vocabulary_sha256(tmp_path) is None
    file = tmp_path / "assets" / "tokenizer" / "vocabulary.txt"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"[PAD]\n[UNK]\n")
    expected = hashlib.sha256(b"[PAD]\n[UNK]\n").hexdigest()
    assert _vocabulary_sha256(tmp_path) == expected
