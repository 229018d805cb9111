"""Loading a model from its directory, and nothing that only resembles one."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.command_line import UsageError

_TASK_WEIGHTS = "task.weights.h5"
_BACKBONE = "LVBertBackbone"


@dataclass
class _Packing:
    """What stands in for a backbone's preprocessor."""

    tokenizer: Any
    sequence_length: int
    packer: Any

    def __call__(self, texts: Any, targets: Any = None) -> Any:
        return self.packer(texts, targets)


class TextEncoder:
    """A backbone with the tokenizer that lies beside it.

    Args:
        backbone: the model.
        tokenizer: turns text into its ids.
        sequence_length: tokens that texts are cut to.
    """

    kind = "backbone"

    def __init__(self, backbone: Any, tokenizer: Any, sequence_length: int) -> None:
        import lvbert_tf

        self.backbone = backbone
        self.preprocessor = _Packing(
            tokenizer,
            sequence_length,
            lvbert_tf.LVBertTextClassifierPreprocessor(
                tokenizer, sequence_length=sequence_length
            ),
        )

    @property
    def weights(self) -> list[Any]:
        """The backbone's weights."""
        weights: list[Any] = self.backbone.weights
        return weights

    def count_params(self) -> int:
        """Returns the number of parameters."""
        return int(self.backbone.count_params())


def load_model(directory: str | Path, dtype: str = "float32") -> Any:
    """Returns the model that lies in a model directory.

    Args:
        directory: what `save_to_preset` wrote.
        dtype: the dtype policy to compute in, whatever it was trained with.

    Raises:
        UsageError: if the directory is missing or holds something else. KerasHub would
            give a backbone's directory a new head with random weights instead.
    """
    from export.heads import HEADS

    path = Path(directory)
    if not path.is_dir():
        raise UsageError(f"--model: no such directory: {path}")
    found = _class_in(path / "task.json") or _class_in(path / "config.json")
    classes = [head.model_class for head in HEADS.values()]
    if found not in classes:
        raise UsageError(
            f"--model: expected a directory with one of {', '.join(classes)} (written "
            f"by save_to_preset). Found in {path}: {found or 'no model'}"
        )
    if found != _BACKBONE and not (path / _TASK_WEIGHTS).is_file():
        raise UsageError(
            f"--model: {path}: {_TASK_WEIGHTS} is missing, so that the model's head "
            "would be random"
        )
    if found == _BACKBONE and not (path / "tokenizer.json").is_file():
        raise UsageError(
            f"--model: {path}: the backbone has no tokenizer beside it, so that text "
            "cannot be exported. Expected the vocabulary (`lvbert convert "
            "--vocabulary`)"
        )
    import lvbert_tf

    try:
        model = getattr(lvbert_tf, found).from_preset(str(path), dtype=dtype)
        if found != _BACKBONE:
            return model
        tokenizer = lvbert_tf.LVBertTokenizer.from_preset(str(path))
        length = read_provenance(path).get("trained_sequence_length")
        return TextEncoder(model, tokenizer, length or model.max_sequence_length)
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise UsageError(f"--model: {path} cannot be loaded: {error}") from error


def trained_on_pairs(directory: str | Path) -> bool:
    """Whether ``training.json`` in a model directory says ``"pairs": true``."""
    return read_provenance(directory).get("pairs") is True


def read_provenance(directory: str | Path) -> dict[str, Any]:
    """Returns what ``training.json`` in a model directory says, {} without one."""
    return _read(Path(directory) / "training.json")


def _class_in(path: Path) -> str | None:
    name = _read(path).get("class_name")
    return name if isinstance(name, str) else None


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path}: expected JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: expected a JSON object")
    return content
