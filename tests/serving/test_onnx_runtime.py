"""The ONNX predictor: the same answers as Keras, without Keras."""

import json
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.onnx_runtime import ArtefactError, InputError, OnnxClassifier
from tests.export.models import (
    LABELS,
    MAX_SEQUENCE_LENGTH,
    SEQUENCE_LENGTH,
    TEXTS,
    VOCABULARY,
    Artefacts,
    keras_probabilities,
    session_artefacts,
)
from tests.paths import REPOSITORY

pytestmark = pytest.mark.export

# `erf` and `softmax` of onnxruntime round otherwise than TensorFlow's.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Artefacts:
    return session_artefacts(tmp_path_factory)


@pytest.fixture(scope="module")
def predictor(artefacts: Artefacts) -> OnnxClassifier:
    return OnnxClassifier(artefacts.onnx())


def load(path: Path) -> Any:
    import lvbert_tf

    return lvbert_tf.LVBertTextClassifier.from_preset(str(path))


def scores(answers: list[dict[str, Any]]) -> Any:
    return np.array([answer["scores"] for answer in answers])


def test_raw_texts_are_answered_as_by_keras(
    artefacts: Artefacts, predictor: OnnxClassifier
) -> None:
    expected = keras_probabilities(load(artefacts.model()), list(TEXTS))
    # Batches of 1 and of all: order and company must not matter.
    for batch_size in (1, 3, 32):
        answers = predictor.predict(TEXTS, batch_size=batch_size)
        np.testing.assert_allclose(scores(answers), expected, atol=TOLERANCE)
        assert [answer["label"] for answer in answers] == [
            LABELS[index] for index in expected.argmax(axis=-1)
        ]


def test_a_predictor_goes_to_another_process(predictor: OnnxClassifier) -> None:
    again = pickle.loads(pickle.dumps(predictor))
    assert again.predict(TEXTS) == predictor.predict(TEXTS)
    assert again.labels == predictor.labels


def test_official_convolution_is_padded_as_in_training(artefacts: Artefacts) -> None:
    expected = keras_probabilities(load(artefacts.model("official")), list(TEXTS))
    predictor = OnnxClassifier(artefacts.onnx("official"))
    answers = predictor.predict(TEXTS, batch_size=2)
    np.testing.assert_allclose(scores(answers), expected, atol=TOLERANCE)
    assert answers[0]["label"] == str(expected[0].argmax())


def test_pairs_are_cut_longest_first_as_by_keras(artefacts: Artefacts) -> None:
    model = load(artefacts.model("pairs"))
    predictor = OnnxClassifier(artefacts.onnx("pairs"))
    lengths = [
        (first, second) for first in (0, 17, 18, 19, 60) for second in (0, 18, 19, 60)
    ]
    texts = [" ".join("abcdefghij"[i % 10] for i in range(n)) for n, _ in lengths]
    pairs = [" ".join("klmnopqrst"[i % 10] for i in range(n)) for _, n in lengths]
    expected = model.predict((texts, pairs), verbose=0)
    answers = predictor.predict(texts, pairs)
    np.testing.assert_allclose(scores(answers), expected, atol=TOLERANCE)
    assert predictor.regression
    # A value has no label.
    assert predictor.labels == []
    assert {tuple(answer) for answer in answers} == {("scores", "truncated")}
    # [CLS] first [SEP] second [SEP] leave three tokens less.
    assert [answer["truncated"] for answer in answers] == [
        first + second > SEQUENCE_LENGTH - 3 for first, second in lengths
    ]


@given(
    st.lists(st.integers(5, 9), max_size=60), st.lists(st.integers(5, 9), max_size=60)
)
@settings(deadline=None, max_examples=50)
def test_rows_are_those_of_the_library(
    artefacts: Artefacts, first: list[int], second: list[int]
) -> None:
    import tensorflow as tf

    from lvbert_tf.models.packing import pack_segments

    predictor = OnnxClassifier.__new__(OnnxClassifier)
    predictor._sequence_length = SEQUENCE_LENGTH
    predictor._cls_id, predictor._sep_id = 2, 3
    for segments in ([first], [first, second]):
        packed = pack_segments(
            *(tf.constant(segment, tf.int32, [len(segment)]) for segment in segments),
            sequence_length=None,
            max_sequence_length=SEQUENCE_LENGTH,
            cls_token_id=2,
            sep_token_id=3,
            pad_token_id=0,
        )
        ids, segment_ids = predictor._row(*segments)
        assert ids == packed[0].numpy().tolist()
        assert segment_ids == packed[1].numpy().tolist()


