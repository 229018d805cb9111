"""Where a function's time goes, operation by operation, from TensorFlow's profiler."""

import collections
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf


def shares_of_time(
    work: Callable[[], Any], repetitions: int = 3, most: int = 12
) -> dict[str, float]:
    """Returns each operation type's share of the time spent in operations.

    Args:
        work: does the work and waits for it; call it before, so that it is traced.
        repetitions: calls under the profiler.
        most: operation types to name; the rest is `other`.
    """
    # The profiler's message types come with TensorFlow, under a private name.
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    picoseconds: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        for _ in range(repetitions):
            work()
        tf.profiler.experimental.stop()
        for path in Path(folder).rglob("*.xplane.pb"):
            space = xplane_pb2.XSpace.FromString(path.read_bytes())
            for plane in space.planes:
                names = {i: m.name for i, m in plane.event_metadata.items()}
                for line in plane.lines:
                    for event in line.events:
                        name, _, kind = names[event.metadata_id].partition(":")
                        # Events of operations are called "node name:type".
                        if kind and kind.replace("_", "").isalnum() and name:
                            picoseconds[kind] += event.duration_ps
    total = sum(picoseconds.values()) or 1
    shares = {kind: spent / total for kind, spent in picoseconds.most_common(most)}
    return {**shares, "other": max(0.0, 1 - sum(shares.values()))}
