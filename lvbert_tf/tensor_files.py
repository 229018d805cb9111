"""Reads tensors of safetensors and PyTorch files, without either library.

A PyTorch file holds a pickle, which may run any code when it is read. Here it may name
tensors and their storages, and nothing else.
"""

import collections
import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
_SAFETENSORS = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_STORAGES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "BoolStorage": np.bool_,
    "ByteStorage": np.uint8,
}


def read_tensors(directory: Path, names: Mapping[str, str]) -> dict[str, Array]:
    """Returns the tensors of a checkpoint directory by name.

    Args:
        directory: holds one of the files, or its index of shards (`.index.json`).
        names: file name to format, "safetensors" or "pytorch", the first one counts.

    Raises:
        ValueError: if there is none of them, or one is damaged.
    """
    for name, kind in names.items():
        index = directory / f"{name}.index.json"
        if (directory / name).is_file():
            files = [directory / name]
        elif index.is_file():
            shards = json.loads(index.read_text("utf-8"))["weight_map"].values()
            files = [directory / shard for shard in sorted(set(shards))]
        else:
            continue
        read = read_safetensors if kind == "safetensors" else read_pytorch
        tensors: dict[str, Array] = {}
        for file in files:
            try:
                tensors.update(read(file))
            except (OSError, KeyError, TypeError, EOFError, ValueError) as error:
                raise ValueError(f"{file}: cannot be read: {error}") from error
        return tensors
    raise ValueError(f"{directory}: expected one of {', '.join(names)}, found none")


def read_safetensors(file: Path) -> dict[str, Array]:
    """Returns the tensors of a safetensors file.

    Eight bytes give the length of a JSON header (little-endian); it gives each tensor's
    dtype, shape and place in what follows.
    """
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise ValueError(f"expected a header of {length} bytes, the file ends before")
    header = json.loads(content[8 : 8 + length])
    data = memoryview(content)[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _SAFETENSORS:
            raise ValueError(f"{name} has dtype {entry['dtype']}, which is not known")
        dtype = np.dtype(_SAFETENSORS[entry["dtype"]])
        start, end = entry["data_offsets"]
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"{name} ends behind the file")
        values = np.frombuffer(data[start:end], dtype)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def read_pytorch(file: Path) -> dict[str, Array]:
    """Returns the tensors of a state dict that ``torch.save`` wrote (since 1.6)."""
    if not zipfile.is_zipfile(file):
        raise ValueError(
            "expected the zip format of PyTorch 1.6 and later. Save it again with a "
            "newer PyTorch, or as safetensors"
        )
    with zipfile.ZipFile(file) as archive:
        (pickled,) = (n for n in archive.namelist() if n.endswith("/data.pkl"))
        folder = pickled.removesuffix("data.pkl")
        byteorder = f"{folder}byteorder"
        if byteorder in archive.namelist() and archive.read(byteorder) != b"little":
            raise ValueError("expected little-endian values")
        try:
            state = _Unpickler(archive, folder).load()
        except pickle.UnpicklingError as error:
            raise ValueError(str(error)) from error
    if not isinstance(state, Mapping):
        raise ValueError(f"expected tensors by name, found {type(state).__name__}")
    return {name: value for name, value in state.items() if _is_tensor(value)}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray)


class _Unpickler(pickle.Unpickler):
    """Reads tensors and refuses everything else that a pickle may name."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}data.pkl")))
        self._archive = archive
        self._folder = folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch" and name in _STORAGES:
            return np.dtype(_STORAGES[name])
        raise pickle.UnpicklingError(
            f"it names {module}.{name}; expected tensors only, and nothing else is run"
        )

    def persistent_load(self, pid: Any) -> Array:
        kind, dtype, key, *_ = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"it holds a {kind!r}, expected storages")
        return np.frombuffer(self._archive.read(f"{self._folder}data/{key}"), dtype)


def _tensor(storage: Array, offset: int, size: Any, stride: Any, *_: Any) -> Array:
    size, stride = tuple(size), tuple(stride)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min((offset, *size, *stride), default=0) < 0 or (
        0 not in size and last >= storage.size
    ):
        raise pickle.UnpicklingError("a tensor reaches beyond its storage")
    steps = [step * storage.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(storage[offset:], size, steps)
