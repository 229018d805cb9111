"""Quantised artefacts: smaller, nearly as good, or refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from common.command_line import UsageError
from export import quantization, quantized_parts
from export.labelled_examples import read_examples
from export.manifest import read_manifest
from export.quantized_parts import Quantizer, cpu_flags, needs_reduced_range
from export.timing import Timing
from serving.onnx_runtime import OnnxClassifier
from tests.export.models import LABELS, VOCABULARY, Artefacts, run

pytestmark = pytest.mark.export

MARGIN = 0.1


def weight_bytes(model_file: Path) -> int:
    """Bytes of the weights, without the graph around them."""
    initializers = onnx.load(model_file).graph.initializer
    return sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in initializers)


def random_texts(count: int) -> list[str]:
    generator = np.random.default_rng(0)
    words = [token for token in VOCABULARY if token.isalpha()]
    return [
        " ".join(generator.choice(words, size=generator.integers(1, 30)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def evaluation(artefacts: Artefacts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """500 texts with the labels that the float32 artefact gives them.

    Random weights leave every second text undecided, which training does not: those
    whose two highest scores are close are left out.
    """
    texts = random_texts(1500)
    answers = OnnxClassifier(artefacts.onnx()).predict(texts)
    rows = [
        f"{answer['label']}\t{text}"
        for answer, text in zip(answers, texts, strict=True)
        if np.ptp(np.sort(answer["scores"])[-2:]) > MARGIN
    ][:500]
    assert len(rows) == 500
    path = tmp_path_factory.mktemp("evaluation") / "dev.tsv"
    path.write_text("\n".join(["label\ttext", *rows]) + "\n", encoding="utf-8")
    return path


def test_smaller_and_nearly_the_same(
    artefacts: Artefacts, evaluation: Path, tmp_path: Path
) -> None:
    # O05
    output = tmp_path / "int8"
    result = run(
        *("quantize", "--onnx", artefacts.onnx(), "--output", output),
        *("--eval", evaluation, "--max-drop", "1.0", "--letters", "all"),
    )
    assert result.status == 0, result.errors
    assert result.output is not None
    assert result.output["examples"] == 500
    assert result.output["metric_before"] == 100.0
    assert 99.0 <= result.output["metric_after"] < 100.01
    assert result.output["label_agreement"] >= 0.99
    assert 0 < result.output["max_abs_difference"] < 0.1
    # The tiny model's file is mostly graph, which quantisation makes larger.
    assert weight_bytes(output / "model.onnx") < 0.4 * weight_bytes(
        artefacts.onnx() / "model.onnx"
    )
    assert result.output["bytes_after"] == (output / "model.onnx").stat().st_size
    assert {path.name for path in output.iterdir()} == {
        *("model.onnx", "tokenizer.json", "labels.json", "manifest.json"),
        "model_card.md",
    }
    stored = read_manifest(output)["quantization"]
    assert stored["metric_after"] == result.output["metric_after"]
    assert stored["cpu"] == cpu_flags()
    again = run(
        *("quantize", "--onnx", output, "--output", tmp_path / "again"),
        *("--eval", evaluation),
    )
    assert again.status == 2
    # The predictor takes it as it takes the other.
    text = random_texts(3)
    assert len(OnnxClassifier(output).predict(text)) == 3


def test_too_large_a_drop_leaves_nothing_behind(
    artefacts: Artefacts,
    evaluation: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The "quantised" graph is the float32 graph with every score in another place."""

    def rotate(self: Quantizer, target: Path, nodes: object, tables: bool) -> None:
        model = onnx.load(self.source)
        (last,) = [node for node in model.graph.node if "scores" in node.output]
        last.output[0] = "forward"
        order = onnx.helper.make_tensor("order", onnx.TensorProto.INT64, [3], [1, 2, 0])
        model.graph.initializer.append(order)
        model.graph.node.append(
            onnx.helper.make_node("Gather", ["forward", "order"], ["scores"], axis=1)
        )
        onnx.save(model, target)

    monkeypatch.setattr(Quantizer, "write", rotate)
    result = run(
        *("quantize", "--onnx", artefacts.onnx(), "--output", tmp_path / "int8"),
        *("--eval", evaluation, "--max-drop", "1.0"),
    )
    assert result.status == 1
    assert "accuracy falls from 100.00 to 0.00" in result.errors
    assert "--max-drop 1" in result.errors
    assert list(tmp_path.iterdir()) == []


def test_pairs_and_numbers(artefacts: Artefacts, tmp_path: Path) -> None:
    texts = random_texts(40)
    answers = OnnxClassifier(artefacts.onnx("pairs")).predict(texts, texts[::-1])
    rows = [
        f"{first}\t{second}\t{answer['scores'][0]}"
        for first, second, answer in zip(texts, texts[::-1], answers, strict=True)
    ]
    path = tmp_path / "dev.tsv"
    path.write_text("\n".join(["text\ttext_pair\tlabel", *rows]), encoding="utf-8")
    result = run(
        *("quantize", "--onnx", artefacts.onnx("pairs")),
        *("--output", tmp_path / "int8", "--eval", path),
    )
    assert result.status == 0, result.errors
    assert result.output is not None
    assert result.output["metric"] == "pearson"
    assert result.output["metric_before"] == pytest.approx(100.0, abs=1e-3)
    assert result.output["metric_after"] > 99.0


