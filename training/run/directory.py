"""A run's directory: its configuration, metrics, checkpoints and result.

Everything that has a final name there is whole: files are written under a temporary
name and renamed. A run that was interrupted finds its state again; a directory that
belongs to another configuration is refused, with the difference. Nothing here imports
TensorFlow.
"""

import fcntl
import importlib.metadata
import json
import platform
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any, Self

from common.command_line import CommandError, UsageError, json_safe
from common.files import write_text
from common.json_lines import append_line, read_lines
from lvbert_tf.version import __version__
from training.run.settings import STAGE_KEY, read_tables

_PACKAGES = ("tensorflow", "tensorflow-text", "keras", "keras-hub", "numpy")
_Keys = Collection[tuple[str, str]]
FORMAT = 2
"""Of what the figures in a run directory mean. In 1, losses and accuracies were those
of all predicted positions, kept ones included."""

# Where something lies is not what it is: its content is compared. And what one call
# asks for says nothing of the run.
_NOT_COMPARED = frozenset(
    {
        ("data", "directory"),
        ("data", "train"),
        ("data", "dev"),
        ("model", "directory"),
        ("scoring", "supernet"),
        ("scoring", "second_supernet"),
        ("supernet", "run_dir"),
        ("supernet", "config"),
        ("space", "latency_table"),
        ("run", "reset_optimizer"),
    }
)


