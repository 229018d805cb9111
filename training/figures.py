"""Pictures of a run: its curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.running_losses import PREFIX

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    figure, axes = _new_figure(rows, columns, (4.2 * columns, 3.0 * rows))
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
    _save(figure, title, file)


def draw_running_losses(
    records: Sequence[Mapping[str, Any]], letters: str, num_layers: int, file: Path
) -> None:
    """Draws a supernet's running loss: by letter over the steps, and by position.

    Args:
        records: lines of ``metrics.jsonl``.
        letters: of the supernet.
        num_layers: its positions.
        file: the PNG to write.
    """
    logged = [record for record in records if f"{PREFIX}{letters[0]}" in record]
    if not logged:
        return
    figure, (over_steps, by_position) = _new_figure(1, 2, (11.0, 3.2))
    for letter in letters:
        points = [
            (record["step"], record[f"{PREFIX}{letter}"])
            for record in logged
            if f"{PREFIX}{letter}" in record
        ]
        over_steps.plot(*zip(*points, strict=True), label=letter)
    over_steps.set_xlabel("step", fontsize=8)
    over_steps.set_ylabel("running loss", fontsize=8)
    over_steps.legend(fontsize=8)
    over_steps.grid(alpha=0.3)
    last = logged[-1]
    image = by_position.imshow(
        [
            [last.get(f"{PREFIX}{i:02d}_{x}", float("nan")) for i in range(num_layers)]
            for x in letters
        ],
        aspect="auto",
    )
    by_position.set_yticks(range(len(letters)), list(letters))
    by_position.set_xlabel("position", fontsize=8)
    figure.colorbar(image, ax=by_position)
    _save(figure, "Running loss of the steps that used a layer", file)


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


def _new_figure(
    rows: int, columns: int, size: tuple[float, float]
) -> tuple["Figure", list["Axes"]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not pyplot: it keeps every figure alive and looks for a display.
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def _save(figure: "Figure", title: str, file: Path) -> None:
    figure.suptitle(title, fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.stem}.partial.png")
    figure.savefig(partial, dpi=120)
    partial.replace(file)
