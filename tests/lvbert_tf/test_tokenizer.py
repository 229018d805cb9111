"""LVBertTokenizer: the official ids in every form, presets, graphs."""

import json
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.vocabulary import (
    SPECIAL_TOKENS,
    token_ids,
)
from tests.lvbert_tf import official_tokenizer
from tests.lvbert_tf.mini_vocabulary import GOLDEN, MINI, mini_tokenizer
from tests.paths import require_shared


@pytest.fixture(scope="module", params=["lower", "cased"])
def tokenizer(request: pytest.FixtureRequest) -> LVBertTokenizer:
    return LVBertTokenizer(MINI, lowercase=request.param == "lower", duplicates="last")


def _golden_cases(name: str) -> list[dict[str, object]]:
    content = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    assert len(content["cases"]) == 211
    return list(content["cases"])


def _case_of(tokenizer: LVBertTokenizer) -> str:
    return "lower" if tokenizer.lowercase else "cased"


def test_graph_gives_the_official_ids(tokenizer: LVBertTokenizer) -> None:
    cases = _golden_cases(f"mini_vocab_{_case_of(tokenizer)}")
    ids = tokenizer([case["text"] for case in cases])
    differing = [
        case["text"]
        for case, found in zip(cases, ids, strict=True)
        if found != case["ids"]
    ]
    assert differing == []


def test_tokenizers_library_gives_the_official_ids(
    tokenizer: LVBertTokenizer,
) -> None:
    cases = _golden_cases(f"mini_vocab_{_case_of(tokenizer)}")
    library = tokenizer.to_tokenizers()
    differing = [
        case["text"]
        for case in cases
        if library.encode(case["text"], add_special_tokens=False).ids != case["ids"]
    ]
    assert differing == []


def test_reference_gives_the_official_ids(tokenizer: LVBertTokenizer) -> None:
    """Else the tests against it below would prove nothing."""
    for case in _golden_cases(f"mini_vocab_{_case_of(tokenizer)}"):
        assert case["ids"] == official_tokenizer.ids(
            str(case["text"]),
            token_ids(tokenizer.get_vocabulary()),
            tokenizer.lowercase,
            tokenizer.lowercase,
        )


@pytest.mark.parametrize("case", ["lower", "cased"])
def test_damaged_official_vocabulary_gives_the_official_ids(case: str) -> None:
    vocabulary = require_shared("data/vocab.lv-bert-repo-damaged.txt")
    golden = require_shared(f"golden/tokenizer/repo_vocab_{case}.json")
    cases = json.loads(golden.read_text("utf-8"))["cases"]
    tokenizer = LVBertTokenizer(
        vocabulary, lowercase=case == "lower", duplicates="last"
    )
    assert tokenizer([row["text"] for row in cases]) == [row["ids"] for row in cases]
    library = tokenizer.to_tokenizers()
    for row in cases:
        encoded = library.encode(row["text"], add_special_tokens=False)
        assert encoded.ids == row["ids"], row["text"]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_undecodable_bytes_are_dropped(content: bytes) -> None:
    tokenizer = mini_tokenizer(True)
    sound = content.decode("utf-8", "ignore")
    found = tokenizer.tokenize(tf.constant([content]))
    assert found == tokenizer([sound])


def test_lower_casing_without_stripping_accents() -> None:
    """D09: lower-casing alone keeps accents; by default it drops them, as BERT does."""
    vocabulary = [*SPECIAL_TOKENS, "m\u00f6chte", "mochte", "M\u00f6chte"]
    text = ["M\u00f6chte"]
    assert LVBertTokenizer(vocabulary)(text) == [[6]]
    keeping = LVBertTokenizer(vocabulary, strip_accents=False)
    assert keeping(text) == [[5]]
    assert LVBertTokenizer(vocabulary, lowercase=False)(text) == [[7]]
    stripping = LVBertTokenizer(
        [*SPECIAL_TOKENS, "Mochte"], lowercase=False, strip_accents=True
    )
    assert stripping(text) == [[5]]
    for tokenizer, expected in ((keeping, 5), (stripping, 5)):
        library = tokenizer.to_tokenizers()
        assert library.encode(text[0], add_special_tokens=False).ids == [expected]


def test_special_tokens_in_text_are_text(tokenizer: LVBertTokenizer) -> None:
    text = "[MASK] [CLS] [PAD]"
    special = {tokenizer.mask_token_id, tokenizer.cls_token_id, tokenizer.pad_token_id}
    assert special.isdisjoint(tokenizer([text])[0])
    assert special.isdisjoint(
        tokenizer.to_tokenizers().encode(text, add_special_tokens=False).ids
    )


def test_library_form_lays_out_segments(tokenizer: LVBertTokenizer) -> None:
    library = tokenizer.to_tokenizers()
    encoded = library.encode("the house", "a key")
    first, second = tokenizer(["the house", "a key"])
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert encoded.ids == [cls, *first, sep, *second, sep]
    assert encoded.type_ids == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_eager_graph_and_dataset_agree(tokenizer: LVBertTokenizer) -> None:
    texts = ["The house", "", "playing, played! \u4e2d\u6587", "x" * 300]
    eager = tokenizer(texts)
    assert tf.function(tokenizer.tokenize)(tf.constant(texts)).to_list() == eager
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    assert [row.numpy().tolist() for row in dataset.map(tokenizer)] == eager
    batched = [row for batch in dataset.batch(3).map(tokenizer) for row in batch]
    assert [row.numpy().tolist() for row in batched] == eager
    ragged = tf.ragged.constant([[texts[0]], texts[1:]])
    assert tokenizer(ragged) == [[eager[0]], eager[1:]]
    assert tokenizer(tf.constant([], tf.string)) == []


