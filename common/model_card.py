"""The model card of a model directory: what lies there, for people, in Markdown."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lvbert_tf.cost import Dimensions, model_flops, total_params

CARD_FILE = "model_card.md"
_WEIGHTS = ("model.weights.h5", "task.weights.h5")
_SHOWN = ("stage", "task", "objective", "seed", "trained_sequence_length")


def write_directory_card(directory: Path) -> None:
    """Writes ``model_card.md`` into a model directory.

    Everything in it is read from the files that lie there; what they do not say, the
    card says it does not know.

    Args:
        directory: what `save_to_preset` wrote, with ``training.json`` if something
            trained it.
    """
    backbone = _json(directory / "config.json")
    task = _json(directory / "task.json") or backbone
    provenance = _json(directory / "training.json")
    config = backbone.get("config", {})
    sections = {
        "": _what(task, config),
        "## Data and training": training_lines(provenance),
        "## Size and cost": _cost(directory, config, provenance),
        "## Limits": _limits(config, provenance),
    }
    lines = ["# Model card"]
    for title, content in sections.items():
        lines += ["", title] if title else []
        lines += ["", *content]
    text = "\n".join(lines) + "\n"
    (directory / CARD_FILE).write_text(text, encoding="utf-8")


def training_lines(provenance: Mapping[str, Any]) -> Iterator[str]:
    """Yields what ``training.json`` says about data and training."""
    if not provenance:
        yield "Unknown: the model directory has no `training.json`."
        return
    for name in _SHOWN:
        if name in provenance:
            yield f"* {name.replace('_', ' ').capitalize()}: {provenance[name]}"
    for part in ("data", "optimizer", "run"):
        options = provenance.get("settings", {}).get(part)
        if options:
            values = ", ".join(f"{key} {value}" for key, value in options.items())
            yield f"* {part.capitalize()}: {values}"
    if provenance.get("pretraining"):
        before = provenance["pretraining"]
        parts = [f"{key} {before[key]}" for key in _SHOWN if key in before]
        yield f"* Pretrained: {', '.join(parts) or 'yes'}"
    yield "* Metrics: see `result.json` of the run that trained it."


def _what(task: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"An `{task.get('class_name', 'unknown class')}`. Encoder: "
        f"`{config.get('architecture', 'unknown')}` (`c` dynamic convolution, `s` "
        f"self-attention, `f` feed-forward), width {config.get('hidden_dim')}, "
        f"{config.get('num_heads')} heads."
    )
    labels = task.get("config", {}).get("labels")
    if labels:
        names = ", ".join(
            f"`{json.dumps(label, ensure_ascii=False)}`" for label in labels
        )
        yield ""
        yield f"Classes: {names}"


def _cost(
    directory: Path, config: Mapping[str, Any], provenance: Mapping[str, Any]
) -> Iterator[str]:
    if {"architecture", "hidden_dim", "vocabulary_size"} <= config.keys():
        names = Dimensions.__dataclass_fields__
        dimensions = Dimensions(**{n: config[n] for n in names if n in config})
        length = provenance.get("trained_sequence_length") or 128
        flops = model_flops(config["architecture"], dimensions, length)
        params = total_params(config["architecture"], dimensions)
        yield f"* Parameters of the backbone: {params:,}"
        yield f"* Forward pass over {length} tokens: {flops / 1e9:.3g} GFLOP"
    size = sum(
        (directory / name).stat().st_size
        for name in _WEIGHTS
        if (directory / name).is_file()
    )
    yield f"* Files of weights: {size:,} bytes"
    yield "* Latency: depends on the machine; measure it on yours."


def _limits(config: Mapping[str, Any], provenance: Mapping[str, Any]) -> Iterator[str]:
    length = provenance.get("trained_sequence_length")
    positions = config.get("max_sequence_length")
    yield f"* At most {positions} tokens; trained with {length or 'an unknown number'}."
    if config.get("mask_convolution") is False:
        yield "* Convolutions see the padding, as in the official code."
    yield "* Nothing is known of texts unlike the training's."


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}
