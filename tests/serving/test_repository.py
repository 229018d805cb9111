"""Loading, replacing and leasing versions."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import requests

from common.command_line import CommandError, UsageError
from serving.server.embedded import EmbeddedServer, ServerOptions
from serving.server.model_config import All, Latest, ModelConfig, Specific
from serving.server.repository import ModelRepository, State
from serving.server.servable import Servable
from serving.server.status import Code, ServingError
from serving.server.versions import check_startable, present_versions
from tests.serving.toy_models import add_warm_up, save_classifier, save_numbers

pytestmark = pytest.mark.serving


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version folder to copy from."""
    path = tmp_path_factory.mktemp("saved") / "numbers"
    save_numbers(path, factor=2.0)
    return path


def publish(saved: Path, base: Path, version: str) -> Path:
    """Copies under another name, then renames."""
    partial = base / f"copying-{version}"
    shutil.copytree(saved, partial)
    return partial.rename(base / version)


def load(name: str, path: Path) -> Servable:
    return Servable(path)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


@pytest.fixture
def repository(saved: Path, tmp_path: Path) -> Iterator[ModelRepository]:
    """A repository with version 1 loaded, which looks only when told."""
    publish(saved, tmp_path, "1")
    made = ModelRepository([ModelConfig("m", tmp_path)], load)
    made.update(strict=True)
    yield made
    made.close()


def test_a_new_version_replaces_the_old(
    repository: ModelRepository, saved: Path, tmp_path: Path
) -> None:
    publish(saved, tmp_path, "2")
    (tmp_path / "3").mkdir()  # being copied: no model in it yet
    (tmp_path / "notes").mkdir()
    repository.update(strict=True)
    states = [(entry.version, entry.state) for entry in repository.status("m")]
    assert states == [(2, State.AVAILABLE), (1, State.END)]


def resident_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def test_a_swap_leaves_no_memory_behind(saved: Path, tmp_path: Path) -> None:
    """A server that swaps versions for weeks must not grow; 4.6 MB stayed of each."""
    publish(saved, tmp_path, "1")
    made = ModelRepository([ModelConfig("m", tmp_path)], load)
    made.update(strict=True)
    numbers = {"numbers": np.array([[1.0]], np.float32)}

    def swap(number: int) -> None:
        publish(saved, tmp_path, str(number))
        made.update(strict=True)
        with made.lease("m") as (servable, version):
            assert version == number
            servable.run(servable.signatures["serving_default"], numbers)

    for number in range(2, 6):
        swap(number)
    before = resident_mb()
    for number in range(6, 12):
        swap(number)
    grown = resident_mb() - before
    made.close()
    assert grown < 12, f"six swaps left {grown:.1f} MB"


def test_running_requests_finish_on_the_old_version(
    repository: ModelRepository, saved: Path, tmp_path: Path
) -> None:
    numbers = np.array([[1.0]], np.float32)
    with repository.lease("m") as (servable, version):
        publish(saved, tmp_path, "2")
        repository.update(strict=True)
        assert version == 1
        assert repository.status("m", 1)[0].state is State.UNLOADING
        with repository.lease("m") as (_, newer):
            assert newer == 2
        with pytest.raises(ServingError, match="Specific"), repository.lease("m", 1):
            pass
        signature = servable.signatures["serving_default"]
        outputs = servable.run(signature, {"numbers": numbers}, ["scaled"])
        assert outputs["scaled"].tolist() == [[2.0]]
    assert repository.status("m", 1)[0].state is State.END


def test_a_broken_version_leaves_the_old_one_and_is_tried_again(
    repository: ModelRepository, saved: Path, tmp_path: Path
) -> None:
    broken = publish(saved, tmp_path, "2")
    variables = broken / "variables" / "variables.index"
    content = variables.read_bytes()
    variables.unlink()
    repository.update()
    newest = repository.status("m")[0]
    assert (newest.version, newest.state) == (2, State.END)
    assert newest.error is not None
    assert str(broken) in newest.error.message
    assert repository.available() == {"m": [1]}
    with pytest.raises(ServingError):
        repository.update(strict=True)
    variables.write_bytes(content)
    repository.update(strict=True)
    assert repository.available() == {"m": [2]}


