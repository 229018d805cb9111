"""LVBertTokenizer: the official ids in every engine, presets, graphs."""

import json
import lzma
import unicodedata
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.vocabulary import (
    SPECIAL_TOKENS,
    read_vocabulary,
    token_ids,
    vocabulary_sha256,
)
from tests.lvbert_tf import official_tokenizer
from tests.paths import require_shared

GOLDEN = Path(__file__).parent.parent / "golden" / "tokenizer"
MINI = GOLDEN / "mini_vocab.txt"

# The engines carry different Unicode versions. Characters that were assigned in 3.2
# mean the same in all of them, save those whose category or case changed later; the
# exhaustive test below lists those.
OLD_UNICODE = unicodedata.ucd_3_2_0


def _stable(character: str) -> bool:
    category = OLD_UNICODE.category(character)
    return category not in ("Cn", "Co", "Cs") and category == unicodedata.category(
        character
    )


STABLE = [chr(code) for code in range(0x110000) if _stable(chr(code))]


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


def _agree(tokenizer: LVBertTokenizer, texts: list[str]) -> list[str]:
    """Returns the texts on which graph, library and reference don't agree."""
    vocabulary = token_ids(tokenizer.get_vocabulary())
    strip = tokenizer.normalization.strip_accents
    library = tokenizer.to_tokenizers()
    return [
        text
        for text, graph in zip(texts, tokenizer(texts), strict=True)
        if not (
            graph
            == library.encode(text, add_special_tokens=False).ids
            == official_tokenizer.ids(text, vocabulary, tokenizer.lowercase, strip)
        )
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(
            st.sampled_from(STABLE)
            | st.characters(max_codepoint=0x2FF, exclude_categories=("Cn", "Co", "Cs"))
        ),
        min_size=1,
        max_size=8,
    )
)
@example(["\u03a3\u039f\u03a6\u039f\u03a3 \u03a3 a\u03a3.\u03a3 \u03a3\u03a3"])
@example(["a" * 200, "a" * 201, "\u00e9" * 201, "a\u00e9" * 101, "e\u0301" * 150])
@example(["a" * 150 + "\u2014" + "b" * 150, "\u4e2d" * 300, "x\u3000" * 300])
@example([f"{'e' * 100}\u0301{'f' * 100}", "\u1e9e\u0130\u0149"])
def test_engines_agree_on_any_text(texts: list[str]) -> None:
    for lowercase in (True, False):
        tokenizer = _mini_tokenizer(lowercase)
        assert _agree(tokenizer, texts) == []


_cache: dict[bool, LVBertTokenizer] = {}


def _mini_tokenizer(lowercase: bool) -> LVBertTokenizer:
    if lowercase not in _cache:
        _cache[lowercase] = LVBertTokenizer(
            MINI, lowercase=lowercase, duplicates="last"
        )
    return _cache[lowercase]


@pytest.mark.parametrize("lowercase", [True, False])
def test_engines_agree_on_every_character(lowercase: bool) -> None:
    """Each stable character alone, inside a word and doubled.

    The vocabulary has every single character, so that dropping, splitting and case
    show in the ids.
    """
    pieces = dict.fromkeys(
        piece
        for character in STABLE
        for shape in {character, character.lower()}
        for base in {shape, unicodedata.normalize("NFD", shape)}
        for one in base
        if not unicodedata.category(one).startswith(("C", "Z"))
        for piece in (one, f"##{one}")
    )
    tokenizer = LVBertTokenizer(
        [*SPECIAL_TOKENS, *pieces], lowercase=lowercase, duplicates="last"
    )
    texts = [f"{one} a{one}b {one}{one}" for one in STABLE]
    groups = [" ".join(texts[start : start + 64]) for start in range(0, len(texts), 64)]
    assert _agree(tokenizer, groups) == []


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_undecodable_bytes_are_dropped(content: bytes) -> None:
    tokenizer = _mini_tokenizer(True)
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


def test_vocabulary_sha256_is_that_of_the_file() -> None:
    header = json.loads((GOLDEN / "mini_vocab_lower.json").read_text("utf-8"))
    tokenizer = LVBertTokenizer(MINI, duplicates="last")
    assert tokenizer.vocabulary_sha256 == header["vocab_sha256"]
    assert tokenizer.vocabulary_size() == header["vocab_lines"]
    assert vocabulary_sha256(read_vocabulary(MINI, "last")) == header["vocab_sha256"]


def test_entries_that_text_cannot_produce_do_not_matter() -> None:
    """Control characters in an entry crash the stock builder."""
    vocabulary = [*SPECIAL_TOKENS, "a\x07b", "\ue000", "\ufffdx", "ab"]
    tokenizer = LVBertTokenizer(vocabulary)
    assert tokenizer(["a\x07b \ue000 " + "y" * 201]) == [[8, 1]]
    assert tokenizer.id_to_token(5) == "a\x07b"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a", "b", "a"], "vocab.txt:8: the entry 'a' repeats line 6"),
        (["a", "", "b"], "vocab.txt:7: the entry is blank"),
        (["a\r"], "vocab.txt:6: the line ends with a carriage return"),
        ([" a"], "vocab.txt:6: the entry has white space around"),
    ],
)
def test_damaged_vocabulary_is_refused(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(f"{one}\n" for one in [*SPECIAL_TOKENS, *lines]).encode())
    with pytest.raises(ValueError, match=message):
        LVBertTokenizer(path)


@pytest.mark.parametrize("missing", SPECIAL_TOKENS)
def test_missing_special_token_is_named(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{one}\n" for one in SPECIAL_TOKENS if one != missing))
    with pytest.raises(ValueError, match="is missing") as raised:
        LVBertTokenizer(path)
    assert missing in str(raised.value)
    assert str(path) in str(raised.value)


def test_undecodable_vocabulary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("\n".join(SPECIAL_TOKENS).encode() + b"\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"vocab\.txt:6: expected UTF-8"):
        LVBertTokenizer(path)


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


CORPORA = ("books_00", "us_speeches", "wiki_paragraphs", "wikitext2.valid")


def _lines(name: str) -> list[str]:
    found = [p for p in require_shared("data/corpus").glob(f"{name}*.xz")]
    assert len(found) == 1
    return lzma.decompress(found[0].read_bytes()).decode("utf-8").splitlines()


def _disagreeing(lines: list[str], lowercase: bool) -> list[str]:
    vocabulary = require_shared("data/vocab.bert-uncased.txt")
    tokenizer = LVBertTokenizer(str(vocabulary), lowercase=lowercase)
    library = tokenizer.to_tokenizers()
    eager = library.encode_batch_fast(lines, add_special_tokens=False)
    graph = tf.function(tokenizer.tokenize_strings, autograph=False)(
        tf.constant(lines)
    ).to_list()
    return [
        line
        for line, ids, encoding in zip(lines, graph, eager, strict=True)
        if ids != encoding.ids
    ]


@pytest.mark.parametrize("lowercase", [True, False])
def test_engines_agree_on_real_text(lowercase: bool) -> None:
    for name in CORPORA:
        lines = _lines(name)
        assert _disagreeing(lines[:: max(1, len(lines) // 400)], lowercase) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CORPORA, "wikitext2.test", "books_07"])
def test_engines_agree_on_every_line_of_a_corpus(name: str) -> None:
    lines = _lines(name)
    assert len(lines) > 1000
    assert _disagreeing(lines, lowercase=True) == []
    assert _disagreeing(lines, lowercase=False) == []