def test_string_output_and_detokenize() -> None:
    texts = ["playing the house", ""]
    pieces = LVBertTokenizer(MINI, duplicates="last", dtype="string")
    ids = LVBertTokenizer(MINI, duplicates="last")
    assert pieces(texts) == [
        [ids.id_to_token(one) for one in row] for row in ids(texts)
    ]
    assert ids.detokenize(tf.ragged.constant(ids(texts), dtype=tf.int32)) == texts
    assert pieces.detokenize(tf.ragged.constant(pieces(texts))) == texts


def test_works_in_a_functional_model() -> None:
    from lvbert_tf.models.packing import pack_segments

    tokenizer = LVBertTokenizer(MINI, duplicates="last")

    class Packer(keras.layers.Layer):
        def call(self, inputs: tf.RaggedTensor) -> tf.Tensor:
            return pack_segments(
                inputs,
                sequence_length=6,
                cls_token_id=tokenizer.cls_token_id,
                sep_token_id=tokenizer.sep_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )[0]

    text = keras.Input((), dtype="string")
    model = keras.Model(text, Packer()(tokenizer(text)))
    found = tf.function(model)(tf.constant(["the house", "a"]))
    assert found.numpy().tolist() == [
        [2, *tokenizer(["the house"])[0], 3, 0, 0],
        [2, *tokenizer(["a"])[0], 3, 0, 0, 0],
    ]


def test_saved_model_loads_in_a_session(tmp_path: Path) -> None:
    """The way TF Serving loads a graph, without the vocabulary file around."""
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_bytes(MINI.read_bytes())
    tokenizer = LVBertTokenizer(vocabulary, duplicates="last")
    texts = ["Playing the house", "\u00fcml\u00e4ut " + "\u00e9" * 300]
    expected = tokenizer(texts)
    archive = keras.export.ExportArchive()
    archive.track(tokenizer)
    archive.add_endpoint(
        "serve",
        lambda text: tokenizer.tokenize(text).to_tensor(-1),
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
    )
    archive.write_out(str(tmp_path / "model"), verbose=False)
    vocabulary.unlink()
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.loader.load(
            session, ["serve"], str(tmp_path / "model")
        )
        signature = loaded.signature_def["serve"]
        (output,) = signature.outputs.values()
        found = session.run(output.name, {signature.inputs["text"].name: texts})
        operations = {
            node.op
            for graph in [session.graph.as_graph_def()]
            for nodes in (graph.node, *(f.node_def for f in graph.library.function))
            for node in nodes
        }
    assert [[one for one in row if one >= 0] for row in found.tolist()] == expected
    # Missing from TF Serving images before 2.20.
    assert operations.isdisjoint({"TFText>RoundRobinTrim", "TFText>Utf8Binarize"})
    assert "FastWordpieceTokenizeWithOffsets" in operations


def test_config_and_assets_round_trip(tmp_path: Path) -> None:
    tokenizer = LVBertTokenizer(
        MINI, lowercase=True, strip_accents=False, duplicates="last", name="words"
    )
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(tokenizer)
    )
    assert copy.get_config() == tokenizer.get_config()
    with pytest.raises(ValueError, match="no vocabulary yet"):
        copy(["a"])
    tokenizer.save_assets(str(tmp_path))
    copy.load_assets(str(tmp_path))
    assert copy(["M\u00f6chte the house"]) == tokenizer(["M\u00f6chte the house"])
    assert copy.vocabulary_sha256 == tokenizer.vocabulary_sha256


def test_preset_round_trip(tmp_path: Path) -> None:
    from lvbert_tf.models.backbone import LVBertBackbone

    tokenizer = LVBertTokenizer(MINI, duplicates="last")
    backbone = LVBertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        architecture="f",
        embedding_dim=4,
        hidden_dim=4,
        intermediate_dim=4,
        num_heads=1,
    )
    backbone.save_to_preset(str(tmp_path))
    tokenizer.save_to_preset(str(tmp_path))
    loaded = LVBertTokenizer.from_preset(str(tmp_path))
    assert loaded(["the house"]) == tokenizer(["the house"])
    assert loaded.special == tokenizer.special
    assert loaded.start_token_id == loaded.cls_token_id == 2
    assert loaded.end_token_id == loaded.sep_token_id == 3


def test_ids_and_arguments_are_checked() -> None:
    tokenizer = LVBertTokenizer([*SPECIAL_TOKENS, "a"])
    with pytest.raises(ValueError, match=r"\[0, 5\]. Received: id=6"):
        tokenizer.id_to_token(6)
    with pytest.raises(ValueError, match="token='b'"):
        tokenizer.token_to_id("b")
    with pytest.raises(ValueError, match="expects strings"):
        tokenizer([1, 2])
    with pytest.raises(ValueError, match="dtype='float32'"):
        LVBertTokenizer(dtype="float32")
    with pytest.raises(ValueError, match="duplicates='first'"):
        LVBertTokenizer([*SPECIAL_TOKENS], duplicates="first")  # type: ignore[arg-type]
