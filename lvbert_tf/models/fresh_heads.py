"""Loading a task from a preset that was saved for another one, or for none."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lvbert_tf.models.preset_files import (
    CONFIG_FILE,
    check_is_preset,
    preset_file,
    preset_json,
    registered_name,
)

TASK_FILE = "task.json"
TASK_WEIGHTS_FILE = "task.weights.h5"
STORED_HEAD = "stored_head"


def check_is_no_supernet(preset: Any) -> None:
    """Refuses what is no preset, or that of a supernet, which is no backbone.

    Raises:
        ValueError: saying how a path of it becomes a model.
    """
    check_is_preset(preset)
    name = registered_name(preset, CONFIG_FILE)
    if name == "LVBertSupernet":
        raise ValueError(
            f"{preset} holds a supernet, of which only a path is a model. Take one "
            "out first: python -m training extract --supernet RUN_DIR --architecture "
            f"SPEC --output DIR. Received: preset={str(preset)!r}"
        )
    if name == "LVBertElectra":
        raise ValueError(
            f"{preset} holds a pair of networks, not one. Load it with "
            "`LVBertElectra.from_preset`; its `discriminator` is a backbone. "
            f"Received: preset={str(preset)!r}"
        )


def holds_head_of(preset: Any, task_class: type) -> bool:
    """Whether a preset holds a trained head for this class of tasks."""
    return (
        registered_name(preset, TASK_FILE) == task_class.__name__
        and preset_file(preset, TASK_WEIGHTS_FILE) is not None
    )


def warn_of_fresh_weights(task: Any, preset: Any) -> None:
    """Warns, by name, about the weights of `task` that no training has seen."""
    known = {id(variable) for variable in task.backbone.weights}
    fresh = [v.path for v in task.weights if id(v) not in known]
    if fresh:
        warnings.warn(
            f"{type(task).__name__}: {preset} holds no head for this task; these "
            f"weights are freshly drawn and need training: {', '.join(fresh)}",
            UserWarning,
            stacklevel=3,
        )


def store_head(preset: Any, names: Sequence[str]) -> None:
    """Sets a head's arguments apart in the ``task.json`` of a preset just written.

    KerasHub's own `from_preset(preset, num_classes=2)` writes its arguments over the
    stored ones and loads no head. Only where `num_classes` stands apart can it be told
    that it was given, and that the labels are those of another head.
    """
    file = Path(preset) / TASK_FILE
    content = json.loads(file.read_text(encoding="utf-8"))
    config = content["config"]
    config[STORED_HEAD] = {name: config.pop(name) for name in names}
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(json.dumps(content, indent=4), encoding="utf-8")
    partial.replace(file)


def stored_head(
    config: dict[str, Any], names: Sequence[str]
) -> tuple[dict[str, Any], bool]:
    """Returns a task's constructor arguments, and whether its head is a new one."""
    config = dict(config)
    head = config.pop(STORED_HEAD, None)
    if head is None:
        return config, False
    if "num_classes" in config:
        return config, True
    given = {name: config[name] for name in names if name in config}
    return {**config, **head, **given}, False


def holds_stored_head(preset: Any) -> bool:
    """Whether `store_head` was there."""
    content = preset_json(preset, TASK_FILE)
    return content is not None and STORED_HEAD in content["config"]


def length_that_fits(loader: Any, kwargs: dict[str, Any], default: int) -> None:
    """Gives a new preprocessor inputs no longer than the preset's position table.

    Args:
        loader: KerasHub's loader of the preset.
        kwargs: of the preprocessor; a missing `sequence_length` is set.
        default: the preprocessor's own default.
    """
    longest = loader.config.get("config", {}).get("max_sequence_length", default)
    kwargs.setdefault("sequence_length", min(default, longest))
