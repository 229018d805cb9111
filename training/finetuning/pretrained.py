"""A pretrained model directory as the start of fine-tuning, with nothing lost."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.command_line import CommandError, UsageError
from common.hashes import file_sha256
from lvbert_tf import LVBertBackbone, LVBertTokenizer

_WEIGHTS = ("model.weights.h5", "task.weights.h5")


@dataclass(frozen=True)
class Pretrained:
    """What a model directory holds.

    Attributes:
        backbone: with the stored weights.
        tokenizer: of the model.
        provenance: content of ``training.json``, or {} for a model from elsewhere.
        loaded: variables of the encoder that hold stored values.
        ignored: stored variables that are not the encoder's (heads of other tasks).
    """

    backbone: "LVBertBackbone"
    tokenizer: "LVBertTokenizer"
    provenance: dict[str, Any]
    loaded: int
    ignored: int


def check(directory: Path) -> str:
    """Returns the sha256 of a model directory's weights.

    Raises:
        UsageError: if it is no model directory.
    """
    weights = directory / _WEIGHTS[0]
    if not (directory / "config.json").is_file() or not weights.is_file():
        raise UsageError(
            f"--model {directory}: expected a model directory with config.json and "
            f"{weights.name} (as `pretrain` writes to RUN_DIR/model), found none"
        )
    return file_sha256(weights)


def load(directory: Path) -> Pretrained:
    """Loads encoder and tokenizer, and makes sure that every weight arrived.

    Args:
        directory: the model directory.

    Raises:
        CommandError: if a variable of the encoder does not hold a stored value.
    """
    try:
        backbone = LVBertBackbone.from_preset(str(directory))
        tokenizer = LVBertTokenizer.from_preset(str(directory))
    except (ValueError, OSError, KeyError) as error:
        raise CommandError(
            f"--model {directory}: cannot load this model: {error}"
        ) from error
    stored = _stored_values(directory)
    missing = []
    for variable in backbone.weights:
        key = _fingerprint(variable.numpy())
        if stored[key] == 0:
            missing.append(variable.path)
        else:
            stored[key] -= 1
    if missing:
        raise CommandError(
            f"--model {directory}: {len(missing)} of {len(backbone.weights)} variables "
            f"of the encoder are not in the file: {', '.join(missing[:5])}"
        )
    provenance_file = directory / "training.json"
    provenance = {}
    if provenance_file.is_file():
        provenance = json.loads(provenance_file.read_text("utf-8"))
    return Pretrained(
        backbone=backbone,
        tokenizer=tokenizer,
        provenance=provenance,
        loaded=len(backbone.weights),
        ignored=stored.total(),
    )


def _stored_values(directory: Path) -> Counter[tuple[Any, ...]]:
    """Returns the fingerprints of every stored array."""
    import h5py

    fingerprints: Counter[tuple[Any, ...]] = Counter()

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and "seed" not in name:
            fingerprints[_fingerprint(item[()])] += 1

    for file in _WEIGHTS:
        if (directory / file).is_file():
            with h5py.File(directory / file) as stream:
                stream.visititems(visit)
    return fingerprints


def _fingerprint(value: Any) -> tuple[Any, ...]:
    array = np.ascontiguousarray(value)
    return array.shape, array.dtype.str, hashlib.sha256(array.tobytes()).digest()
