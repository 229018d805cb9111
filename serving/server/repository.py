"""Holds the loaded versions of all models and keeps them in step with the disk."""

import contextlib
import enum
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from common.command_line import CommandError
from serving.server.memory import release
from serving.server.model_config import ModelConfig
from serving.server.servable import Servable
from serving.server.status import Code, ServingError, invalid_argument
from serving.server.versions import Fingerprint, fingerprint, present_versions

_log = logging.getLogger(__name__)


class State(enum.IntEnum):
    """A version's life, with the numbers of ``ModelVersionStatus.State``."""

    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(eq=False)
class _Version:
    state: State
    error: ServingError | None = None
    servable: Servable | None = None
    leases: int = 0
    # Of the files that failed to load: another try is worth it when they change.
    failed_files: Fingerprint | None = None


@dataclass(frozen=True)
class VersionStatus:
    """What `ModelRepository.status` tells about one version."""

    version: int
    state: State
    error: ServingError | None


class Loader(Protocol):
    """Loads a version and warms it up, or raises `ServingError`."""

    def __call__(self, name: str, path: Path) -> Servable:
        """Loads version folder `path` of model `name`."""


class ModelRepository:
    """The models of a server.

    A new version is loaded before the old one goes, and requests that run on the old
    one finish on it. A version that fails to load is tried again once its files
    change; the old one stays meanwhile.

    Args:
        models: what to serve.
        loader: loads one version.
    """

    def __init__(self, models: Sequence[ModelConfig], loader: Loader) -> None:
        self._models = {model.name: model for model in models}
        self._loader = loader
        self._versions: dict[str, dict[int, _Version]] = {}
        # What each label means now: it moves when its new version is available.
        self._labels: dict[str, dict[str, int]] = {}
        self._lock = threading.Condition()  # guards the four above
        self._update_lock = threading.Lock()  # one update at a time
        self._stop = threading.Event()
        self._poller: threading.Thread | None = None

    def start(
        self,
        poll_interval_s: float,
        refresh: Callable[[], Sequence[ModelConfig] | None] = lambda: None,
    ) -> None:
        """Loads all models, then looks for changes at regular intervals.

        Args:
            poll_interval_s: seconds between two looks.
            refresh: called at each look; returns the new models where the
                configuration has changed, else None.

        Raises:
            ServingError: if any version cannot be loaded.
        """
        self.update(strict=True)

        def poll() -> None:
            said = ""
            while not self._stop.wait(poll_interval_s):
                try:
                    models = refresh()
                    if models is not None:
                        self.reconfigure(models)
                    else:
                        self.update()
                except (CommandError, ServingError) as error:
                    # It is tried again at each look, but said once.
                    if str(error) != said:
                        _log.error("the configuration is not used: %s", error)
                    said = str(error)
                except Exception:
                    _log.exception("looking for new versions failed; going on")
                else:
                    said = ""

        self._poller = threading.Thread(target=poll, name="versions", daemon=True)
        self._poller.start()

    def reconfigure(self, models: Sequence[ModelConfig]) -> None:
        """Replaces the configuration; models that it lacks are unloaded.

        Raises:
            ServingError: if any version cannot be loaded; the others are served.
        """
        with self._lock:
            self._models = {model.name: model for model in models}
        self.update(strict=True)

    def update(self, strict: bool = False) -> None:
        """Loads what is new on disk and unloads what is no longer wanted.

        Args:
            strict: raise the first failure to load, after trying all.
        """
        failures: list[ServingError] = []
        with self._update_lock:
            for model in list(self._models.values()):
                failures += self._update_model(model)
            for name in set(self._versions) - set(self._models):
                for number in list(self._versions[name]):
                    self._unload(name, number)
        if strict and failures:
            raise failures[0]

    @contextlib.contextmanager
    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> Iterator[tuple[Servable, int]]:
        """Gives a loaded version for the time of a request.

        Args:
            name: the model.
            version: its version, by default the highest that is loaded.
            label: a version's label, instead of its number.

        Yields:
            The servable and its version number.

        Raises:
            ServingError: NOT_FOUND for an unknown model or version,
                INVALID_ARGUMENT for an unknown label.
        """
        with self._lock:
            if label is not None:
                model = self._models.get(name)
                if model is None or label not in model.labels:
                    raise invalid_argument(
                        f"Unrecognized servable version label: {label}"
                    )
                version = self._labels.get(name, {}).get(label, model.labels[label])
            loaded = {
                number: entry
                for number, entry in self._versions.get(name, {}).items()
                if entry.state is State.AVAILABLE
            }
            number = version if version is not None else max(loaded, default=-1)
            entry = loaded.get(number)
            if entry is None or entry.servable is None:
                wanted = f"Latest({name})"
                if version is not None:
                    wanted = f"Specific({name}, {version})"
                raise ServingError(
                    Code.NOT_FOUND, f"Servable not found for request: {wanted}"
                )
            entry.leases += 1
        try:
            yield entry.servable, number
        finally:
            with self._lock:
                entry.leases -= 1
                self._end_if_idle(entry)

    def status(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """Returns what is known of a model's versions, the newest first.

        Raises:
            ServingError: NOT_FOUND for an unknown model or version.
        """
        with self._lock:
            versions = self._versions.get(name, {})
            statuses = [
                VersionStatus(number, entry.state, entry.error)
                for number, entry in sorted(versions.items(), reverse=True)
                if version in (None, number)
            ]
        if not statuses:
            what = "any versions" if version is None else f"version {version}"
            raise ServingError(Code.NOT_FOUND, f"Could not find {what} of model {name}")
        return statuses

    def has(self, name: str) -> bool:
        """Returns whether a model of this name is configured or loaded."""
        with self._lock:
            return name in self._models or name in self._versions

    def available(self) -> dict[str, list[int]]:
        """Returns the loaded versions of each model."""
        with self._lock:
            return {
                name: sorted(
                    number
                    for number, entry in versions.items()
                    if entry.state is State.AVAILABLE
                )
                for name, versions in self._versions.items()
            }

    def close(self, timeout_s: float = 30.0) -> None:
        """Unloads everything, waiting for running requests at most `timeout_s`."""
        self._stop.set()
        if self._poller is not None:
            self._poller.join()
        deadline = time.monotonic() + timeout_s
        with self._update_lock, self._lock:
            for name, versions in self._versions.items():
                for number in versions:
                    self._unload(name, number)
            while any(
                entry.state is State.UNLOADING
                for versions in self._versions.values()
                for entry in versions.values()
            ):
                if not self._lock.wait(deadline - time.monotonic()):
                    _log.warning("requests still run on a model that is unloaded")
                    return

    def _update_model(self, model: ModelConfig) -> list[ServingError]:
        try:
            present = present_versions(model.base_path)
        except OSError as error:
            # Rather an old model than none while a disk is away.
            _log.warning("model %s: cannot look for versions: %s", model.name, error)
            return []
        wanted = model.wanted(list(present))
        with self._lock:
            versions = self._versions.setdefault(model.name, {})
        failures = []
        for number in wanted:
            failure = self._load(model.name, number, present[number], versions)
            if failure is not None:
                failures.append(failure)
        available = [
            number
            for number, entry in versions.items()
            if entry.state is State.AVAILABLE
        ]
        kept = self._move_labels(model, set(available))
        if not wanted or set(wanted) & set(available):
            for number in available:
                if number not in wanted and number not in kept:
                    self._unload(model.name, number)
        return failures

    def _move_labels(self, model: ModelConfig, available: set[int]) -> set[int]:
        """Points labels at their versions where those are available.

        Returns:
            The versions that labels still mean because their new ones are not there.
        """
        kept: set[int] = set()
        with self._lock:
            current = self._labels.get(model.name, {})
            moved: dict[str, int] = {}
            for label, number in model.labels.items():
                before = current.get(label)
                if number in available or before is None or before not in available:
                    moved[label] = number
                else:
                    moved[label] = before
                    kept.add(before)
            self._labels[model.name] = moved
        for label, number in moved.items():
            if number != model.labels[label] and current.get(label) == number:
                _log.debug(
                    "model %s: label %s stays at version %d: version %d is not there",
                    model.name,
                    label,
                    number,
                    model.labels[label],
                )
        return kept

    def _load(
        self, name: str, number: int, path: Path, versions: dict[int, _Version]
    ) -> ServingError | None:
        entry = versions.get(number)
        if entry is not None:
            if entry.state is not State.END:
                return None
            if entry.failed_files is not None and entry.failed_files == fingerprint(
                path
            ):
                return entry.error
        files = fingerprint(path)
        entry = _Version(State.LOADING)
        with self._lock:
            versions[number] = entry
        started = time.monotonic()
        try:
            servable = self._loader(name, path)
        except Exception as caught:
            error = caught if isinstance(caught, ServingError) else None
            if error is None:
                # Whatever a loader raises, the version must not stay LOADING.
                error = ServingError(Code.INTERNAL, f"{path}: {caught!r}")
            with self._lock:
                entry.state, entry.error = State.END, error
                # A server too busy for a warm-up request says nothing of the files.
                busy = error.code is Code.UNAVAILABLE
                entry.failed_files = None if busy else files
            _log.error("model %s: version %d: %s", name, number, error)
            return error
        with self._lock:
            entry.state, entry.servable = State.AVAILABLE, servable
        seconds = time.monotonic() - started
        _log.info("model %s: version %d loaded in %.1f s", name, number, seconds)
        return None

    def _unload(self, name: str, number: int) -> None:
        with self._lock:
            entry = self._versions[name][number]
            if entry.state is not State.AVAILABLE:
                return
            entry.state = State.UNLOADING
            self._end_if_idle(entry)
        _log.info("model %s: version %d unloaded", name, number)

    def _end_if_idle(self, entry: _Version) -> None:
        if entry.state is State.UNLOADING and entry.leases == 0 and entry.servable:
            entry.servable.close()
            entry.servable = None
            entry.state = State.END
            release()
            self._lock.notify_all()
