"""Writes BERT and ELECTRA with random weights in the published formats."""

import collections
import io
import json
import pickle
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

from lvbert_tf.published import _keras_hub_values

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("the", "house", "was", "old", "and", "rain", "."),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
]


def keras_hub_backbone(kind: str, **others: int) -> Any:
    """Random weights, larger than fresh ones, so that every layer matters."""
    keras.utils.set_random_seed(3)
    sizes: dict[str, Any] = {
        "num_layers": 2,
        "num_heads": 4,
        "hidden_dim": 32,
        "intermediate_dim": 64,
        "max_sequence_length": 24,
        **others,
    }
    if kind == "bert":
        model = keras_hub.models.BertBackbone(len(VOCABULARY), **sizes)
    else:
        model = keras_hub.models.ElectraBackbone(
            len(VOCABULARY), embedding_dim=16, **sizes
        )
    draw = np.random.default_rng(0)
    for variable in model.weights:
        if "seed" not in variable.path:
            noise = draw.normal(0, 1, variable.shape).astype("float32")
            # As loud in wide layers as in narrow ones.
            scale = 0.05 * (32 / sizes["hidden_dim"]) ** 0.5
            variable.assign(np.asarray(variable) + scale * noise)
    return model


def exact_gelu(model: Any) -> Any:
    """Gives KerasHub's encoder the activation of transformers' "gelu"."""
    for layer in model.transformer_layers:
        layer._feedforward_intermediate_dense.activation = lambda x: (
            keras.activations.gelu(x, approximate=False)
        )
    return model


def transformers_tensors(kind: str, model: Any) -> dict[str, np.ndarray]:
    """Returns the arrays under their published names, dense kernels (out, in)."""
    tensors = {}
    for name, value in _keras_hub_values(model).items():
        dense = value.ndim == 2 and not name.startswith("embeddings.")
        tensors[f"{kind}.{name}"] = np.ascontiguousarray(value.T if dense else value)
    places = np.arange(model.max_sequence_length)
    tensors[f"{kind}.embeddings.position_ids"] = places[None]
    tensors["cls.predictions.bias"] = np.zeros(len(VOCABULARY), "float32")
    return tensors


def write_transformers(
    folder: Path, kind: str, model: Any, file: str, activation: str = "gelu"
) -> Path:
    """Writes a checkpoint directory with one of the two kinds of files."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": kind,
        "vocab_size": len(VOCABULARY),
        "hidden_size": model.hidden_dim,
        "intermediate_size": model.intermediate_dim,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "max_position_embeddings": model.max_sequence_length,
        "type_vocab_size": 2,
        "hidden_act": activation,
        "layer_norm_eps": 1e-12,
    }
    if kind == "electra":
        config["embedding_size"] = model.embedding_dim
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    tensors = transformers_tensors(kind, model)
    if file.endswith(".safetensors"):
        write_safetensors(folder / file, tensors)
    else:
        write_pytorch(folder / file, tensors)
    return folder


def write_safetensors(file: Path, tensors: dict[str, np.ndarray]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name, value in tensors.items():
        header[name] = {
            "dtype": {"float32": "F32", "int64": "I64"}[value.dtype.name],
            "shape": value.shape,
            "data_offsets": [end, end + value.nbytes],
        }
        parts.append(value.tobytes())
        end += value.nbytes
    text = json.dumps(header).encode()
    file.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *parts]))


def write_pytorch(file: Path, tensors: dict[str, Any]) -> None:
    """Writes what ``torch.save`` writes, with stand-ins for what it names."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    utils._rebuild_tensor_v2 = _named("_rebuild_tensor_v2", "torch._utils")
    for name in ("FloatStorage", "LongStorage"):
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    torch._utils = utils
    stored = {}

    class Tensor:
        def __init__(self, key: str, value: np.ndarray) -> None:
            self.key, self.value = key, value

        def __reduce__(self) -> Any:
            strides = tuple(s // self.value.itemsize for s in self.value.strides)
            hooks: Any = collections.OrderedDict()
            arguments = (_Storage(self), 0, self.value.shape, strides, False, hooks)
            return utils._rebuild_tensor_v2, arguments

    class _Storage:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor

    class Pickler(pickle.Pickler):
        def persistent_id(self, item: Any) -> Any:
            if not isinstance(item, _Storage):
                return None
            value = item.tensor.value
            kind = {"float32": "FloatStorage", "int64": "LongStorage"}[value.dtype.name]
            stored[item.tensor.key] = value
            storage = getattr(torch, kind)
            return ("storage", storage, item.tensor.key, "cpu", value.size)

    state = collections.OrderedDict(
        (name, Tensor(str(i), value) if isinstance(value, np.ndarray) else value)
        for i, (name, value) in enumerate(tensors.items())
    )
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        stream = io.BytesIO()
        Pickler(stream, protocol=2).dump(state)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", stream.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, value in stored.items():
            archive.writestr(f"archive/data/{key}", value.tobytes())


def _named(name: str, module: str) -> Any:
    def function(*_: Any) -> None: ...

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    return function
