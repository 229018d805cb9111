"""Draws how latencies are distributed."""

from collections.abc import Sequence
from pathlib import Path

from common.figures import new_figure

PERCENTILES = (50, 90, 95, 99)


def percentile(ascending: Sequence[float], percent: int) -> float:
    """Returns the smallest value that `percent` percent do not exceed."""
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]


def draw(ascending: Sequence[float], errors: int, title: str, path: Path) -> None:
    """Draws the part of requests answered within a time, on a logarithmic axis.

    Args:
        ascending: latencies of the answered requests in ms, in order; at least one.
        errors: requests that failed, which the picture tells but does not draw.
        title: what was measured.
        path: the file to write; its suffix says the format.
    """
    figure, (axes,) = new_figure((7, 4))
    parts = [100 * (n + 1) / len(ascending) for n in range(len(ascending))]
    axes.step(ascending, parts, where="post")
    for percent in PERCENTILES:
        value = percentile(ascending, percent)
        axes.plot([value], [percent], "o", color="tab:red", markersize=4)
        axes.annotate(
            f"p{percent}: {value:.3g} ms",
            (value, percent),
            (6, -10),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set(xscale="log", xlabel="latency (ms)", ylabel="requests answered (%)")
    axes.set_title(f"{title}: {len(ascending)} answered, {errors} failed")
    axes.grid(alpha=0.3)
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    try:
        figure.savefig(partial, dpi=110)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
