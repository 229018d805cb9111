"""The SavedModel: what it answers, where it lies, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from common.saved_model_session import SavedModelSession
from export import inference_graph
from export.saved_model import export_saved_model
from export.signatures import saved_model_signatures
from export.stored_signatures import check_signatures
from export.task import describe_task
from tests.export.models import (
    LABELS,
    MAX_SEQUENCE_LENGTH,
    SEQUENCE_LENGTH,
    TEXTS,
    VOCABULARY,
    Artefacts,
    keras_probabilities,
    run,
)

pytestmark = pytest.mark.export

# Float32 sums in another order, over up to 64 tokens and 3 layers.
TOLERANCE = 1e-5


def strings(*values: str) -> Any:
    return np.array([value.encode() for value in values], dtype=object)


def token_batch(ids: Any, mask: Any = None) -> dict[str, Any]:
    ids = np.array(ids, dtype="int32")
    return {
        "input_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids) if mask is None else np.array(mask, "int32"),
    }


@pytest.fixture(scope="module")
def session(artefacts: Artefacts) -> Any:
    with SavedModelSession(artefacts.saved_model() / "1") as opened:
        yield opened


def test_the_folder_is_laid_out_for_tf_serving(artefacts: Artefacts) -> None:
    base = artefacts.saved_model()
    assert [entry.name for entry in base.iterdir()] == ["1"]
    names = {entry.name for entry in (base / "1").iterdir()}
    assert {"saved_model.pb", "variables", "assets.extra"} <= names


def test_the_result_has_what_the_contract_asks_for(artefacts: Artefacts) -> None:
    result = Artefacts.result(artefacts.saved_model())
    assert result["version"] == 1
    assert set(result["signatures"]) == {"serving_default", "tokens", "classify"}
    assert "FastWordpieceTokenizeWithOffsets" in result["ops"]
    assert result["minimum_tf_serving"] == "2.17"
    assert 0 < result["max_abs_difference"] <= result["tolerance"] == 1e-5


def test_names_and_types_of_the_signatures(
    session: SavedModelSession, classifier: Any
) -> None:
    # X01, X02. The table is what is promised; here it is written out once.
    check_signatures(
        session.definitions,
        saved_model_signatures(describe_task(classifier, pairs=False)),
    )
    definition = session.definitions["serving_default"]
    assert {name: info.dtype for name, info in definition.inputs.items()} == {
        "text": tf.string.as_datatype_enum
    }
    assert {name: info.dtype for name, info in definition.outputs.items()} == {
        "scores": tf.float32.as_datatype_enum,
        "label": tf.string.as_datatype_enum,
    }
    assert {
        (name, info.dtype)
        for name, info in session.definitions["tokens"].inputs.items()
    } == {
        (name, tf.int32.as_datatype_enum)
        for name in ("input_ids", "segment_ids", "padding_mask")
    }


def test_raw_texts_are_answered_as_by_keras(
    session: SavedModelSession, classifier: Any
) -> None:
    expected = keras_probabilities(classifier, list(TEXTS))
    outputs = session.run("serving_default", {"text": strings(*TEXTS)})
    np.testing.assert_allclose(outputs["scores"], expected, atol=TOLERANCE)
    assert [label.decode() for label in outputs["label"]] == [
        LABELS[index] for index in expected.argmax(axis=-1)
    ]


def test_an_empty_batch_is_answered(session: SavedModelSession) -> None:
    outputs = session.run("serving_default", {"text": strings()})
    assert outputs["scores"].shape == (0, 3)


def test_invalid_utf8_is_dropped(session: SavedModelSession) -> None:
    odd = np.array([b"good\xff movie.", b"good movie."], dtype=object)
    scores = session.run("serving_default", {"text": odd})["scores"]
    np.testing.assert_allclose(scores[0], scores[1], atol=TOLERANCE)


def test_python_loaders_find_the_signatures(
    artefacts: Artefacts, classifier: Any
) -> None:
    # X02
    version = str(artefacts.saved_model() / "1")
    expected = keras_probabilities(classifier, list(TEXTS[:2]))
    loaded = tf.saved_model.load(version)
    answer = loaded.signatures["serving_default"](text=tf.constant(TEXTS[:2]))
    np.testing.assert_allclose(answer["scores"], expected, atol=TOLERANCE)
    layer = keras.layers.TFSMLayer(version, call_endpoint="serving_default")
    np.testing.assert_allclose(
        layer(tf.constant(TEXTS[:2]))["scores"], expected, atol=TOLERANCE
    )


def test_fresh_process_without_the_model_answers_and_survives_odd_shapes(
    artefacts: Artefacts, classifier: Any
) -> None:
    # X04: the fixture deleted the source and moved the export. The odd shapes crash
    # a process whose graph has no guard.
    script = Path(__file__).parent / "fresh_process.py"
    process = subprocess.run(
        [sys.executable, str(script), str(artefacts.saved_model() / "1"), *TEXTS],
        capture_output=True,
        text=True,
        check=False,
        cwd=artefacts.root,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    answer = json.loads(process.stdout.splitlines()[-1])
    expected = keras_probabilities(classifier, list(TEXTS))
    np.testing.assert_allclose(answer["scores"], expected, atol=TOLERANCE)
    assert set(answer["odd"]) == {
        f"{signature} {shape}"
        for signature in ("serving_default", "classify")
        for shape in ("scalar", "matrix")
    }
    for message in answer["odd"].values():
        # From the guard itself: other ops on the way may fail first, or may not.
        assert message.startswith("InvalidArgumentError")
        assert "not compatible with expected shape [?]" in message
    assert "lvbert_tf" not in answer["modules"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[2, -1, 3]], "input_ids must be from 0 to 67"),
        ([[2, len(VOCABULARY), 3]], "input_ids must be from 0 to 67"),
        ([[2] * (MAX_SEQUENCE_LENGTH + 1)], "1 to 64 tokens"),
        ([[]], "1 to 64 tokens"),
    ],
)
def test_token_ids_are_checked_in_the_graph(
    session: SavedModelSession, ids: Any, message: str
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run("tokens", token_batch(ids))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("segment_ids", [[0, 2, 0]], "segment_ids must be from 0 to 1"),
        ("padding_mask", [[1, 3, 1]], "padding_mask must be from 0 to 1"),
        ("padding_mask", [[1]], "padding_mask must have the shape of input_ids"),
    ],
)
def test_other_token_inputs_are_checked_in_the_graph(
    session: SavedModelSession, name: str, value: Any, message: str
) -> None:
    batch = token_batch([[2, 7, 3]]) | {name: np.array(value, "int32")}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run("tokens", batch)


def test_scores_do_not_depend_on_padding_or_company(
    session: SavedModelSession,
) -> None:
    # X15: 16, 40 and 64 tokens wide, in batches of 1 and 8.
    ids = [2, 5, 7, 12, 3]
    reference = session.run("tokens", token_batch([ids]))["scores"][0]
    for width in (16, SEQUENCE_LENGTH, MAX_SEQUENCE_LENGTH):
        for rows in (1, 8):
            padded = np.zeros((rows, width), "int32")
            padded[:, : len(ids)] = ids
            # What stands in the padding must not matter either.
            padded[1:, len(ids) :] = 9
            mask = np.arange(width) < len(ids)
            batch = token_batch(padded, np.tile(mask, (rows, 1)))
            scores = session.run("tokens", batch)["scores"]
            np.testing.assert_allclose(
                scores, np.tile(reference, (rows, 1)), atol=TOLERANCE
            )


def test_official_convolution_always_runs_at_the_trained_length(
    artefacts: Artefacts,
) -> None:
    # X15, mask_convolution=False: there padding does change what the encoder computes.
    import lvbert_tf

    model = lvbert_tf.LVBertTextClassifier.from_preset(str(artefacts.model("official")))
    text = "good movie."
    packed = model.preprocessor([text])
    ids = np.asarray(packed["token_ids"])[:, :6]
    short = {name: np.asarray(value)[:, :6] for name, value in packed.items()}
    unpadded = model(short, training=False).numpy()
    padded = model(packed, training=False).numpy()
    assert np.abs(unpadded - padded).max() > 1e-2, "this model can't show the trap"

    expected = keras_probabilities(model, [text])
    with SavedModelSession(artefacts.saved_model("official") / "1") as session:
        for texts in ([text], [text, "a", " ".join(["bad"] * 50)]):
            outputs = session.run("serving_default", {"text": strings(*texts)})
            np.testing.assert_allclose(outputs["scores"][:1], expected, atol=TOLERANCE)
        assert outputs["label"][0].decode() == str(expected.argmax())
        for width in (6, 16, SEQUENCE_LENGTH):
            wide = np.zeros((1, width), "int32")
            wide[:, :6] = ids
            mask = np.arange(width)[None] < int(short["padding_mask"].sum())
            scores = session.run("tokens", token_batch(wide, mask))["scores"]
            np.testing.assert_allclose(scores, expected, atol=TOLERANCE)
        with pytest.raises(tf.errors.InvalidArgumentError, match="1 to 40 tokens"):
            session.run("tokens", token_batch([[2] * (SEQUENCE_LENGTH + 1)]))


def test_pairs_and_regression(artefacts: Artefacts) -> None:
    import lvbert_tf

    model = lvbert_tf.LVBertTextClassifier.from_preset(str(artefacts.model("pairs")))
    second = [TEXTS[3], TEXTS[0], TEXTS[1], TEXTS[3]]
    expected = model.predict((list(TEXTS), second), verbose=0)
    with SavedModelSession(artefacts.saved_model("pairs") / "1") as session:
        check_signatures(
            session.definitions,
            saved_model_signatures(describe_task(model, pairs=True)),
        )
        inputs = {"text": strings(*TEXTS), "text_pair": strings(*second)}
        outputs = session.run("serving_default", inputs)
        np.testing.assert_allclose(outputs["scores"], expected, atol=TOLERANCE)
        # A value has no label.
        assert set(outputs) == {"scores"}
        inputs["text_pair"] = inputs["text_pair"][:1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="equally many"):
            session.run("serving_default", inputs)


def test_classify_takes_examples(session: SavedModelSession, classifier: Any) -> None:
    example = tf.train.Example()
    example.features.feature["text"].bytes_list.value.append(b"good movie.")
    serialized = np.array([example.SerializeToString()], dtype=object)
    outputs = session.run("classify", {"inputs": serialized})
    assert [name.decode() for name in outputs["classes"][0]] == list(LABELS)
    expected = keras_probabilities(classifier, ["good movie."])
    np.testing.assert_allclose(outputs["scores"], expected, atol=TOLERANCE)
    empty = np.array([tf.train.Example().SerializeToString()], dtype=object)
    with pytest.raises(tf.errors.InvalidArgumentError, match="text"):
        session.run("classify", {"inputs": empty})


def test_answers_say_what_was_cut_and_scores_come_alone(
    artefacts: Artefacts, classifier: Any, tmp_path: Path
) -> None:
    """`--truncated` and `--scores-only`; the check knows them from the signatures."""
    result = run(
        *("saved-model", "--model", artefacts.model(), "--output", tmp_path / "clf"),
        *("--truncated", "--scores-only", "--warm-up-batch-sizes", "2"),
    )
    assert result.status == 0, result.errors
    assert result.output is not None
    signatures = result.output["signatures"]
    assert signatures["serving_default"]["outputs"]["truncated"]["dtype"] == "bool"
    assert set(signatures["scores_only"]["outputs"]) == {"scores"}
    assert set(signatures["classify"]["outputs"]) == {"classes", "scores"}
    # 38 tokens fit between [CLS] and [SEP].
    texts = strings("a " * 38, "a " * 39, "", TEXTS[3])
    with SavedModelSession(tmp_path / "clf" / "1") as session:
        answer = session.run("serving_default", {"text": texts})
        assert answer["truncated"].tolist() == [False, True, False, True]
        alone = session.run("scores_only", {"text": texts})
    np.testing.assert_array_equal(alone["scores"], answer["scores"])
    check = run(
        *("check", "--model", artefacts.model(), "--artefact", tmp_path / "clf")
    )
    assert check.status == 0, check.errors


def test_bfloat16_is_smaller_and_gated_by_accuracy(
    artefacts: Artefacts, classifier: Any, tmp_path: Path
) -> None:
    texts = ["good movie", "bad film", "was the movie bad", "x y z", "badly made film"]
    best = keras_probabilities(classifier, texts).argmax(axis=-1)
    rows = [f"{text}\t{LABELS[label]}" for text, label in zip(texts, best, strict=True)]
    good, bad = tmp_path / "good.tsv", tmp_path / "bad.tsv"
    good.write_text("\n".join(["text\tlabel", *rows]), encoding="utf-8")
    words = ("saved-model", "--model", artefacts.model(), "--no-warm-up")
    half = ("--precision", "bfloat16", "--max-drop", "20")
    result = run(*words, "--output", tmp_path / "clf", *half, "--eval", good)
    assert result.status == 0, result.errors
    assert result.output is not None
    agreement = result.output["agreement"]
    assert agreement["metric_before"] == 100.0
    assert agreement["metric_after"] >= 80.0
    assert 0 < agreement["max_abs_difference"] < 0.1
    half_size, full_size = (
        sum(path.stat().st_size for path in (base / "1" / "variables").iterdir())
        for base in (tmp_path / "clf", artefacts.saved_model())
    )
    assert half_size < 0.8 * full_size
    check = run("check", "--model", artefacts.model(), "--artefact", tmp_path / "clf")
    assert check.status == 0, check.errors
    for extra, message in (
        (("--precision", "bfloat16"), "--eval: expected with --precision bfloat16"),
        (("--eval", good), "--eval: expected with --precision bfloat16"),
        ((*half, "--eval", bad), "bad.tsv"),
    ):
        refused = run(*words, "--output", tmp_path / "other", *extra)
        assert refused.status == 2
        assert message in refused.errors
    assert not (tmp_path / "other").exists()


def test_next_version_and_its_warm_up_sizes(
    artefacts: Artefacts, classifier: Any, tmp_path: Path
) -> None:
    # X07: the number after the highest; names that are none don't count.
    (tmp_path / "clf" / "3").mkdir(parents=True)
    (tmp_path / "clf" / "draft").mkdir()
    result = export_saved_model(
        classifier, tmp_path / "clf", warm_up=True, warm_up_batch_sizes=[4]
    )
    assert result["path"] == str(tmp_path / "clf" / "4")
    assert result["warm_up_records"] == 6


@pytest.mark.parametrize("version", ["one", "-1", "0", "1.5", "٣", str(2**63)])
def test_versions_that_servers_would_not_find_are_refused(
    artefacts: Artefacts, tmp_path: Path, version: str
) -> None:
    result = run(
        *("saved-model", "--model", artefacts.model(), "--output", tmp_path / "clf"),
        f"--version={version}",
    )
    assert result.status == 2
    assert "expected a positive integer" in result.errors
    assert version in result.errors
    assert not (tmp_path / "clf").exists()


def test_an_existing_version_is_refused(artefacts: Artefacts) -> None:
    base = artefacts.saved_model()
    before = (base / "1" / "saved_model.pb").stat().st_mtime_ns
    result = run(
        *("saved-model", "--model", artefacts.model(), "--output", base),
        *("--version", "01"),
    )
    assert result.status == 2
    assert "exists" in result.errors
    assert (base / "1" / "saved_model.pb").stat().st_mtime_ns == before


def test_a_difference_from_keras_leaves_nothing_behind(
    artefacts: Artefacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # O07: 1e-3 off, in one class.
    outputs = inference_graph.InferenceGraph.outputs
    monkeypatch.setattr(
        inference_graph.InferenceGraph,
        "outputs",
        lambda self, inputs: {
            "scores": outputs(self, inputs)["scores"] + tf.constant([1e-3, 0.0, 0.0])
        },
    )
    result = run(
        *("saved-model", "--model", artefacts.model()),
        *("--output", tmp_path / "new" / "clf"),
    )
    assert result.status == 1
    assert "differ from Keras by up to 0.001" in result.errors
    assert "tolerance 1e-05" in result.errors
    assert result.output is None
    assert list(tmp_path.iterdir()) == []