def test_it_needs_neither_tensorflow_nor_keras(artefacts: Artefacts) -> None:
    program = (
        "import json, sys\n"
        "from serving.onnx_runtime import OnnxClassifier\n"
        f"answers = OnnxClassifier({str(artefacts.onnx())!r}).predict(sys.argv[1:])\n"
        "names = ('tensorflow', 'keras', 'lvbert_tf', 'export')\n"
        "print(json.dumps([answers, [n for n in names if n in sys.modules]]))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, *TEXTS],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    answers, heavy = json.loads(process.stdout)
    assert heavy == []
    expected = keras_probabilities(load(artefacts.model()), list(TEXTS))
    np.testing.assert_allclose(scores(answers), expected, atol=TOLERANCE)


def test_no_rows_and_very_many(predictor: OnnxClassifier) -> None:
    assert predictor.predict_tokens(np.zeros((0, 4), "int64")).shape == (0, 3)
    texts = [f"good movie {number}" for number in range(10_000)]
    answers = predictor.predict(texts, batch_size=500)
    assert len(answers) == len(texts)
    np.testing.assert_allclose(
        scores(answers[-2:]), scores(predictor.predict(texts[-2:])), atol=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": -1}, "threads: expected at least 0. Received: -1"),
        ({"threads": "2"}, "threads: expected at least 0. Received: '2'"),
        ({"providers": "CPUExecutionProvider"}, "providers: expected a list"),
        ({"providers": ["Abacus"]}, r"providers: expected one of .*CPUExecution"),
    ],
)
def test_wrong_options_are_named(
    artefacts: Artefacts, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        OnnxClassifier(artefacts.onnx(), **arguments)


def test_lists_and_any_integers_are_taken(predictor: OnnxClassifier) -> None:
    # O02
    ids = [[2, 5, 7, 3]]
    expected = predictor.predict_tokens(ids)
    assert expected.shape == (1, 3)
    for dtype in ("int8", "int32", "int64", "uint16"):
        array = np.array(ids, dtype)
        np.testing.assert_array_equal(predictor.predict_tokens(array), expected)
    padded = predictor.predict_tokens(
        [[2, 5, 7, 3, 9, 9]], padding_mask=[[1, 1, 1, 1, 0, 0]]
    )
    np.testing.assert_allclose(padded, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_ids": [2, 3]}, r"input_ids: expected two axes .* Received: 1"),
        ({"input_ids": [[[2]]]}, r"input_ids: expected two axes .* Received: 3"),
        ({"input_ids": [[2, 3], [2]]}, "input_ids: expected rows of equal length"),
        ({"input_ids": [[2.0, 3.0]]}, "input_ids: expected integers"),
        ({"input_ids": [[2, -1]]}, "input_ids: expected values from 0 to 67"),
        ({"input_ids": [[2, len(VOCABULARY)]]}, "input_ids: expected values from 0"),
        ({"input_ids": [[2, 3]], "segment_ids": [[0, 2]]}, "segment_ids: expected val"),
        ({"input_ids": [[2, 3]], "padding_mask": [[1, 2]]}, "padding_mask: expected v"),
        (
            {"input_ids": [[2, 3]], "padding_mask": [[1]]},
            "padding_mask: expected the s",
        ),
        ({"input_ids": [[2, 3]], "segment_ids": [0, 0]}, "segment_ids: expected two"),
        ({"input_ids": [[2] * (MAX_SEQUENCE_LENGTH + 1)]}, "expected 1 to 64 tokens"),
        ({"input_ids": [[]]}, "input_ids: expected"),
        ({"input_ids": np.array([[2**63]], "uint64")}, "expected int64. Received: 922"),
    ],
)
def test_wrong_token_inputs_are_named(
    predictor: OnnxClassifier, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        predictor.predict_tokens(**arguments)


def test_wrong_texts_are_named(artefacts: Artefacts, predictor: OnnxClassifier) -> None:
    assert predictor.predict([]) == []
    wrong: Any
    for wrong, message in (
        ("one string", "texts: expected a list"),
        (["a", b"b"], r"texts\[1\]: expected str. Received: bytes"),
        (["a", None], r"texts\[1\]: expected str. Received: NoneType"),
        (None, "texts: expected a list of strings. Received: NoneType"),
        ({"a": "b"}, "texts: expected a list of strings. Received: dict"),
    ):
        with pytest.raises(InputError, match=message):
            predictor.predict(wrong)
    with pytest.raises(InputError, match="pairs: expected none"):
        predictor.predict(["a"], ["b"])
    for size in (0, 2.5, "3", True):
        with pytest.raises(InputError, match="batch_size: expected at least 1"):
            predictor.predict(["a"], batch_size=size)  # type: ignore[arg-type]
    two = OnnxClassifier(artefacts.onnx("pairs"))
    with pytest.raises(InputError, match="pairs: expected the second texts"):
        two.predict(["a"])
    with pytest.raises(InputError, match="pairs: expected as many as texts, 2"):
        two.predict(["a", "b"], ["c"])


def test_one_text_and_whether_it_was_cut(
    artefacts: Artefacts, predictor: OnnxClassifier
) -> None:
    fits = " ".join(["."] * (SEQUENCE_LENGTH - 2))
    answers = predictor.predict(["", fits, fits + " ."])
    assert [answer["truncated"] for answer in answers] == [False, False, True]
    one = predictor.predict_one(fits + " .")
    assert one["truncated"] is True
    np.testing.assert_allclose(one["scores"], answers[2]["scores"], atol=1e-6)
    two = OnnxClassifier(artefacts.onnx("pairs"))
    assert two.predict_one("a", "b")["truncated"] is False
    with pytest.raises(InputError, match="pairs: expected the second texts"):
        two.predict_one("a")


def test_threads_share_one_predictor(predictor: OnnxClassifier) -> None:
    texts = [text * (1 + i % 3) for i, text in enumerate([*TEXTS] * 8)]
    expected = [predictor.predict_one(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(predictor.predict_one, texts))
    for answer, alone in zip(answers, expected, strict=True):
        assert answer["label"] == alone["label"]
        np.testing.assert_allclose(answer["scores"], alone["scores"], atol=1e-6)


def test_lone_surrogates_are_dropped(predictor: OnnxClassifier) -> None:
    odd, plain = predictor.predict(["good \ud800movie", "good movie"])
    np.testing.assert_allclose(odd["scores"], plain["scores"], atol=1e-6)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "labels.json"])
