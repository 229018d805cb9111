"""Which models to serve: name, base path, version policy, labels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from serving.server.text_proto import read_text_proto

# What the REST paths can name.
_NAME = re.compile(r"[^/:]+")


@dataclass(frozen=True)
class Latest:
    """Serve the `num_versions` highest version numbers."""

    num_versions: int = 1


@dataclass(frozen=True)
class All:
    """Serve every version there is."""


@dataclass(frozen=True)
class Specific:
    """Serve exactly these versions."""

    versions: tuple[int, ...]


VersionPolicy = Latest | All | Specific


@dataclass(frozen=True)
class ModelConfig:
    """One model to serve.

    Attributes:
        name: what requests call it.
        base_path: absolute path of the folder that holds the numbered versions.
        policy: which versions to serve.
        labels: from label to version number.
    """

    name: str
    base_path: Path
    policy: VersionPolicy = Latest()
    labels: Mapping[str, int] = field(default_factory=dict)

    def wanted(self, present: Sequence[int]) -> list[int]:
        """Returns the versions to serve of those `present`, in ascending order."""
        match self.policy:
            case Latest(num_versions):
                return sorted(present)[-num_versions:]
            case Specific(versions):
                return sorted(set(present) & set(versions))
            case All():
                return sorted(present)


def parse_model_argument(argument: str) -> ModelConfig:
    """Parses ``NAME=BASE``, the form of ``serve --model``."""
    name, separator, base = argument.partition("=")
    if not separator or not base or not _NAME.fullmatch(name):
        raise UsageError(
            "--model: expected NAME=BASE, a name without '/' or ':' and the folder "
            f"that holds the numbered versions. Received: {argument}"
        )
    return ModelConfig(name, Path(base).absolute())


def read_models_config(path: Path) -> list[ModelConfig]:
    """Reads a ``models.config`` file, the text form of ``ModelServerConfig``.

    Raises:
        UsageError: naming the file and what is wrong in it.
    """
    # The stubs need TensorFlow, so nobody pays for them who does not get here.
    from tensorflow_serving.config import model_server_config_pb2

    message = model_server_config_pb2.ModelServerConfig()
    read_text_proto(path, message)
    try:
        return models_from_proto(message)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def models_from_proto(message: Any) -> list[ModelConfig]:
    """Validates a ``ModelServerConfig`` message.

    Raises:
        UsageError: naming the model and the field.
    """
    if message.WhichOneof("config") != "model_config_list":
        raise UsageError(
            "expected a ModelConfigList (model_config_list). Received: "
            f"{message.WhichOneof('config') or 'nothing'}"
        )
    models: list[ModelConfig] = []
    for position, entry in enumerate(message.model_config_list.config):
        where = f"config {position} ({entry.name or 'without a name'})"
        if not _NAME.fullmatch(entry.name):
            raise UsageError(
                f"{where}: name: expected a name without '/' or ':'. "
                f"Received: {entry.name!r}"
            )
        if entry.name in {model.name for model in models}:
            raise UsageError(f"{where}: name: a second model of this name")
        base_path = Path(entry.base_path)
        if not base_path.is_absolute():
            raise UsageError(
                f"{where}: base_path: expected an absolute path. "
                f"Received: {entry.base_path!r}"
            )
        if entry.model_platform not in ("", "tensorflow"):
            raise UsageError(
                f"{where}: model_platform: expected 'tensorflow'. "
                f"Received: {entry.model_platform!r}"
            )
        models.append(
            ModelConfig(
                entry.name,
                base_path,
                _policy(entry.model_version_policy, where),
                dict(entry.version_labels),
            )
        )
    if not models:
        raise UsageError("model_config_list: expected at least one config")
    return models


def _policy(message: Any, where: str) -> VersionPolicy:
    choice = message.WhichOneof("policy_choice")
    if choice == "all":
        return All()
    if choice == "specific":
        versions = tuple(message.specific.versions)
        if not versions:
            raise UsageError(
                f"{where}: model_version_policy.specific: expected at least one version"
            )
        return Specific(versions)
    # Upstream, too, takes 0 for the default.
    return Latest(message.latest.num_versions or 1) if choice == "latest" else Latest()