class RunDirectory:
    """One run's directory.

    Attributes:
        path: the directory.
        config_file: the resolved configuration, TOML.
        metrics_file: one JSON object per logged step. It holds nothing that depends on
            the clock, so that a resumed run writes the same bytes.
        timing_file: rates by step, apart from the metrics for that reason.
        checkpoints: for `tf.train.CheckpointManager`.
        shared_checkpoints: where to resume from: the chief's `checkpoints`.
        tensorboard: event files.
        figures: pictures.
        model: the model as a preset directory.
        result_file: what the command printed last; it exists once the run is finished.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.toml"
        self.versions_file = path / "versions.json"
        self.metrics_file = path / "metrics.jsonl"
        self.timing_file = path / "timing.jsonl"
        self.checkpoints = path / "checkpoints"
        self.shared_checkpoints = self.checkpoints
        self.tensorboard = path / "tensorboard"
        self.figures = path / "figures"
        self.model = path / "model"
        self.result_file = path / "result.json"
        self._lock: IO[str] | None = None
        self._begun_here = False

    @classmethod
    def open(
        cls,
        path: Path,
        config_toml: str,
        identity: Mapping[str, Any],
        worker: int = 0,
        extendable: _Keys = (),
    ) -> "RunDirectory":
        """Opens a run's directory to work in it, making it if it isn't there.

        Args:
            path: the directory.
            config_toml: the resolved configuration, with its ``stage`` key.
            identity: what else must be the same to go on: hashes of the data.
            extendable: settings that may differ from those of the run that is there.
            worker: index of this process; those after the first one write into
                directories of their own below, and resume from the first one's state.

        Returns:
            The directory, locked until this process ends, leaves the directory's `with`
            block or calls `close`.

        Raises:
            UsageError: if something else is there, the configuration or the data
                differ, or another process works in it.
        """
        chief = cls(path)
        if worker > 0:
            path = path / "workers" / str(worker)
        run = cls(path)
        run.shared_checkpoints = chief.checkpoints
        if path.exists() and not path.is_dir():
            raise UsageError(f"--run-dir {path}: expected a directory, found a file")
        if path.is_dir() and not run.config_file.exists():
            strange = sorted(
                p.name for p in path.iterdir() if not _is_left_over(p.name)
            )
            if strange:
                raise UsageError(
                    f"--run-dir {path}: expected a new or empty directory or one that "
                    f"a run wrote, found {', '.join(strange[:5])} and no config.toml"
                )
        path.mkdir(parents=True, exist_ok=True)
        run._acquire()
        try:
            run._begin(config_toml, identity, extendable)
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def existing(cls, path: Path, option: str, stage: str) -> "RunDirectory":
        """Opens the directory of an earlier run, to read it.

        Args:
            path: the directory.
            option: the command-line option that named it, for messages.
            stage: the command that must have written it.

        Raises:
            UsageError: if it is no such directory, or one of another version whose
                figures mean something else.
        """
        run = cls(path)
        if not run.config_file.is_file():
            raise UsageError(
                f"{option} {path}: expected the run directory of `{stage}`, "
                f"found no {run.config_file.name} there"
            )
        present = read_tables(run.config_file).get(STAGE_KEY)
        if present != stage:
            raise UsageError(
                f"{option} {path}: expected the run directory of `{stage}`, "
                f"found one of `{present}`"
            )
        run._check_format(option, run.versions())
        return run

    def versions(self) -> dict[str, Any]:
        """Returns the versions that began the run, and `data`, the data's identity."""
        try:
            content: dict[str, Any] = json.loads(self.versions_file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise CommandError(
                f"{self.versions_file}: expected the versions of the run that wrote "
                f"{self.path}, found nothing readable"
            ) from error
        return content

    def result(self) -> dict[str, Any] | None:
        """Returns the result of a finished run, or None."""
        if not self.result_file.exists():
            return None
        content: dict[str, Any] = json.loads(self.result_file.read_text("utf-8"))
        return content

    def write_result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Stores the result, which marks the run as finished, and returns it."""
        content: dict[str, Any] = json_safe(dict(result))
        write_text(self.result_file, json.dumps(content, indent=2) + "\n")
        return content

    def append_metrics(self, step: int, split: str, metrics: Mapping[str, Any]) -> None:
        """Adds a line to the metrics."""
        append_line(self.metrics_file, {"step": step, "split": split, **metrics})

    def append_timing(self, step: int, timing: Mapping[str, Any]) -> None:
        """Adds a line to the rates."""
        append_line(self.timing_file, {"step": step, **timing})

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the lines of the metrics that are whole."""
        return read_lines(self.metrics_file)

    def timing(self) -> list[dict[str, Any]]:
        """Returns the lines of the rates that are whole."""
        return read_lines(self.timing_file)

    def last_metrics(self, split: str) -> dict[str, Any]:
        """Returns the last line of a split without `step` and `split`, or {}."""
        for record in reversed(self.metrics()):
            if record["split"] == split:
                return {k: v for k, v in record.items() if k not in ("step", "split")}
        return {}

    def truncate(self, step: int) -> None:
        """Drops what was logged after `step`, the step of the checkpoint.

        The run takes those steps again and logs them again.
        """
        for file in (self.metrics_file, self.timing_file):
            if file.exists():
                kept = [line for line in read_lines(file) if line["step"] <= step]
                text = "".join(json.dumps(record) + "\n" for record in kept)
                write_text(file, text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets another process work in the directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def forget(self) -> None:
        """Undoes the beginning of a run, if the call that opened it began it.

        For what turns out to be wrong usage before anything is trained: the directory
        would be refused once the settings are put right.
        """
        if self._begun_here:
            self.config_file.unlink(missing_ok=True)
            self.versions_file.unlink(missing_ok=True)
            self._begun_here = False

    def _acquire(self) -> None:
        """Takes the lock; the system releases it however this process ends."""
        stream = (self.path / ".lock").open("a")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            stream.close()
            raise UsageError(
                f"--run-dir {self.path}: another process is working in it"
            ) from error
        self._lock = stream

    def _begin(
        self, config_toml: str, identity: Mapping[str, Any], extendable: _Keys
    ) -> None:
        if self.config_file.exists():
            self._check_same(config_toml, identity, extendable)
            write_text(self.config_file, config_toml)
            return
        self._begun_here = True
        versions = {**_versions(), "format": FORMAT, "data": dict(identity)}
        write_text(self.versions_file, json.dumps(versions, indent=2) + "\n")
        write_text(self.config_file, config_toml)

    def _check_same(
        self, config_toml: str, identity: Mapping[str, Any], extendable: _Keys
    ) -> None:
        there = _flat(read_tables(self.config_file))
        asked = _flat(read_tables(self.config_file, config_toml))
        versions = self.versions()
        self._check_format("--run-dir", versions)
        there |= _flat({"data (content)": versions.pop("data")})
        asked |= _flat({"data (content)": dict(identity)})
        different = [
            f"  {'.'.join(key)}: {_shown(there, key)} there, {_shown(asked, key)} asked"
            for key in sorted(there.keys() | asked.keys())
            if key not in _NOT_COMPARED.union(extendable)
            and there.get(key) != asked.get(key)
        ]
        if different:
            raise UsageError(
                f"--run-dir {self.path}: holds a run of another configuration "
                "(take another directory, or the same configuration to resume):\n"
                + "\n".join(different)
            )
        now = _versions()
        changed = [
            f"{name} {versions.get(name)} -> {now[name]}"
            for name in now
            if versions.get(name) != now[name]
        ]
        if changed:
            print(
                f"warning: {self.path} was begun with other versions "
                f"({', '.join(changed)}): going on may not be bit-identical",
                file=sys.stderr,
            )

    def _check_format(self, option: str, versions: Mapping[str, Any]) -> None:
        """Refuses a run whose figures mean something else than those of this version.

        Raises:
            UsageError: naming the version that wrote it.
        """
        present = versions.get("format", 1)
        if present != FORMAT:
            raise UsageError(
                f"{option} {self.path}: expected a run of format {FORMAT}, found "
                f"format {present}, begun by lvbert_tf "
                f"{versions.get('lvbert_tf', 'of an unknown version')}. Its losses and "
                "accuracies are those of other positions and must not mix with new "
                "ones: run it again in another directory"
            )


def _versions() -> dict[str, str]:
    present = {"python": platform.python_version(), "lvbert_tf": __version__}
    for package in _PACKAGES:
        present[package] = importlib.metadata.version(package)
    return present


def _is_left_over(name: str) -> bool:
    """Whether a file may lie in a directory whose run was killed while it began."""
    return name in {".lock", "versions.json", "workers"} or name.endswith(".partial")


def _flat(tables: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    flat: dict[tuple[str, ...], Any] = {}
    for name, value in tables.items():
        if isinstance(value, Mapping):
            flat |= {(name, *key): item for key, item in _flat(value).items()}
        else:
            flat[(name,)] = value
    return flat


def _shown(values: Mapping[tuple[str, ...], Any], key: tuple[str, ...]) -> str:
    return repr(values[key]) if key in values else "not set"