def test_a_vanished_folder_keeps_and_a_removed_version_unloads(
    repository: ModelRepository, tmp_path: Path
) -> None:
    elsewhere = tmp_path.with_name(f"{tmp_path.name}-away")
    tmp_path.rename(elsewhere)
    repository.update()
    assert repository.available() == {"m": [1]}
    elsewhere.rename(tmp_path)
    shutil.rmtree(tmp_path / "1")
    repository.update()
    assert repository.available() == {"m": []}


def test_reconfiguring_replaces_everything(
    repository: ModelRepository, saved: Path, tmp_path: Path
) -> None:
    publish(saved, tmp_path, "2")
    repository.reconfigure([ModelConfig("n", tmp_path, All(), {"old": 1, "gone": 9})])
    assert repository.available() == {"m": [], "n": [1, 2]}
    with repository.lease("n", label="old") as (_, version):
        assert version == 1
    for label, code in (("nope", Code.INVALID_ARGUMENT), ("gone", Code.NOT_FOUND)):
        with pytest.raises(ServingError) as caught, repository.lease("n", label=label):
            pass
        assert caught.value.code is code


def test_closing_waits_for_running_requests(
    repository: ModelRepository,
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with repository.lease("m"):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(30)
    timer = threading.Timer(0.2, leave.set)
    timer.start()
    repository.close(timeout_s=30)
    assert leave.is_set()
    assert repository.status("m")[0].state is State.END
    thread.join()
    timer.join()


# X07, on the server's side; on the exporter's: `tests/export/test_saved_model.py`.
def test_version_names(saved: Path, tmp_path: Path) -> None:
    for name in ("1", "001", "20", "x3", "-4", "5.0", "9" * 25):
        publish(saved, tmp_path, name)
    assert sorted(present_versions(tmp_path)) == [1, 20]


@pytest.mark.parametrize(
    ("config", "part"),
    [
        (lambda base: ModelConfig("m", base / "nope"), "cannot be read"),
        (lambda base: ModelConfig("m", base / "1"), "name its parent"),
        (lambda base: ModelConfig("m", base / "empty"), "an empty folder"),
        (lambda base: ModelConfig("m", base, Specific((1, 2))), "missing are [2]"),
        (lambda base: ModelConfig("m", base, Latest(), {"x": 3}), "x is to name"),
    ],
)
def test_what_cannot_start_is_named(
    saved: Path, tmp_path: Path, config: Callable[[Path], ModelConfig], part: str
) -> None:
    publish(saved, tmp_path, "1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as caught:
        check_startable(config(tmp_path))
    assert part in str(caught.value)


def test_a_server_follows_its_folder_and_survives_scalars(
    saved: Path, tmp_path: Path
) -> None:
    """It loads new versions; the guard holds where the graph has none."""
    save_classifier(tmp_path / "clf" / "1", seed=1, guarded=False)
    options = ServerOptions(rest_port=0, grpc_port=0, poll_interval_s=0.05)
    with EmbeddedServer([ModelConfig("clf", tmp_path / "clf")], options) as server:
        url = f"{server.rest_url}/v1/models/clf"
        answer = requests.post(f"{url}:predict", json={"inputs": "a"}, timeout=30)
        assert answer.status_code == 400
        first = requests.post(
            f"{url}:predict", json={"instances": ["good"]}, timeout=30
        )
        publish(tmp_path / "clf" / "1", tmp_path / "clf", "3")
        wait_for(lambda: server.repository.available() == {"clf": [3]})
        second = requests.post(
            f"{url}/versions/3:predict", json={"instances": ["good"]}, timeout=30
        )
        assert second.json() == first.json()


def test_a_failing_warm_up_keeps_a_model_out(tmp_path: Path) -> None:
    path = tmp_path / "clf" / "1"
    save_classifier(path, seed=1)
    add_warm_up(path, ["good"], "serving_default")
    options = ServerOptions(rest_port=0, grpc_port=0)
    models = [ModelConfig("clf", tmp_path / "clf")]
    with EmbeddedServer(models, options) as server:
        assert server.repository.available() == {"clf": [1]}
    add_warm_up(path, ["good"], "no_such_signature")
    with pytest.raises(CommandError, match=r"warm-up record 0.*no_such_signature"):
        EmbeddedServer(models, options).start()


def test_labels_move_when_their_version_is_there(saved: Path, tmp_path: Path) -> None:
    """A label on a version that fails to load would be an outage."""
    publish(saved, tmp_path, "1")
    made = ModelRepository([ModelConfig("m", tmp_path, All(), {"stable": 1})], load)
    made.update(strict=True)
    broken = publish(saved, tmp_path, "2")
    variables = broken / "variables" / "variables.index"
    content = variables.read_bytes()
    variables.unlink()
    # The new policy does not want version 1 any more; its label still needs it.
    moved = ModelConfig("m", tmp_path, Specific((2,)), {"stable": 2, "new": 2})
    with pytest.raises(ServingError):
        made.reconfigure([moved])
    with made.lease("m", label="stable") as (_, version):
        assert version == 1
    with pytest.raises(ServingError) as caught, made.lease("m", label="new"):
        pass
    assert caught.value.code is Code.NOT_FOUND
    variables.write_bytes(content)
    made.update(strict=True)
    for label in ("stable", "new"):
        with made.lease("m", label=label) as (_, version):
            assert version == 2
    assert made.available() == {"m": [2]}
    made.close()


def test_any_exception_of_a_loader_ends_the_version(
    saved: Path, tmp_path: Path
) -> None:
    publish(saved, tmp_path, "1")

    def fail(name: str, path: Path) -> Servable:
        raise LookupError("of a kind that nobody planned")

    made = ModelRepository([ModelConfig("m", tmp_path)], fail)
    with pytest.raises(ServingError, match="nobody planned"):
        made.update(strict=True)
    (status,) = made.status("m")
    assert status.state is State.END
    made.close()


def test_a_version_that_the_server_was_too_busy_for_is_tried_again(
    saved: Path, tmp_path: Path
) -> None:
    publish(saved, tmp_path, "1")
    tries: list[str] = []

    def busy_at_first(name: str, path: Path) -> Servable:
        tries.append(name)
        if len(tries) == 1:
            raise ServingError(Code.UNAVAILABLE, "no room for a warm-up request")
        return Servable(path)

    made = ModelRepository([ModelConfig("m", tmp_path)], busy_at_first)
    made.update()
    assert made.available() == {"m": []}
    made.update()
    assert made.available() == {"m": [1]}
    made.close()


def test_a_refused_configuration_is_tried_again(saved: Path, tmp_path: Path) -> None:
    publish(saved, tmp_path, "1")
    wanted = [ModelConfig("m", tmp_path, Specific((1, 2)), {"new": 2})]
    offered = [wanted]
    options = ServerOptions(rest_port=0, grpc_port=0, poll_interval_s=0.05)
    with EmbeddedServer(
        [ModelConfig("m", tmp_path)],
        options,
        lambda: offered.pop() if offered else None,
    ) as server:
        wait_for(lambda: not offered)
        time.sleep(0.2)
        assert server.repository.available() == {"m": [1]}
        publish(saved, tmp_path, "2")
        wait_for(lambda: server.repository.available() == {"m": [1, 2]})
        with server.repository.lease("m", label="new") as (_, version):
            assert version == 2
