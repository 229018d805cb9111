"""BERT and ELECTRA as published: KerasHub presets and transformers checkpoints.

Both are strings of ours, `(sf)xN`, ELECTRA with a projection where its embeddings are
narrower than its layers.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras_hub
import numpy as np

from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.tokenizer import LVBertTokenizer
from lvbert_tf.tensor_files import read_tensors

_FILES = {"model.safetensors": "safetensors", "pytorch_model.bin": "pytorch"}
_MODEL_TYPES = ("bert", "electra")
_EPSILON = 1e-12
_GELUS = {
    "gelu": False,
    "gelu_new": True,
    "gelu_fast": True,
    "gelu_pytorch_tanh": True,
}
"""Names of transformers for GELU, and whether they mean its approximation by tanh."""
_NEEDED = {
    "layer_norm_eps": _EPSILON,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
"""What a transformers configuration must say, if it says it, and our layers compute."""


@dataclass
class PublishedReport:
    """What became of a checkpoint's tensors.

    Attributes:
        converted: names whose values were taken over.
        unused: names of heads, poolers and buffers, which a backbone has no place for.
        missing: always empty: a missing tensor is an error.
        mismatched: always empty, likewise.
    """

    converted: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    mismatched: list[Any] = field(default_factory=list)


def load_published_encoder(
    directory: str | Path, **overrides: Any
) -> tuple[LVBertBackbone, LVBertTokenizer | None]:
    """Returns a published encoder's backbone, and its tokenizer if it is there.

    Args:
        directory: a KerasHub preset directory of BERT or ELECTRA, or a transformers
            checkpoint directory (`config.json` and `model.safetensors` or
            `pytorch_model.bin`, with `vocab.txt`).
        **overrides: constructor arguments of the backbone, such as `dtype`.

    Returns:
        The backbone, with `.conversion_report`, and an `LVBertTokenizer` or None.

    Raises:
        ValueError: naming what our layers cannot express, or the tensors that are
            missing or of another shape.

    KerasHub computes the tanh approximation of GELU, transformers the one that its
    configuration names: the backbone has the same (`approximate_gelu`).
    """
    folder = Path(directory)
    config = _read_json(folder / "config.json")
    if "registered_name" in config:
        return _from_keras_hub(folder, config, overrides)
    if "model_type" in config:
        return _from_transformers(folder, config, overrides)
    raise ValueError(
        f"{folder / 'config.json'}: expected a KerasHub preset or a transformers "
        "checkpoint, found neither `registered_name` nor `model_type`"
    )


def _from_transformers(
    folder: Path, config: dict[str, Any], overrides: dict[str, Any]
) -> tuple[LVBertBackbone, LVBertTokenizer | None]:
    kind = config["model_type"]
    if kind not in _MODEL_TYPES:
        raise ValueError(
            f"{folder / 'config.json'}: expected model_type bert or electra, found "
            f"{kind!r}"
        )
    wrong = [
        f"{name}={config[name]!r} (expected {value!r})"
        for name, value in _NEEDED.items()
        if config.get(name, value) != value
    ]
    activation = config.get("hidden_act", "gelu")
    if activation not in _GELUS:
        wrong.insert(0, f"hidden_act={activation!r} (expected one of {[*_GELUS]})")
    if wrong:
        raise ValueError(
            f"{folder / 'config.json'}: our layers do not compute {', '.join(wrong)}"
        )
    backbone = LVBertBackbone(
        config["vocab_size"],
        f"(sf)x{config['num_hidden_layers']}",
        config.get("embedding_size", config["hidden_size"]),
        config["hidden_size"],
        config["intermediate_size"],
        config["num_attention_heads"],
        **{
            "dropout": config.get("hidden_dropout_prob", 0.1),
            "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
            "max_sequence_length": config["max_position_embeddings"],
            "num_segments": config["type_vocab_size"],
            "approximate_gelu": _GELUS[activation],
            **overrides,
        },
    )
    tensors = read_tensors(folder, _FILES)
    prefix = f"{kind}." if any(n.startswith(f"{kind}.") for n in tensors) else ""
    values = {}
    origin = {}
    for name, value in tensors.items():
        # Old checkpoints name a LayerNorm's arrays as TensorFlow does.
        plain = name.removeprefix(prefix).replace(".gamma", ".weight")
        plain = plain.replace(".beta", ".bias")
        if plain.endswith("weight") and value.ndim == 2 and "embeddings." not in plain:
            value = value.T
        values[plain], origin[plain] = value, name
    _assign(backbone, values, origin, folder)
    vocabulary = folder / "vocab.txt"
    if not vocabulary.is_file():
        return backbone, None
    settings = folder / "tokenizer_config.json"
    options = _read_json(settings) if settings.is_file() else {}
    tokenizer = LVBertTokenizer(
        vocabulary,
        lowercase=options.get("do_lower_case", True),
        strip_accents=options.get("strip_accents"),
    )
    _check_size(tokenizer, backbone, vocabulary)
    return backbone, tokenizer


def _from_keras_hub(
    folder: Path, config: dict[str, Any], overrides: dict[str, Any]
) -> tuple[LVBertBackbone, LVBertTokenizer | None]:
    known = (keras_hub.models.BertBackbone, keras_hub.models.ElectraBackbone)
    name = config["registered_name"].rpartition(">")[2]
    if name not in [cls.__name__ for cls in known]:
        raise ValueError(
            f"{folder / 'config.json'}: expected a preset of BertBackbone or "
            f"ElectraBackbone, found {name}"
        )
    source: Any = keras_hub.models.Backbone.from_preset(str(folder), dtype="float32")
    size = getattr(source, "vocabulary_size", None) or source.vocab_size
    backbone = LVBertBackbone(
        size,
        f"(sf)x{source.num_layers}",
        getattr(source, "embedding_dim", source.hidden_dim),
        source.hidden_dim,
        source.intermediate_dim,
        source.num_heads,
        **{
            "dropout": source.dropout,
            "attention_dropout": source.dropout,
            "max_sequence_length": source.max_sequence_length,
            "num_segments": source.num_segments,
            "approximate_gelu": True,
            **overrides,
        },
    )
    values = _keras_hub_values(source)
    _assign(backbone, values, {name: name for name in values}, folder)
    stored = folder / "assets" / "tokenizer" / "vocabulary.txt"
    if not stored.is_file():
        return backbone, None
    options = _read_json(folder / "tokenizer.json")["config"]
    tokenizer = LVBertTokenizer(
        stored,
        lowercase=bool(options.get("lowercase", False)),
        strip_accents=options.get("strip_accents") or None,
    )
    _check_size(tokenizer, backbone, stored)
    return backbone, tokenizer


def _keras_hub_values(source: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays of a KerasHub backbone by the names of transformers."""
    values: dict[str, Any] = {
        "embeddings.word_embeddings.weight": source.token_embedding.embeddings,
        "embeddings.position_embeddings.weight": (
            source.position_embedding.position_embeddings
        ),
        "embeddings.token_type_embeddings.weight": source.segment_embedding.embeddings,
        **_norm("embeddings.LayerNorm", source.embeddings_layer_norm),
        **_dense("pooler.dense", source.pooled_dense),
    }
    projection = getattr(source, "embeddings_projection", None)
    if projection is not None:
        values.update(_dense("embeddings_project", projection))
    width = source.hidden_dim
    for i, layer in enumerate(source.transformer_layers):
        at, attention = f"encoder.layer.{i}", layer._self_attention_layer
        for name in ("query", "key", "value"):
            dense = getattr(attention, f"{name}_dense")
            scope = f"{at}.attention.self.{name}"
            values[f"{scope}.weight"] = np.reshape(dense.kernel, (width, width))
            values[f"{scope}.bias"] = np.reshape(dense.bias, (width,))
        output = attention.output_dense
        scope = f"{at}.attention.output"
        values[f"{scope}.dense.weight"] = np.reshape(output.kernel, (width, width))
        values[f"{scope}.dense.bias"] = output.bias
        values.update(_norm(f"{scope}.LayerNorm", layer._self_attention_layer_norm))
        inner, outer = (
            layer._feedforward_intermediate_dense,
            layer._feedforward_output_dense,
        )
        values.update(_dense(f"{at}.intermediate.dense", inner))
        values.update(_dense(f"{at}.output.dense", outer))
        values.update(_norm(f"{at}.output.LayerNorm", layer._feedforward_layer_norm))
    return {name: np.asarray(value) for name, value in values.items()}


