"""``python -m training prepare`` as a user calls it."""

import json
from pathlib import Path

import pytest

from common.command_line import run_application
from lvbert_tf.vocabulary import SPECIAL_TOKENS, write_vocabulary
from training.__main__ import COMMANDS
from training.data.manifest import DataManifest
from training.data.verification import verify


def _run(*arguments: str) -> int:
    return run_application("python -m training", "", COMMANDS, ["prepare", *arguments])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    texts = [f"Document {n}: the cat sat.\nIt purred {n} times." for n in range(300)]
    path.write_text("\n\n".join(texts))
    return path


def test_result(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "data"
    status = _run(
        *("--input", str(corpus), "--output", str(output)),
        *("--vocabulary-size", "120", "--sequence-length", "32"),
        *("--held-out", "0.1", "--workers", "1", "--unused-tokens", "3"),
    )
    captured = capsys.readouterr()
    assert status == 0, captured.err
    result = json.loads(captured.out.splitlines()[-1])
    manifest = DataManifest.load(output)
    verify(manifest)
    assert result["documents"] == 300
    assert result["examples"] == manifest.num_examples("train") > 0
    assert result["held_out_examples"] == manifest.num_examples("held_out") > 0
    assert result["tokens"] > 3000
    assert result["unknown_fraction"] == 0.0
    assert result["vocabulary_size"] == manifest.vocabulary_size <= 120
    assert result["megabytes_per_second"] > 0
    assert (output / "vocab.txt").read_text().startswith("[PAD]\n[UNK]\n[CLS]\n")
    assert manifest.sequence_length == 32
    assert "records" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "none.txt"], "none.txt: no such file"),
        (["--sequence-length", "3"], "--sequence-length must be at least 5"),
        (["--held-out", "2"], "--held-out must be"),
        (["--vocabulary", "none"], "--vocabulary none: No such file"),
        (["--vocabulary", "words", "--vocabulary-size", "9"], "not allowed with"),
        (["--workers", "many"], "--workers: invalid int value"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    corpus: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    output = tmp_path / "data"
    base = ["--input", str(corpus), "--output", str(output)]
    assert _run(*base, *arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not output.exists()


def test_damaged_vocabulary_names_file_and_line(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.txt"
    write_vocabulary(words, [*SPECIAL_TOKENS, "a", "a"])
    base = ("--input", str(corpus), "--output", str(tmp_path / "data"))
    assert _run(*base, "--vocabulary", str(words)) == 2
    assert f"{words}:7: the entry 'a' repeats line 6" in capsys.readouterr().err
    assert _run(*base, "--vocabulary", str(words), "--official", "--workers", "1") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["unknown_fraction"] > 0.5


def test_options_default_to_the_contract(corpus: Path, tmp_path: Path) -> None:
    import argparse

    from training.commands import prepare

    parser = argparse.ArgumentParser()
    prepare.add_arguments(parser)
    values = parser.parse_args(["--input", "a", "b", "--output", "c"])
    assert (values.input, values.output) == (["a", "b"], Path("c"))
    assert (values.sequence_length, values.held_out) == (128, 0.02)
    assert (values.short_probability, values.single_probability) == (0.05, 0.1)
    assert (values.vocabulary_size, values.workers, values.seed) == (30522, None, 0)
    assert (
        parser.parse_args(
            ["--input", "a", "--output", "c", "--short-seq-prob", "0"]
        ).short_probability
        == 0
    )


def test_examples_without_chance_are_full_pairs(tmp_path: Path) -> None:
    """D04: the rules of 5% and 10% are options, and off at 0."""
    import tensorflow as tf

    path = tmp_path / "corpus.txt"
    line = "the cat sat on the mat . "
    path.write_text("\n\n".join(line * (40 + n) + "\n" + line * 30 for n in range(40)))
    shares = {}
    for name, chance in (("none", "0"), ("default", "")):
        output = tmp_path / name
        options = ("--short-seq-prob", chance, "--single-seg-prob", chance)
        status = _run(
            *("--input", str(path), "--output", str(output), "--held-out", "0"),
            *("--vocabulary-size", "40", "--sequence-length", "32", "--workers", "1"),
            *(options if chance else ()),
        )
        assert status == 0
        full_pairs, records = 0, 0
        for shard in DataManifest.load(output).split("train"):
            for raw in tf.data.TFRecordDataset(str(output / shard.file)):
                feature = tf.train.Example.FromString(raw.numpy()).features.feature
                segments = feature["segment_ids"].int64_list.value
                records += 1
                full_pairs += len(segments) == 32 and max(segments) == 1
        # Every document ends with a record that may be shorter.
        shares[name] = (full_pairs / records, records)
        assert records > 400
    assert shares["none"][0] >= 1 - 40 / shares["none"][1]
    expected = 0.95 * 0.9 * (1 - 40 / shares["default"][1])
    assert abs(shares["default"][0] - expected) < 0.05
