"""Configuration files: round trip, precedence, and messages that name the key."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.command_line import UsageError
from lvbert_tf.search.sampling import SAMPLING_METHODS
from tests.paths import REPOSITORY
from training.pretraining import experiment
from training.quickstart import experiment as quickstart_experiment
from training.run import settings
from training.run.settings import setting


@dataclasses.dataclass(frozen=True)
class Section:
    """One field of every type."""

    text: str = setting("a string", "x")
    number: float = setting("a number", 1.0)
    count: int = setting("a count", 1)
    flag: bool = setting("a flag", False)
    maybe: int | None = setting("a count or nothing", None)


@dataclasses.dataclass(frozen=True)
class Config:
    """Two sections."""

    first: Section
    second: Section


SECTIONS = st.builds(
    Section,
    text=st.text(),
    number=st.floats(allow_nan=False, allow_infinity=False),
    count=st.integers(min_value=-(2**63), max_value=2**63 - 1),
    flag=st.booleans(),
    maybe=st.none() | st.integers(min_value=0, max_value=9),
)


@given(st.builds(Config, SECTIONS, SECTIONS))
def test_toml_reads_back_as_the_same_configuration(
    tmp_path_factory: pytest.TempPathFactory, config: Config
) -> None:
    file = tmp_path_factory.mktemp("toml") / "c.toml"
    file.write_bytes(settings.to_toml(config, "stage").encode("utf-8"))
    assert settings.load(Config, "stage", file) == config


@given(SECTIONS)
def test_overrides_read_back_as_the_same_section(section: Section) -> None:
    overrides = [
        f"first.{name}={settings.toml_value(value)}"
        for name, value in dataclasses.asdict(section).items()
        if value is not None
    ]
    assert settings.load(Config, "stage", None, overrides).first == section


def write(path: Path, text: str) -> Path:
    file = path / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_default_then_file_then_override(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "[data]\ndirectory = 'd'\n[model]\nnum_layers = 6\nletters = 'sf'\n",
    )
    loaded = experiment.load_supernet(
        file, ["model.letters=cf", "optimizer.warmup_steps=0", "run.steps=5"]
    )
    assert loaded.model.num_layers == 6
    assert loaded.model.letters == "cf"
    assert loaded.model.hidden_dim == 256
    assert loaded.run.steps == 5
    assert Path(loaded.data.directory) == Path("d").absolute()


def test_resolved_experiments_load_again(tmp_path: Path) -> None:
    supernet = experiment.load_supernet(None, ["data.directory=d"])
    file = write(tmp_path, experiment.to_toml(supernet))
    assert experiment.load_supernet(file, []) == supernet
    winner = experiment.pretrain_winner(supernet, "ccsf")
    file = write(tmp_path, experiment.to_toml(winner))
    assert experiment.load_pretrain(file, []) == winner
    assert winner.model.hidden_dim == supernet.model.hidden_dim
    assert winner.run.objective == "electra"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nhiden_dim = 8\n", "model.hiden_dim; did you mean 'hidden_dim'"),
        ("[model]\nsteps = 8\n", "did you mean 'run.steps'"),
        ("[modle]\nhidden_dim = 8\n", r"unknown section \[modle\].*'model'"),
        ("hidden_dim = 8\n", "'hidden_dim'; did you mean 'model.hidden_dim'"),
        ("model = 8\n", r"expected a section \[model\], found 8"),
        ("[run]\nsteps = '8'\n", "run.steps: expected a whole number, found '8'"),
        ("[run]\nsteps = true\n", "run.steps: expected a whole number, found True"),
        ("[run]\nsteps = 0\n", "run.steps: expected at least 1, found 0"),
        ("[run]\nsampling = 'fairly'\n", "uniform, fair; did you mean 'fair'"),
        ("[model]\ndropout = nan\n", "model.dropout: expected a finite number"),
        ("[model]\ndropout = 1.5\n", "model.dropout must be below 1"),
        ("[model]\nnum_heads = 3\n", "multiple of model.num_heads"),
        ("[model]\nkernel_size = 4\n", "model.kernel_size must be odd"),
        ("[model]\nletters = 'ccz'\n", "model.letters"),
        ("[run]\nsteps = 10\n", "optimizer.warmup_steps must not exceed run.steps"),
        ("[data]\nsequence_length = 513\n", "model.max_sequence_length"),
        ("[model\n", "not valid TOML"),
        ("stage = 'pretrain'\n", "configuration for `pretrain`; expected `supernet`"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(UsageError, match=message) as caught:
        experiment.load_supernet(file, ["data.directory=d"])
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps=3", "expected section.key=value"),
        ("run.steps", "expected section.key=value"),
        ("run.step=3", "did you mean 'steps'"),
        ("run.steps=many", "--set run.steps: expected a whole number, found 'many'"),
        ("model.architecture=ccq", r"model.architecture: .*\n  ccq\n    \^"),
    ],
)
def test_bad_overrides_are_refused_by_name(override: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        experiment.load_pretrain(None, ["data.directory=d", override])


def test_a_missing_file_or_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.toml: .*No such file"):
        experiment.load_supernet(tmp_path / "no.toml", [])
    with pytest.raises(UsageError, match=r"data\.directory is missing"):
        experiment.load_supernet(None, [])


def test_every_setting_has_a_help_text() -> None:
    kinds: list[Any] = [experiment.SupernetExperiment, experiment.PretrainExperiment]
    for kind in kinds:
        for section in settings.section_types(kind).values():
            for field in dataclasses.fields(section):
                assert field.metadata["help"]


@pytest.mark.parametrize(
    "file",
    sorted((REPOSITORY / "training" / "configs").glob("*.toml")),
    ids=lambda file: str(file.stem),
)
def test_every_config_that_is_shipped_loads(file: Path) -> None:
    stage = tomllib.loads(file.read_text())["stage"]
    if stage == "quickstart":
        quickstart = quickstart_experiment.load(file, [], gflops=150.0)
        assert quickstart.scale == 1.0
        for name in quickstart_experiment.STAGE_KINDS:
            assert quickstart.stage(name) == quickstart.stage(name)
        return
    load = {"supernet": experiment.load_supernet, "pretrain": experiment.load_pretrain}
    load[stage](file, ["data.directory=d"])


def test_the_sampling_choices_are_those_of_the_library() -> None:
    fields = {field.name: field for field in dataclasses.fields(experiment.SupernetRun)}
    assert fields["sampling"].metadata["choices"] == SAMPLING_METHODS
