"""What the clients of a stressed server saw, and what must hold of it."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Record:
    """What the clients saw.

    Attributes:
        latencies: seconds since the start, and milliseconds, of good requests.
        memory: seconds since the start, and MiB.
        events: seconds since the start, and what was done.
        counts: how requests ended.
        wrong: answers that are none of the right ones.
    """

    started: float = field(default_factory=time.monotonic)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def now(self) -> float:
        """Returns the seconds since the start."""
        return time.monotonic() - self.started


def median(values: list[float]) -> float:
    """Returns the middle value; NaN where there is none."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else float("nan")


def verdict(record: Record, findings: dict[str, Any]) -> list[str]:
    """Returns what does not hold."""
    faults = [f"wrong: {text}" for text in record.wrong[:10]]
    if findings["memory_at_end_mb"] > 1.1 * findings["memory_after_warm_up_mb"]:
        faults.append("memory grew by over 10% after warm-up")
    if not findings["restart"]:
        faults.append("killed and restarted, it does not answer")
    if findings["drain_s"] > 15:
        faults.append("SIGTERM took over 15 s")
    if findings["tracebacks"]:
        faults.append("the log has tracebacks")
    return faults


def draw(record: Record, path: Path) -> None:
    """Draws latency and memory over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(9, 5.5))
    seconds, milliseconds = zip(*record.latencies, strict=True)
    top.plot(seconds, milliseconds, ",", color="tab:blue")
    top.set(yscale="log", ylabel="latency of good requests (ms)")
    bottom.plot(*zip(*record.memory, strict=True), color="tab:green")
    bottom.set(xlabel="seconds", ylabel="resident memory (MiB)", ylim=(0, None))
    for second, what in record.events:
        for axes in (top, bottom):
            color = "tab:red" if what == "broken" else "0.8"
            axes.axvline(second, color=color, linewidth=0.7)
    top.set_title(
        "grey: a version is swapped and the label moved; red: a broken version"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
