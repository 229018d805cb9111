"""Puts concurrent requests together into batches, and takes the answers apart."""

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.server.batching_config import BatchingConfig
from serving.server.limits import work
from serving.server.servable import Servable, Signature
from serving.server.status import Code, ServingError, invalid_argument

Array = npt.NDArray[Any]
Outputs = dict[str, Array]


@dataclass
class _Task:
    """Some examples of one request, that are computed in one batch."""

    inputs: Mapping[str, Array]
    size: int
    arrived: float = field(default_factory=time.monotonic)
    result: "Future[Outputs]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        """Counts the tokens of the longest row."""
        self.width = -(-work(self.inputs) // self.size)


@dataclass(eq=False)
class _Queue:
    """Tasks that may share a batch: one servable, signature, outputs, row shape."""

    servable: Servable
    signature: Signature
    outputs: tuple[str, ...]
    tasks: deque[_Task] = field(default_factory=deque)
    size: int = 0

    @property
    def oldest(self) -> float:
        """When the first waiting task came, by `time.monotonic`."""
        return self.tasks[0].arrived if self.tasks else 0.0


class BatchScheduler:
    """Computes requests in batches, on threads of its own.

    Requests whose rows differ in length or type never share a batch, so that one
    cannot spoil another's answer. Where a batch fails, its requests are computed
    alone, so that only those at fault fail.

    Args:
        config: sizes, times and threads.
        max_tokens: rows times tokens of the longest that a batch may come to.
    """

    def __init__(self, config: BatchingConfig, max_tokens: int = 2**62) -> None:
        self._config = config
        self._max_tokens = max_tokens
        self._queues: dict[tuple[Any, ...], _Queue] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{index}", daemon=True)
            for index in range(config.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def run(
        self,
        servable: Servable,
        signature: Signature,
        inputs: Mapping[str, Array],
        outputs: Sequence[str],
    ) -> Outputs:
        """Computes a request together with others; arguments as `Servable.run`.

        Raises:
            ServingError: INVALID_ARGUMENT where the request cannot be batched,
                UNAVAILABLE where too much waits already, or what the graph says.
        """
        for name, spec in signature.inputs.items():
            spec.check(name, inputs[name])
        size = _batch_size(inputs) if inputs else 0
        if size == 0:
            return servable.run(signature, inputs, outputs)
        limit = self._config.execution_batch_size
        if size > limit and not self._config.enable_large_batch_splitting:
            raise invalid_argument(
                f"Task size {size} is larger than maximum input batch size {limit}"
            )
        tasks = [
            _Task(
                {name: array[start : start + limit] for name, array in inputs.items()},
                min(limit, size - start),
            )
            for start in range(0, size, limit)
        ]
        self._enqueue(servable, signature, tuple(outputs), tasks)
        results = [task.result.result() for task in tasks]
        if len(results) == 1:
            return results[0]
        return {
            name: np.concatenate([result[name] for result in results])
            for name in outputs
        }

    def close(self) -> None:
        """Computes what waits, then stops the threads."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _enqueue(
        self,
        servable: Servable,
        signature: Signature,
        outputs: tuple[str, ...],
        tasks: list[_Task],
    ) -> None:
        rows = tuple(
            (name, array.dtype.str, array.shape[1:])
            for name, array in tasks[0].inputs.items()
        )
        key = (id(servable), id(signature), outputs, rows)
        room = self._config.max_enqueued_batches * self._config.execution_batch_size
        with self._changed:
            if self._stopping:
                raise ServingError(Code.UNAVAILABLE, "The server is shutting down")
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = _Queue(servable, signature, outputs)
            if queue.size + sum(task.size for task in tasks) > room and queue.tasks:
                raise ServingError(
                    Code.UNAVAILABLE,
                    "The batch scheduling queue to which this task was submitted is "
                    f"full: {queue.size} examples wait, of at most {room}",
                )
            queue.tasks.extend(tasks)
            queue.size += sum(task.size for task in tasks)
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                batch = self._next_batch()
            if batch is None:
                return
            self._compute(*batch)

    def _next_batch(self) -> tuple[_Queue, list[_Task]] | None:
        """Waits for a batch that is full or has waited long enough; None: the end."""
        timeout = self._config.batch_timeout_micros * 1e-6
        limit = self._config.execution_batch_size
        while True:
            now = time.monotonic()
            wait: float | None = None
            # The queue whose first request has waited longest goes first.
            for key, queue in sorted(
                self._queues.items(), key=lambda item: item[1].oldest
            ):
                if not queue.tasks:
                    del self._queues[key]
                    continue
                due = queue.oldest + timeout
                if queue.size >= limit or due <= now or self._stopping:
                    return queue, self._take(queue)
                wait = due - now if wait is None else min(wait, due - now)
            if self._stopping:
                return None
            self._changed.wait(wait)

    def _take(self, queue: _Queue) -> list[_Task]:
        batch: list[_Task] = []
        room = self._config.execution_batch_size
        widest, rows = 0, 0
        while queue.tasks and queue.tasks[0].size <= room:
            # One long text pads all others, so it may have to go without them.
            task = queue.tasks[0]
            widest = max(widest, task.width)
            rows += task.size
            if batch and widest * rows > self._max_tokens:
                break
            queue.tasks.popleft()
            batch.append(task)
            queue.size -= task.size
            room -= task.size
        if queue.tasks:
            self._changed.notify()
        return batch

    def _compute(self, queue: _Queue, batch: list[_Task]) -> None:
        # A task is running from here on: cancelled futures would break set_result.
        for task in batch:
            task.result.set_running_or_notify_cancel()
        try:
            results = self._compute_together(queue, batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].result.set_exception(error)
                return
            for task in batch:
                try:
                    task.result.set_result(self._compute_together(queue, [task])[0])
                except Exception as own_error:
                    task.result.set_exception(own_error)
            return
        for task, result in zip(batch, results, strict=True):
            task.result.set_result(result)

    def _compute_together(self, queue: _Queue, batch: list[_Task]) -> list[Outputs]:
        size = sum(task.size for task in batch)
        padding = self._config.padded_size(size) - size
        inputs = {}
        for name in queue.signature.inputs:
            parts = [task.inputs[name] for task in batch]
            # Padding repeats a real row, so that it is always a valid one.
            parts.extend([parts[0][:1]] * padding)
            inputs[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        outputs = queue.servable.run(queue.signature, inputs, queue.outputs)
        for name, array in outputs.items():
            if array.ndim == 0 or len(array) != size + padding:
                raise ServingError(
                    Code.FAILED_PRECONDITION,
                    f"output {name}: expected {size + padding} rows for a batch of "
                    f"{size + padding}. Received: shape {list(array.shape)}. This "
                    "signature cannot be batched",
                )
        results, start = [], 0
        for task in batch:
            end = start + task.size
            results.append({name: array[start:end] for name, array in outputs.items()})
            start = end
        return results


def _batch_size(inputs: Mapping[str, Array]) -> int:
    sizes = {name: array.shape[0] for name, array in inputs.items() if array.ndim}
    if len(sizes) != len(inputs):
        raise invalid_argument("Batching: input tensors must have at least one dim")
    if len(set(sizes.values())) > 1:
        raise invalid_argument(
            f"Batching: input tensors must have equal 0th-dimension size: {sizes}"
        )
    return int(next(iter(sizes.values())))
