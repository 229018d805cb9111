"""Counts requests and times them, in the text format of Prometheus.

Not by `prometheus_client`: it ends the name of each counter in ``_total``, and the
stock server's names, which rules and dashboards ask for, do not. Its parser reads the
page in the tests.
"""

import threading
from collections import defaultdict
from itertools import accumulate

from serving.server.status import Code

# Upper bounds in µs, as TF Serving's own: 10 times 1.8 to the n.
_BOUNDS = tuple(10 * 1.8**n for n in range(33))


class _Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        position = next((n for n, bound in enumerate(_BOUNDS) if value <= bound), -1)
        self.counts[position] += 1
        self.total += value


class Metrics:
    """Request counts and latencies, under the names that TF Serving gives them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self._latencies: dict[tuple[str, str, str], _Histogram] = defaultdict(
            _Histogram
        )

    def record(
        self, model: str, code: Code, api: str, entrypoint: str, latency_us: float
    ) -> None:
        """Counts one answered request.

        Args:
            model: its name; empty where the request named no model that exists, so
                that made-up names do not fill the memory.
            code: how it ended.
            api: ``Predict``, ``Classify`` or ``Regress``.
            entrypoint: ``REST`` or ``GRPC``.
            latency_us: from the request's arrival to its answer, in µs.
        """
        with self._lock:
            self._counts[model, code.name] += 1
            self._latencies[model, api, entrypoint].add(latency_us)

    def totals(self) -> tuple[int, int]:
        """Returns how many requests were answered, and how many of them failed."""
        with self._lock:
            failed = sum(
                count for (_, code), count in self._counts.items() if code != "OK"
            )
            return sum(self._counts.values()), failed

    def text(self) -> str:
        """Returns everything in Prometheus's text format."""
        lines = ["# TYPE :tensorflow:serving:request_count counter"]
        with self._lock:
            for (model, code), count in sorted(self._counts.items()):
                labels = f'model_name="{_escape(model)}",status="{code}"'
                lines.append(f":tensorflow:serving:request_count{{{labels}}} {count}")
            lines.append("# TYPE :tensorflow:serving:request_latency histogram")
            for (model, api, entrypoint), histogram in sorted(self._latencies.items()):
                labels = (
                    f'model_name="{_escape(model)}",API="{api}",'
                    f'entrypoint="{entrypoint}"'
                )
                name = ":tensorflow:serving:request_latency"
                bounds = [*(f"{bound:.6g}" for bound in _BOUNDS), "+Inf"]
                running = list(accumulate(histogram.counts))
                lines += [
                    f'{name}_bucket{{{labels},le="{bound}"}} {count}'
                    for bound, count in zip(bounds, running, strict=True)
                ]
                lines.append(f"{name}_sum{{{labels}}} {histogram.total:.6g}")
                lines.append(f"{name}_count{{{labels}}} {running[-1]}")
        return "\n".join(lines) + "\n"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
