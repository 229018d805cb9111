"""The quickstart needs no luck: it passes whatever its search may find."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from training.pretraining.experiment import pretrain_winner
from training.pretraining.experiment import to_toml as pretrain_toml
from training.quickstart import experiment as quickstart_experiment
from training.quickstart.experiment import QuickstartExperiment
from training.quickstart.stages import STAGES
from training.quickstart.summary import MARGIN

pytestmark = pytest.mark.slow

CONFIG = quickstart_experiment.load(None, [], gflops=100.0)
"""As the reference machine runs it, whatever this one's rate."""


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stages before pretraining, without the search that is stood for."""
    path = tmp_path_factory.mktemp("quickstart")
    for name in ("data", "prepare"):
        (path / name).mkdir()
        STAGES[name](CONFIG, path / name)
    return path


def letters_of(draw: int) -> str:
    return "".join(np.random.default_rng([15, draw]).choice(list("csf"), 8))


def accuracy_of(config: QuickstartExperiment, path: Path, letters: str) -> float:
    """Returns by how much the classifier of an architecture beats the majority."""
    for name in ("search", "pretrain", "finetune"):
        shutil.rmtree(path / name, ignore_errors=True)
        (path / name).mkdir()
    records = {"data.directory": str(path / "prepare" / "records")}
    winner = pretrain_winner(config.stage("supernet", records), letters)
    (path / "search" / "winner.toml").write_text(pretrain_toml(winner))
    STAGES["pretrain"](config, path / "pretrain")
    result = STAGES["finetune"](config, path / "finetune")
    return float(result["median"] - result["majority"])


@pytest.mark.parametrize("draw", range(10))
def test_the_quickstart_passes_for_an_architecture_at_random(
    journey: Path, draw: int
) -> None:
    letters = letters_of(draw)
    above = accuracy_of(CONFIG, journey, letters)
    print(f"{letters}: {above:+.3f} above the majority")
    assert above >= MARGIN, letters
