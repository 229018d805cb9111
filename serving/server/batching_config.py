"""The batching and monitoring files of TensorFlow Serving."""

import os
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from serving.server.text_proto import (
    BatchingParameters,
    MonitoringConfig,
    read_text_proto,
)

DEFAULT_METRICS_PATH = "/monitoring/prometheus/metrics"

# Fields written as `name { value: N }`, and the least N that makes sense. The field
# thread_pool_name is read and changes nothing here.
_LEAST = {
    "max_batch_size": 1,
    "batch_timeout_micros": 0,
    "num_batch_threads": 1,
    "max_enqueued_batches": 1,
    "max_execution_batch_size": 1,
}


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
        UsageError: naming the file, the line or the field, and what is wrong there.
    """
    message = BatchingParameters()
    read_text_proto(path, message)
    if message.pad_variable_length_inputs:
        raise UsageError(
            f"{path}: pad_variable_length_inputs: is not supported: it pads each input "
            "with the input's own first value, so input_ids with [CLS] and "
            "padding_mask with 1, and the scores come out wrong. Let clients pad "
            "instead; requests of different lengths are batched apart here"
        )
    values = {
        name: _at_least(least, getattr(message, name).value, f"{path}: {name}")
        for name, least in _LEAST.items()
        if message.HasField(name)
    }
    sizes = message.allowed_batch_sizes
    config = BatchingConfig(
        allowed_batch_sizes=tuple(
            _at_least(1, size, f"{path}: allowed_batch_sizes") for size in sizes
        ),
        enable_large_batch_splitting=message.enable_large_batch_splitting.value,
        **values,
    )
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
        UsageError: naming the file, the line or the field, and what is wrong there.
    """
    message = MonitoringConfig()
    read_text_proto(path, message)
    metrics_path = message.prometheus_config.path or DEFAULT_METRICS_PATH
    if not metrics_path.startswith("/"):
        raise UsageError(
            f"{path}: prometheus_config: path: expected a path that begins with '/'. "
            f"Received: {metrics_path}"
        )
    return str(metrics_path) if message.prometheus_config.enable else None


def _at_least(least: int, value: int, where: str) -> int:
    if value < least:
        raise UsageError(
            f"{where}: expected a whole number of at least {least}. Received: {value}"
        )
    return value
