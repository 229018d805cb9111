"""The batching and monitoring files of TensorFlow Serving."""

import os
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from serving.server.text_proto import Field, read_text_proto

DEFAULT_METRICS_PATH = "/monitoring/prometheus/metrics"

# Fields written as `name { value: N }`, and the least N that makes sense.
_WRAPPED_NUMBERS = {
    "max_batch_size": 1,
    "batch_timeout_micros": 0,
    "num_batch_threads": 1,
    "max_enqueued_batches": 1,
    "max_execution_batch_size": 1,
}
_WRAPPED_FLAGS = ("enable_large_batch_splitting",)
# Names for upstream's own thread pools; they change nothing here.
_IGNORED = ("thread_pool_name",)


@dataclass(frozen=True)
class BatchingConfig:
    """How concurrent requests are put together.

    Attributes:
        max_batch_size: examples in a batch, at most.
        batch_timeout_micros: how long the first request waits for company, in µs.
        num_batch_threads: batches computed at a time.
        max_enqueued_batches: full batches that may wait for each signature; beyond
            that a request is refused as UNAVAILABLE.
        allowed_batch_sizes: ascending sizes to which a batch is padded; empty: any.
        enable_large_batch_splitting: whether a request larger than
            `max_execution_batch_size` is computed in several batches, not refused.
        max_execution_batch_size: examples in a batch when splitting; by default
            `max_batch_size`.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    num_batch_threads: int = os.cpu_count() or 1
    max_enqueued_batches: int = 10
    allowed_batch_sizes: tuple[int, ...] = ()
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int | None = None

    @property
    def execution_batch_size(self) -> int:
        """The most examples that are ever computed together."""
        return self.max_execution_batch_size or self.max_batch_size

    def padded_size(self, size: int) -> int:
        """Returns the allowed size that a batch of `size` examples is padded to."""
        return next((s for s in self.allowed_batch_sizes if s >= size), size)


def read_batching_config(path: Path) -> BatchingConfig:
    """Reads a ``batching.config`` file (``BatchingParameters`` in text form).

    Raises:
        UsageError: naming the file, the line, the field, what was expected and found.
    """
    values: dict[str, int | bool] = {}
    allowed: list[int] = []
    for field in read_text_proto(path):
        where = f"{path}:{field.line}: {field.name}"
        if field.name == "allowed_batch_sizes":
            allowed.append(_number(field.value, where, 1))
        elif field.name in values:
            raise UsageError(f"{where}: given twice")
        elif field.name in _WRAPPED_NUMBERS:
            least = _WRAPPED_NUMBERS[field.name]
            values[field.name] = _number(_unwrap(field, where), where, least)
        elif field.name in _WRAPPED_FLAGS:
            values[field.name] = _flag(_unwrap(field, where), where)
        elif field.name == "pad_variable_length_inputs":
            if _flag(field.value, where):
                raise UsageError(
                    f"{where}: is not supported: it pads each input with the input's "
                    "own first value, so input_ids with [CLS] and padding_mask with 1, "
                    "and the scores come out wrong. Let clients pad instead; requests "
                    "of different lengths are batched apart here"
                )
        elif field.name not in _IGNORED:
            known = sorted(
                (*_WRAPPED_NUMBERS, *_WRAPPED_FLAGS, *_IGNORED, "allowed_batch_sizes")
            )
            raise UsageError(f"{where}: unknown field; known are {', '.join(known)}")
    config = BatchingConfig(allowed_batch_sizes=tuple(allowed), **values)  # type: ignore[arg-type]
    _check(config, path)
    return config


def _check(config: BatchingConfig, path: Path) -> None:
    sizes = config.allowed_batch_sizes
    if list(sizes) != sorted(set(sizes)):
        raise UsageError(
            f"{path}: allowed_batch_sizes: expected ascending sizes. "
            f"Received: {list(sizes)}"
        )
    execution = config.execution_batch_size
    if execution != config.max_batch_size and not config.enable_large_batch_splitting:
        raise UsageError(
            f"{path}: max_execution_batch_size: only with "
            "enable_large_batch_splitting { value: true }"
        )
    if execution > config.max_batch_size:
        raise UsageError(
            f"{path}: max_execution_batch_size: expected at most max_batch_size "
            f"({config.max_batch_size}). Received: {execution}"
        )
    if sizes and sizes[-1] != execution:
        raise UsageError(
            f"{path}: allowed_batch_sizes: expected the last one to be the largest "
            f"batch ({execution}). Received: {sizes[-1]}"
        )


def read_monitoring_config(path: Path) -> str | None:
    """Reads a ``monitoring.config`` file (``MonitoringConfig`` in text form).

    Returns:
        The path under which metrics are served, or None where they are off.

    Raises:
        UsageError: naming the file, the line, the field, what was expected and found.
    """
    enabled, metrics_path = False, DEFAULT_METRICS_PATH
    for outer in read_text_proto(path):
        where = f"{path}:{outer.line}: {outer.name}"
        if outer.name != "prometheus_config" or isinstance(outer.value, str):
            raise UsageError(f"{where}: expected prometheus_config {{ ... }}")
        for field in outer.value:
            where = f"{path}:{field.line}: {field.name}"
            if field.name == "enable":
                enabled = _flag(field.value, where)
            elif field.name == "path" and isinstance(field.value, str):
                metrics_path = field.value or DEFAULT_METRICS_PATH
                if not metrics_path.startswith("/"):
                    raise UsageError(
                        f"{where}: expected a path that begins with '/'. "
                        f"Received: {metrics_path}"
                    )
            else:
                raise UsageError(f"{where}: unknown field; known are enable, path")
    return metrics_path if enabled else None


def _unwrap(field: Field, where: str) -> str | list[Field]:
    if isinstance(field.value, str):
        raise UsageError(f"{where}: expected {{ value: ... }}. Received: {field.value}")
    if len(field.value) != 1 or field.value[0].name != "value":
        found = ", ".join(inner.name for inner in field.value) or "nothing"
        raise UsageError(f"{where}: expected {{ value: ... }}. Received: {found}")
    return field.value[0].value


def _number(value: str | list[Field], where: str, least: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        number = int(value)
        if number >= least:
            return number
    found = value if isinstance(value, str) else "a message"
    raise UsageError(
        f"{where}: expected a whole number of at least {least}. Received: {found}"
    )


def _flag(value: str | list[Field], where: str) -> bool:
    if value in ("true", "True", "t", "1"):
        return True
    if value in ("false", "False", "f", "0"):
        return False
    found = value if isinstance(value, str) else "a message"
    raise UsageError(f"{where}: expected true or false. Received: {found}")
