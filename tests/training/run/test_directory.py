"""Run directories: resume, refusal with the difference, whole files only."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.command_line import CommandError, UsageError
from common.files import write_directory
from tests.paths import REPOSITORY
from training.run.directory import RunDirectory

CONFIG = 'stage = "supernet"\n[data]\ndirectory = "a"\n[run]\nsteps = 10\n'
DATA = {"index_sha256": "aa"}


def test_a_run_finds_its_state_again(tmp_path: Path) -> None:
    run = RunDirectory.open(tmp_path / "run", CONFIG, DATA)
    assert run.result() is None
    for step in (5, 10, 15):
        run.append_metrics(step, "train", {"loss": 1.0 / 3.0 / step})
    run.append_metrics(15, "validation", {"loss": float("nan")})
    run.close()
    again = RunDirectory.open(tmp_path / "run", CONFIG, DATA)
    assert again.last_metrics("validation") == {"loss": None}
    before = again.metrics_file.read_text().splitlines()
    again.truncate(10)
    assert again.metrics_file.read_text().splitlines() == before[:2]
    assert again.write_result({"steps": 10}) == {"steps": 10}
    assert again.result() == {"steps": 10}
    again.close()


def test_moved_data_is_the_same_data(tmp_path: Path) -> None:
    RunDirectory.open(tmp_path, CONFIG, DATA).close()
    moved = CONFIG.replace('"a"', '"b"')
    RunDirectory.open(tmp_path, moved, DATA).close()


@pytest.mark.parametrize(
    ("config", "data", "message"),
    [
        (CONFIG.replace("10", "20"), DATA, "run.steps: 10 there, 20 asked"),
        (CONFIG + "seed = 1\n", DATA, "run.seed: not set there, 1 asked"),
        (CONFIG, {"index_sha256": "bb"}, "index_sha256: 'aa' there, 'bb' asked"),
        (CONFIG.replace("supernet", "pretrain"), DATA, "stage: 'supernet' there"),
    ],
)
def test_another_configuration_is_refused(
    tmp_path: Path, config: str, data: dict[str, str], message: str
) -> None:
    RunDirectory.open(tmp_path, CONFIG, DATA).close()
    with pytest.raises(UsageError, match=message):
        RunDirectory.open(tmp_path, config, data)
    RunDirectory.open(tmp_path, CONFIG, DATA).close()


def test_foreign_directories_and_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match=r"found thesis\.tex and no config\.toml"):
        RunDirectory.open(tmp_path, CONFIG, DATA)
    with pytest.raises(UsageError, match="expected a directory, found a file"):
        RunDirectory.open(tmp_path / "thesis.tex", CONFIG, DATA)
    with pytest.raises(UsageError, match="expected the run directory of `supernet`"):
        RunDirectory.existing(tmp_path, "--supernet", "supernet")


def test_two_processes_cannot_work_in_one_directory(tmp_path: Path) -> None:
    run = RunDirectory.open(tmp_path, CONFIG, DATA)
    code = (
        "from pathlib import Path\n"
        "from training.run.directory import RunDirectory\n"
        f"RunDirectory.open(Path({str(tmp_path)!r}), {CONFIG!r}, {DATA!r})\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    run.close()
    assert other.returncode == 1
    assert "another process is working in it" in other.stderr


def test_a_torn_last_line_is_dropped_and_a_broken_one_named(tmp_path: Path) -> None:
    run = RunDirectory.open(tmp_path, CONFIG, DATA)
    run.append_metrics(1, "train", {"loss": 1.0})
    with run.metrics_file.open("a") as stream:
        stream.write('{"step": 2, "spl')
    assert [record["step"] for record in run.metrics()] == [1]
    run.truncate(2)
    assert run.metrics_file.read_text() == (
        '{"step": 1, "split": "train", "loss": 1.0}\n'
    )
    run.metrics_file.write_text("nonsense\n")
    with pytest.raises(CommandError, match=r"metrics\.jsonl:1: expected a JSON"):
        run.metrics()
    run.close()


def test_workers_write_apart_and_resume_from_the_chief(tmp_path: Path) -> None:
    worker = RunDirectory.open(tmp_path / "run", CONFIG, DATA, worker=1)
    chief = RunDirectory.open(tmp_path / "run", CONFIG, DATA)
    assert worker.path == tmp_path / "run" / "workers" / "1"
    assert worker.shared_checkpoints == chief.checkpoints
    worker.close()
    chief.close()


def test_a_directory_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write_directory(target, lambda path: (path / "a").write_text("1"))

    def fail(path: Path) -> None:
        (path / "b").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_directory(target, fail)
    assert [p.name for p in target.iterdir()] == ["a"]
    write_directory(target, lambda path: (path / "c").write_text("2"))
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert [p.name for p in target.iterdir()] == ["c"]


def test_a_run_can_be_taken_back_by_the_call_that_began_it(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path, CONFIG, {}) as first:
        first.forget()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    with RunDirectory.open(tmp_path, CONFIG, {}):
        pass
    with RunDirectory.open(tmp_path, CONFIG, {}) as again:
        again.forget()
    assert (tmp_path / "config.toml").exists()
