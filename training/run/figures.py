"""Pictures of a run: its curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.figures import new_figure, save_figure

if TYPE_CHECKING:
    pass

_SPLIT_STYLES: dict[str, dict[str, Any]] = {
    "train": {"color": "#0072B2", "linewidth": 1.2},
    "validation": {"color": "#D55E00", "marker": "o", "markersize": 4},
}
_MAX_PANELS = 9


def draw_curves(records: Sequence[Mapping[str, Any]], title: str, file: Path) -> None:
    """Draws every figure of a run over its steps, training and held out together.

    Args:
        records: lines of ``metrics.jsonl``.
        title: what stands above.
        file: the PNG to write.
    """
    curves = _curves(records)
    # What has both splits is what one looks at first.
    names = sorted(curves, key=lambda name: (-len(curves[name]), name != "loss", name))
    names = names[:_MAX_PANELS]
    if not names:
        return
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, axes = new_figure((4.2 * columns, 3.0 * rows), rows, columns)
    for axis, name in zip(axes, names, strict=False):
        for split, points in curves[name].items():
            steps, values = zip(*points, strict=True)
            axis.plot(steps, values, label=split, **_SPLIT_STYLES.get(split, {}))
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.set_xlabel("step", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    axes[0].legend(fontsize=8)
    save_figure(figure, file, title)


def _curves(
    records: Sequence[Mapping[str, Any]],
) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Returns name of the figure -> split -> points."""
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for record in records:
        for name, value in record.items():
            if name in ("step", "split") or not isinstance(value, (int, float)):
                continue
            if name.startswith(PREFIX):
                continue  # one curve a layer: they have a picture of their own
            split = curves.setdefault(name, {}).setdefault(record["split"], [])
            split.append((record["step"], float(value)))
    return curves


PREFIX = "running_loss/"