def _places(backbone: LVBertBackbone) -> dict[str, Any]:
    """Returns our variables by the names of transformers."""
    embeddings, encoder = backbone.embeddings, backbone.encoder
    places: dict[str, Any] = {
        "embeddings.word_embeddings.weight": embeddings.token_embedding.embeddings,
        "embeddings.position_embeddings.weight": (
            embeddings.position_embedding.embeddings
        ),
        "embeddings.token_type_embeddings.weight": (
            embeddings.segment_embedding.embeddings
        ),
        **_norm("embeddings.LayerNorm", embeddings.layer_norm),
    }
    if encoder.projection is not None:
        places.update(_dense("embeddings_project", encoder.projection))
    for i in range(0, len(encoder.layer_list), 2):
        at = f"encoder.layer.{i // 2}"
        attention, feed_forward = encoder.layer_list[i : i + 2]
        for name in ("query", "key", "value"):
            dense = getattr(attention.layer, name)
            places.update(_dense(f"{at}.attention.self.{name}", dense))
        scope = f"{at}.attention.output"
        places.update(_dense(f"{scope}.dense", attention.layer.output_dense))
        places.update(_norm(f"{scope}.LayerNorm", attention.layer_norm))
        inner, outer = feed_forward.layer.intermediate, feed_forward.layer.output_dense
        places.update(_dense(f"{at}.intermediate.dense", inner))
        places.update(_dense(f"{at}.output.dense", outer))
        places.update(_norm(f"{at}.output.LayerNorm", feed_forward.layer_norm))
    return places