def test_a_row_a_letter_and_only_the_letters_asked_for(
    artefacts: Artefacts, evaluation: Path, tmp_path: Path
) -> None:
    output = tmp_path / "int8"
    result = run(
        *("quantize", "--onnx", artefacts.onnx(), "--output", output),
        *("--eval", evaluation, "--letters", "sf", "--max-examples", "100"),
    )
    assert result.status == 0, result.errors
    assert result.output is not None
    rows = {row["letter"]: row for row in result.output["letters"]}
    assert set(rows) == {"c", "s", "f"}
    for row in rows.values():
        assert row["metric_before"] == 100.0
        assert row["products"] > 0
        assert row["latency_ms_before"] > 0
        assert row["latency_ms_after"] > 0
        assert 0 < row["max_abs_difference"] < 0.1
    assert [rows[letter]["quantized"] for letter in "csf"] == [False, True, True]
    names = [
        node.name
        for node in onnx.load(output / "model.onnx").graph.node
        if node.op_type == "MatMulInteger"
    ]
    assert any("_s/" in name for name in names)
    assert not any("_c/" in name for name in names)
    assert "Layers c stay in float32" in (output / "model_card.md").read_text()


def test_static_scales_come_from_the_users_texts(
    artefacts: Artefacts, evaluation: Path, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(random_texts(40)), encoding="utf-8")
    result = run(
        *("quantize", "--onnx", artefacts.onnx(), "--output", tmp_path / "int8"),
        *("--eval", evaluation, "--max-examples", "200", "--letters", "all"),
        *("--method", "static", "--calibrate", texts, "--max-drop", "2"),
    )
    assert result.status == 0, result.errors
    assert result.output is not None
    assert result.output["method"] == "static"
    assert result.output["calibration_examples"] == 40
    assert result.output["label_agreement"] >= 0.97
    graph = onnx.load(tmp_path / "int8" / "model.onnx").graph
    kinds = {node.op_type for node in graph.node}
    assert "QuantizeLinear" in kinds
    assert "DynamicQuantizeLinear" not in kinds


def test_letters_that_lose_time_stay_in_float(
    artefacts: Artefacts,
    evaluation: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `auto`, with made-up times: of three letters the first is slower."""
    ratios = iter([1.5, 0.9, 1.0, 0.8])

    def timed(functions: dict[str, Any]) -> dict[str, Timing]:
        return {
            "before": Timing(1.0, (1.0,)),
            "after": Timing(1.0, (next(ratios),)),
        }

    monkeypatch.setattr(quantization, "interleaved", timed)
    result = run(
        *("quantize", "--onnx", artefacts.onnx(), "--output", tmp_path / "int8"),
        *("--eval", evaluation, "--max-examples", "50"),
    )
    assert result.status == 0, result.errors
    assert result.output is not None
    kept = {row["letter"]: row["quantized"] for row in result.output["letters"]}
    assert kept == {"c": False, "f": True, "s": True}
    assert result.output["latency_ratio"] == 0.8


@pytest.mark.parametrize(
    ("flags", "reduced"),
    [([], True), (["avx2", "avx512f"], True), (["avx2", "avx_vnni"], False)],
)
def test_the_range_is_reduced_where_sums_would_saturate(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], reduced: bool
) -> None:
    monkeypatch.setattr(quantized_parts.platform, "machine", lambda: "x86_64")
    assert needs_reduced_range(flags) is reduced
    monkeypatch.setattr(quantized_parts.platform, "machine", lambda: "aarch64")
    assert needs_reduced_range(flags) is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\tscore\na\t1\n", ":1: expected a header with the columns text, label"),
        ("text\tlabel\na\n", ":2: expected 2 columns"),
        ("text\tlabel\n\na\tmixed\n", ":3: label: expected one of negative"),
        ("text\tlabel\n", "at least one row"),
        ("", "expected a header, found an empty file"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"dev\.tsv") as caught:
        read_examples(path, pairs=False, labels=LABELS)
    assert message in str(caught.value)


def test_quotes_mean_nothing(tmp_path: Path) -> None:
    # D11
    texts = ['"quoted', 'odd " number', '""', "it's"]
    path = tmp_path / "dev.tsv"
    rows = [f"{text}\tneutral" for text in texts]
    path.write_text("\r\n".join(["text\tlabel", *rows]) + "\r\n")
    examples = read_examples(path, pairs=False, labels=LABELS)
    assert [example.texts[0] for example in examples] == texts


def test_a_number_is_expected_of_a_regression(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("text\tlabel\na\t0.5\nb\thigh\n")
    with pytest.raises(UsageError, match=r"dev\.tsv:3: label: expected a number"):
        read_examples(path, pairs=False, labels=None)
    path.write_text("text\tlabel\na\t0.5\nb\tnan\n")
    with pytest.raises(UsageError, match=r"dev\.tsv:3: label: expected a finite"):
        read_examples(path, pairs=False, labels=None)


def test_wrong_options(artefacts: Artefacts, evaluation: Path, tmp_path: Path) -> None:
    options: tuple[Any, ...] = (
        (["--max-drop=-1"], "--max-drop"),
        (["--batch-size=0"], "--batch-size"),
        (["--max-examples=0"], "--max-examples"),
        (["--letters=x"], "letters of cfs"),
        (["--letters="], "letters of cfs"),
        (["--sequence-length=65"], "at most 64"),
        (["--calibrate=texts.txt"], "only --method static"),
        (["--method=static", "--calibrate=absent.txt"], "absent.txt: cannot be read"),
    )
    for extra, message in options:
        result = run(
            *("quantize", "--onnx", artefacts.onnx(), "--output", tmp_path / "out"),
            *("--eval", evaluation, *extra),
        )
        assert result.status == 2
        assert message in result.errors
    saved = artefacts.saved_model() / "1" / "assets.extra" / "manifest.json"
    assert json.loads(saved.read_text())["kind"] == "saved_model"
