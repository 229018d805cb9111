"""The commands ``rank-check`` and ``random-baseline``."""

import json
from pathlib import Path

import pytest

from common.command_line import UsageError
from tests.commands import run as command
from tests.training.supernets import make_supernet_run
from training.pretraining.experiment import load_pretrain
from training.scoring.random_architectures import draw_architectures, letter_sets


@pytest.fixture(scope="module")
def supernets(
    tmp_path_factory: pytest.TempPathFactory, tiny_data: Path
) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("supernets")
    first = make_supernet_run(folder / "first", tiny_data)
    return first, make_supernet_run(folder / "second", tiny_data)


def test_which_architectures_are_drawn() -> None:
    assert letter_sets("", "csf") == ["csf", "cs", "cf", "sf"]
    assert letter_sets("", "sf") == ["sf"]
    assert letter_sets("cs,f", "csf") == ["cs", "f"]
    with pytest.raises(UsageError, match="different letters of 'csf', found 'cq'"):
        letter_sets("cs,cq", "csf")
    drawn = draw_architectures(["csf", "cs", "cf", "sf"], 12, 12, seed=0)
    assert len({name for name, _ in drawn}) == 12
    sets = [letters for _, letters in drawn]
    assert [sets.count(s) for s in ("csf", "cs", "cf", "sf")] == [6, 2, 2, 2]
    assert all(set(name) <= set(letters) for name, letters in drawn)
    assert drawn == draw_architectures(["csf", "cs", "cf", "sf"], 12, 12, seed=0)
    assert drawn != draw_architectures(["csf", "cs", "cf", "sf"], 12, 12, seed=1)
    with pytest.raises(UsageError, match="2 layers of 's' do not have so many"):
        draw_architectures(["s"], 2, 3, seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--architectures", "1"), "--architectures: expected at least 2, found 1"),
        (("--steps", "0"), "--steps: expected at least 1, found 0"),
        (("--letter-sets", "xy"), "different letters of 'csf'"),
        (("--examples", "-1"), "--examples: expected at least 0, found -1"),
        (("--second-supernet", "/nowhere"), "--second-supernet /nowhere: expected"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    supernets: tuple[Path, Path],
    tiny_data: Path,
    options: tuple[str, ...],
    message: str,
) -> None:
    words = ("rank-check", "--supernet", str(supernets[0]), "--data", str(tiny_data))
    status, result, errors = command("training", *words, "--steps", "2", *options)
    assert status == 2
    assert result is None
    assert message in errors
    status, _, errors = command(
        "training", "random-baseline", "--run-dir", tmp_path / "x"
    )
    assert status == 2
    assert "expected either --supernet or --sizes" in errors


@pytest.mark.slow
def test_rank_check_of_the_command_s11(
    tmp_path: Path,
    supernets: tuple[Path, Path],
    tiny_data: Path,
) -> None:
    words = (
        *("rank-check", "--supernet", str(supernets[0]), "--data", str(tiny_data)),
        *("--second-supernet", str(supernets[1]), "--run-dir", str(tmp_path / "run")),
        *("--architectures", "4", "--steps", "6", "--batch-size", "4"),
        *("--learning-rate", "0.01"),
    )
    status, result, errors = command("training", *words)
    assert status == 0, errors
    assert result["n"] == 4
    for name in ("kendall_tau", "spearman", "noise_ceiling", "baselines", "interval"):
        assert name in result
    assert set(result["baselines"]) == {
        *("params", "flops", "count_c", "count_s", "count_f")
    }
    assert -1.0 <= result["supernet_agreement"]["kendall_tau"] <= 1.0
    assert result["by"] == "loss"
    assert result["unigram_loss"] > 0
    assert all(len(one["own_loss"]) == 2 for one in result["architectures"])
    # The same records and masks as `evaluate`
    from lvbert_tf import Architecture
    from training.scoring import evaluate

    first = result["architectures"][0]
    (scored,) = evaluate.evaluate(
        supernets[0], str(tiny_data), [Architecture(first["architecture"])]
    )["results"]
    assert scored["accuracy"] == first["inherited_accuracy"]
    assert scored["loss"] == pytest.approx(first["inherited_loss"], rel=1e-6)
    # Again: nothing is trained anew
    assert command("training", *words)[1] == result
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result


@pytest.mark.slow
def test_random_baseline(
    tmp_path: Path,
    supernets: tuple[Path, Path],
) -> None:
    run_dir = tmp_path / "run"
    words = (
        *("random-baseline", "--supernet", str(supernets[0]), "--letters", "cs"),
        *("--run-dir", str(run_dir), "--architectures", "2"),
        *("--steps", "4", "--batch-size", "4"),
    )
    status, result, errors = command("training", *words)
    assert status == 0, errors
    names = [one["architecture"] for one in result["candidates"]]
    assert len(set(names)) == 2
    assert all(set(name) <= set("cs") for name in names)
    values = [one[result["by"]] for one in result["candidates"]]
    assert result["by"] == "loss"
    assert result["best"]["loss"] == min(values)
    assert Path(result["best"]["model"]).is_dir()
    winner = load_pretrain(Path(result["winner"]))
    assert winner.model.architecture == result["best"]["architecture"]
    # Again: from its result; and another configuration is refused
    assert command("training", *words)[1] == result
    status, _, errors = command("training", *words, "--steps", "5")
    assert status == 2
    assert "study.steps: 4 there, 5 asked" in errors
