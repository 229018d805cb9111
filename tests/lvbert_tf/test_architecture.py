"""Architecture strings: every notation, and errors that point at the symbol."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvbert_tf.architecture import (
    Architecture,
    architectures,
    letters,
    register_architecture,
    register_letter,
)

LV_BERT = "ccsffscffsccsfcfscfcssfs"


@st.composite
def specs(draw: st.DrawFn, depth: int = 2) -> tuple[str, str]:
    """Draws a spec and what it stands for."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        if depth and draw(st.booleans()):
            written, meant = draw(specs(depth=depth - 1))
            written = f"({written})"
        else:
            written = meant = draw(st.sampled_from("csf"))
        times = draw(st.integers(1, 4))
        if times > 1 or draw(st.booleans()):
            written += f"x{times}"
        parts.append((written, meant * times))
    return "".join(w for w, _ in parts), "".join(m for _, m in parts)


@given(specs())
def test_repeats_expand(spec: tuple[str, str]) -> None:
    assert str(Architecture.parse(spec[0])) == spec[1]


@given(st.text("csf", min_size=1, max_size=70))
def test_all_notations_agree(string: str) -> None:
    architecture = Architecture.parse(string)
    assert str(architecture) == string
    assert len(architecture) == len(string)
    assert list(architecture) == list(string)
    assert Architecture.parse(architecture.layer_list) == architecture
    assert Architecture.parse(list(string)) == architecture
    assert Architecture.parse(architecture) is architecture
    assert hash(Architecture.parse(string)) == hash(architecture)
    assert pickle.loads(pickle.dumps(architecture)) == architecture
    assert sum(architecture.count(letter) for letter in letters()) == len(string)


@given(st.text(max_size=12))
def test_any_text_parses_or_is_refused_with_a_caret(text: str) -> None:
    try:
        parsed = Architecture.parse(text)
    except ValueError as error:
        lines = str(error).splitlines()
        assert lines[0].startswith("Invalid architecture at position")
        assert lines[-1].strip() == "^"
    else:
        assert set(str(parsed)) <= set(letters())


@pytest.mark.parametrize(
    ("spec", "column", "problem"),
    [
        ("ccsq", 3, "unknown symbol 'q'"),
        ("", 0, "at least one layer"),
        ("(sf", 0, "without its ')'"),
        ("sf)x3", 2, "')' without its '('"),
        ("(sf)x", 5, "how often to repeat"),
        ("sx0", 2, "how often to repeat"),
        ("()x3", 1, "nothing between"),
        ("(cs)x99999", 0, "more than 4096 layers"),
        ("(((cx99)x99)x99)x99", 2, "more than 4096 layers"),
    ],
)
def test_the_caret_stands_under_the_first_bad_symbol(
    spec: str, column: int, problem: str
) -> None:
    with pytest.raises(ValueError, match="Invalid architecture") as error:
        Architecture.parse(spec)
    first, shown, caret = str(error.value).splitlines()
    assert problem in first
    assert shown == f"  {spec}"
    assert caret.index("^") - 2 == column


@pytest.mark.parametrize("entries", [[0, 3], ["c", "x"], [0, True], [1.0], [-1]])
def test_a_bad_entry_of_a_list_is_named_by_its_index(entries: list[object]) -> None:
    with pytest.raises(ValueError, match=f"Entry {len(entries) - 1} of the layer list"):
        Architecture.parse(entries)  # type: ignore[arg-type]


def test_names() -> None:
    assert str(Architecture.parse("lv_bert")) == LV_BERT
    assert str(Architecture.parse("electra")) == "sf" * 12
    assert str(Architecture.parse("dynamic_conv")) == "cf" * 12
    assert all(len(Architecture.parse(name)) == 24 for name in architectures())
    with pytest.raises(ValueError, match="cannot name an architecture"):
        register_architecture("csf", "cs")
    with pytest.raises(ValueError, match="already taken"):
        register_architecture("lv_bert", "cs")


def test_it_is_immutable() -> None:
    architecture = Architecture.parse("cs")
    with pytest.raises(AttributeError, match="immutable"):
        architecture._string = "ff"
    with pytest.raises(ValueError, match="letters or codes"):
        Architecture.parse(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("letter", ["x", "S", "ss", "1", "("])
def test_a_letter_must_be_usable_in_strings(letter: str) -> None:
    with pytest.raises(ValueError, match="must be one lower-case"):
        register_letter(letter, "something")


def test_a_letter_keeps_its_meaning() -> None:
    register_letter("s", "self-attention")
    with pytest.raises(ValueError, match="already stands for"):
        register_letter("s", "something else")


def test_the_module_needs_no_tensorflow() -> None:
    code = (
        "import importlib.util, sys;"
        "spec = importlib.util.spec_from_file_location("
        "'architecture', 'lvbert_tf/architecture.py');"
        "module = importlib.util.module_from_spec(spec);"
        "spec.loader.exec_module(module);"
        "assert str(module.Architecture.parse('(sf)x2')) == 'sfsf';"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
