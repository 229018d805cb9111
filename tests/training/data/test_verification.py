"""Damaged data is named before anything trains on it."""

import shutil
import threading
from pathlib import Path

import pytest

from common.command_line import CommandError, UsageError
from lvbert_tf.vocabulary import SPECIAL_TOKENS, write_vocabulary
from tests.commands import run
from training.data import verification
from training.data.examples import ExampleOptions
from training.data.manifest import DataManifest
from training.data.preparation import PrepareOptions, prepare
from training.data.verification import ensure_verified, start_verification, verify


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verification")
    words = [f"w{number}" for number in range(50)]
    write_vocabulary(folder / "words.txt", [*SPECIAL_TOKENS, *words])
    documents = [
        " ".join(words[(n + 3 * i) % 50] for i in range(60)) for n in range(90)
    ]
    (folder / "corpus.txt").write_text("\n\n".join(documents))
    prepare(
        PrepareOptions(
            inputs=[str(folder / "corpus.txt")],
            output=folder / "data",
            vocabulary=folder / "words.txt",
            examples=ExampleOptions(16),
            held_out=0.2,
            workers=1,
            shard_bytes=4000,
        )
    )
    return folder / "data"


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def test_sound_data_passes(data: Path) -> None:
    ensure_verified(data, "train")
    ensure_verified(data, "held_out")
    verify(DataManifest.load(data))


def test_every_damaged_file_is_named(data: Path) -> None:
    manifest = DataManifest.load(data)
    first, *_, last = manifest.split("train")
    for shard in (first, last):
        _damage(data / shard.file)
    ensure_verified(data, "held_out")
    with pytest.raises(CommandError, match="prepare it again") as caught:
        ensure_verified(data, "train")
    message = str(caught.value)
    assert message.count("expected sha256") == 2
    assert f"{data / first.file} (expected sha256 {first.sha256}" in message
    assert f"{data / last.file} (" in message
    with pytest.raises(CommandError):
        verify(manifest)


def test_vocabulary_counts(data: Path) -> None:
    _damage(data / "vocab.txt")
    with pytest.raises(CommandError, match=r"vocab\.txt"):
        ensure_verified(data, "held_out")


def test_a_process_compares_once_and_sees_changes(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = []
    original = verification.file_sha256
    monkeypatch.setattr(
        verification, "file_sha256", lambda p: (hashed.append(p), original(p))[1]
    )
    started = start_verification(data, "train")
    ensure_verified(data, "train")
    assert start_verification(str(data), "train") is started
    # The shards, the vocabulary and the token counts
    files = len(DataManifest.load(data).split("train")) + 2
    assert len(hashed) == len(set(hashed)) == files
    _damage(data / DataManifest.load(data).split("train")[0].file)
    with pytest.raises(CommandError, match="train-00000"):
        ensure_verified(data, "train")


def test_start_does_not_wait(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    original = verification.file_sha256

    def slow(path: Path) -> str:
        assert release.wait(60)
        return original(path)

    monkeypatch.setattr(verification, "file_sha256", slow)
    started = start_verification(data, "train")
    assert any(thread.is_alive() for thread in started._threads)
    release.set()
    started.wait()
    assert not any(thread.is_alive() for thread in started._threads)


def test_batches_refuse_damaged_data(data: Path) -> None:
    """The seam through which supernet, pretrain, search and evaluate get batches."""
    from training.loop.batches import held_out_batches, training_batches
    from training.run.devices import Distribution
    from training.run.options import Data

    class One:
        num_workers = 1
        worker = 0

    one: Distribution = One()  # type: ignore[assignment]
    settings = Data(directory=str(data), sequence_length=16)
    batches = training_batches(settings, batch_size=4, seed=0, distribution=one)
    next(iter(batches(0)))
    next(iter(held_out_batches(settings, batch_size=4, distribution=one)))
    manifest = DataManifest.load(data)
    _damage(data / manifest.split("train")[-1].file)
    next(iter(held_out_batches(settings, batch_size=4, distribution=one)))
    with pytest.raises(CommandError, match=manifest.split("train")[-1].file):
        batches(0)
    _damage(data / manifest.split("held_out")[0].file)
    with pytest.raises(CommandError, match=manifest.split("held_out")[0].file):
        held_out_batches(settings, batch_size=4, distribution=one)


def test_other_sizes_and_folders_are_usage_errors(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        ensure_verified(tmp_path / "none", "train")
    shard = data / DataManifest.load(data).split("train")[0].file
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(UsageError, match=f"{shard.name}: expected"):
        ensure_verified(data, "train")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "model"),
    [("supernet", "model.num_layers=2"), ("pretrain", "model.architecture=sf")],
)
def test_stages_name_the_damaged_shard(
    tmp_path: Path,
    tiny_data: Path,
    stage: str,
    model: str,
) -> None:
    from tests.training.conftest import TINY_MODEL

    data = Path(shutil.copytree(tiny_data, tmp_path / "data"))
    shard = data / DataManifest.load(data).split("train")[0].file
    _damage(shard)
    overrides = [part for one in [*TINY_MODEL, model] for part in ("--set", one)]
    arguments = ["--data", str(data), "--run-dir", str(tmp_path / "run"), *overrides]
    status, _, errors = run("training", stage, *arguments)
    assert status == 1
    assert f"{shard} (expected sha256" in errors
    assert "Traceback" not in errors
    metrics = tmp_path / "run" / "metrics.jsonl"
    assert not metrics.exists() or not metrics.read_text()
