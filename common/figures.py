"""Making and writing pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(
    size: tuple[float, float], rows: int = 1, columns: int = 1
) -> tuple["Figure", list["Axes"]]:
    """Returns an empty figure, `size` in inches, and its axes row by row."""
    # Matplotlib takes a second to import, and most commands draw only at their end.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not pyplot: it keeps every figure alive and looks for a display.
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def save_figure(figure: "Figure", file: Path, title: str = "") -> None:
    """Writes a figure as a PNG, whole or not at all.

    Args:
        figure: what was drawn.
        file: the picture; missing folders are made.
        title: what stands above all axes.
    """
    if title:
        figure.suptitle(title, fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.stem}.partial.png")
    figure.savefig(partial, dpi=120)
    partial.replace(file)
