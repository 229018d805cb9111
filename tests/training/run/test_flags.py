"""Short forms of settings on the command line."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.command_line import UsageError
from training.run import settings
from training.run.flags import Flag, add_stage_arguments, overrides_of
from training.run.settings import setting


@dataclass(frozen=True)
class Section:
    """A section."""

    file: str = setting("where it lies")
    count: int = setting("how many, 100% of them", 3, minimum=1)
    names: str = setting("names, separated by commas", "")
    fast: bool = setting("whether to hurry", False)
    mode: str = setting("which", "auto", choices=("auto", "on", "off"))


@dataclass(frozen=True)
class Stage:
    """A configuration."""

    part: Section


FLAGS = (
    Flag("--file", "part.file", path=True),
    Flag("--count", "part.count"),
    Flag("--name", "part.names", many=True),
    Flag("--fast", "part.fast"),
    Flag("--mode", "part.mode", switch=("on", "off")),
)


def load(*words: str) -> Section:
    parser = argparse.ArgumentParser()
    add_stage_arguments(parser, Stage, FLAGS, run_dir_required=False)
    arguments = parser.parse_args(words)
    overrides = overrides_of(arguments, FLAGS)
    return settings.load(Stage, "stage", arguments.config, overrides).part


def test_flags_stand_for_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("--file", "a b'\".txt") == Section(str(tmp_path / "a b'\".txt"))
    words = ("--file", "x", "--count", "5", "--name", "p", "q", "--fast", "--no-mode")
    assert load(*words) == Section(str(tmp_path / "x"), 5, "p,q", True, "off")
    assert load("--file", "x", "--no-fast", "--mode").mode == "on"


def test_flags_win_over_set_and_set_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "stage.toml"
    file.write_text('stage = "stage"\n[part]\nfile = "f"\ncount = 7\nfast = true\n')
    given = ("--config", str(file), "--set", "part.count=8")
    assert load("--config", str(file)) == Section("f", 7, fast=True)
    assert load(*given).count == 8
    assert load(*given, "--count", "9", "--no-fast") == Section("f", 9)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--count", "0"), "--count: expected at least 1, found 0"),
        (("--count", "x"), "--count: expected a whole number, found 'x'"),
        (("--set", "part.count=0"), "--set part.count: expected at least 1"),
        (("--set", "part.cuont=0"), "did you mean 'count'?"),
    ],
)
def test_errors_name_what_was_typed(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load("--file", "x", *words)
    assert message in str(caught.value)


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(UsageError, match=r"part\.file is missing: where it lies"):
        load()


def test_help_names_setting_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "how many, 100% of them (--set part.count; default: 3)" in text