def test_altered_and_missing_files_are_named(
    artefacts: Artefacts, tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(artefacts.onnx(), copy)
    with (copy / name).open("ab") as stream:
        stream.write(b" ")
    with pytest.raises(ArtefactError, match=f"{name}: its sha256"):
        OnnxClassifier(copy)
    (copy / name).unlink()
    with pytest.raises(ArtefactError, match=f"{name}: no such file"):
        OnnxClassifier(copy)


def test_a_manifest_that_is_none(artefacts: Artefacts, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"manifest\.json: expected a manifest"):
        OnnxClassifier(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(artefacts.onnx(), copy)
    manifest = json.loads((copy / "manifest.json").read_text())

    def task(**changes: object) -> dict[str, object]:
        return {"task": manifest["task"] | changes}

    for change, message in (
        ({"kind": "saved_model"}, "expected an ONNX manifest"),
        ({"format_version": 2}, "format_version 1"),
        ({"files": {}}, r"expected a checksum of model\.onnx"),
        ({"files": [1]}, r"expected a checksum of model\.onnx"),
        ({"files": {"model.onnx": "x"}}, r"expected a checksum of model\.onnx"),
        ({"task": {}}, "task: expected the field 'sequence_length'"),
        ({"task": None}, "task: expected an object. Received: None"),
        ({"longest_input": "9"}, "longest_input: expected an integer from 1"),
        (task(sequence_length=65), "sequence_length: expected an integer from 2 to 64"),
        (task(sequence_length="9"), "sequence_length: expected an integer"),
        (task(pairs=0), "pairs: expected true or false. Received: 0"),
        (task(labels=3), "labels: expected strings. Received: 3"),
        # Scores of one class under the name of another.
        (task(labels=LABELS[::-1]), r"labels: expected those of labels\.json"),
    ):
        (copy / "manifest.json").write_text(json.dumps(manifest | change))
        with pytest.raises(ArtefactError, match=message):
            OnnxClassifier(copy)
    (copy / "manifest.json").write_text("[]")
    with pytest.raises(ArtefactError, match="expected an ONNX manifest"):
        OnnxClassifier(copy)


def test_a_graph_that_does_not_load(artefacts: Artefacts, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(artefacts.onnx(), copy)
    (copy / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ArtefactError, match="cannot be loaded"):
        OnnxClassifier(copy, verify=False)