def _dense(scope: str, dense: Any) -> dict[str, Any]:
    return {f"{scope}.weight": dense.kernel, f"{scope}.bias": dense.bias}


def _norm(scope: str, norm: Any) -> dict[str, Any]:
    return {f"{scope}.weight": norm.gamma, f"{scope}.bias": norm.beta}


def _assign(
    backbone: LVBertBackbone,
    values: dict[str, Any],
    origin: dict[str, str],
    folder: Path,
) -> None:
    places = _places(backbone)
    problems = []
    for name, variable in places.items():
        if name not in values:
            problems.append(f"missing: {name}")
        elif tuple(values[name].shape) != tuple(variable.shape):
            problems.append(
                f"another shape: {origin[name]}, expected {tuple(variable.shape)}, "
                f"found {tuple(values[name].shape)}"
            )
    if problems:
        lines = "\n".join(f"  {line}" for line in problems)
        raise ValueError(f"{folder} does not fit its config.json:\n{lines}")
    for name, variable in places.items():
        variable.assign(np.asarray(values[name], "float32"))
    backbone.conversion_report = PublishedReport(
        converted=[origin[name] for name in places],
        unused=sorted(origin[name] for name in values if name not in places),
    )


def _check_size(
    tokenizer: LVBertTokenizer, backbone: LVBertBackbone, file: Path
) -> None:
    if tokenizer.vocabulary_size() != backbone.vocabulary_size:
        raise ValueError(
            f"{file}: expected {backbone.vocabulary_size} entries, one for each row of "
            f"the word table, found {tokenizer.vocabulary_size()}"
        )


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ValueError(f"{file}: expected a configuration, found no such file")
    try:
        content = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: expected JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file}: expected a JSON object")
    return content
