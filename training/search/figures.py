"""Pictures of a search: its progress (the paper's Figure 3) and where letters stand."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.figures import new_figure, save_figure

# Blue and yellow as in the paper; Okabe and Ito's shades of them.
_METHOD_COLOURS = {"random": "#0072B2", "evolution": "#E69F00"}
_AXES = {
    "loss": (1.0, "loss at [MASK], held out (nats; less is better)"),
    "accuracy": (100.0, "accuracy at [MASK], held out (%)"),
    "accuracy_all": (100.0, "accuracy over all predicted tokens, held out (%)"),
}
"""Of each fitness: the factor that it is drawn with, and the name of the axis."""
_OTHER_COLOURS = ("#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def draw_progress(
    searches: Mapping[str, Sequence[Mapping[str, Any]]], file: Path, fitness: str
) -> None:
    """Draws the top candidates of every iteration as dots and their mean as a line.

    Args:
        searches: label to the iteration lines of a ``search.jsonl``.
        file: the PNG to write.
        fitness: what they rank by.
    """
    from matplotlib.ticker import MaxNLocator

    figure, (axis,) = new_figure((6.4, 4.2))
    scale, label_of_axis = _AXES[fitness]
    spare = iter(_OTHER_COLOURS * (1 + len(searches)))
    for label, iterations in searches.items():
        method = label.split(",")[0]
        colour = _METHOD_COLOURS.get(method) or next(spare)
        steps, dots = [], []
        for line in iterations:
            for candidate in line["top"]:
                steps.append(line["iteration"])
                dots.append(scale * candidate[fitness])
        axis.scatter(steps, dots, s=12, color=colour, alpha=0.6, linewidths=0)
        axis.plot(
            [line["iteration"] for line in iterations],
            [scale * line["top_mean"] for line in iterations],
            color=colour,
            label=f"{label}: mean of the top {len(iterations[-1]['top'])}",
        )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("iteration")
    axis.set_ylabel(label_of_axis)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="best")
    save_figure(figure, file)


def draw_letters(
    counts: Mapping[str, Sequence[int]],
    candidates: int,
    letters: str,
    file: Path,
    fixed: Collection[int] = (),
) -> None:
    """Draws how often each letter stands at each position, as a heat map.

    Args:
        counts: letter to the number at each position.
        candidates: how many were counted.
        letters: the rows.
        file: the PNG to write.
        fixed: positions, from 1, that the search could not choose.
    """
    length = len(counts[letters[0]])
    figure, (axis,) = new_figure(
        (max(4.5, 0.4 * length + 1.5), 0.45 * len(letters) + 1.6)
    )
    shares = [[n / candidates for n in counts[a]] for a in letters]
    image = axis.imshow(shares, vmin=0.0, vmax=1.0, cmap="viridis", aspect="auto")
    for row, letter in enumerate(letters):
        for column, count in enumerate(counts[letter]):
            axis.text(
                column,
                row,
                str(count),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if shares[row][column] < 0.6 else "black",
            )
    axis.set_yticks(range(len(letters)), list(letters))
    axis.set_xticks(
        range(length),
        [f"{i}\nfixed" if i in fixed else str(i) for i in range(1, length + 1)],
        fontsize=8,
    )
    axis.set_xlabel(f"layer, from the bottom (top {candidates} candidates)")
    figure.colorbar(image, ax=axis, label="share", fraction=0.03)
    save_figure(figure, file)


def draw_front(
    points: Sequence[tuple[float, float]],
    front: Sequence[tuple[float, float]],
    cost_name: str,
    file: Path,
    fitness: str,
) -> None:
    """Draws what ranks against cost, all candidates and their Pareto front.

    Args:
        points: (cost, loss or accuracy) of every candidate.
        front: of those of the front, by rising cost.
        cost_name: what the cost is.
        file: the PNG to write.
        fitness: what ranks.
    """
    scale, label_of_axis = _AXES[fitness]
    figure, (axis,) = new_figure((6.4, 4.2))
    axis.scatter(
        [cost for cost, _ in points],
        [scale * value for _, value in points],
        s=8,
        color="#999999",
        alpha=0.5,
        linewidths=0,
        label=f"{len(points)} scored candidates",
    )
    axis.step(
        [cost for cost, _ in front],
        [scale * value for _, value in front],
        where="post",
        color="#D55E00",
        marker="o",
        markersize=4,
        label="Pareto front",
    )
    axis.set_xlabel(cost_name.replace("_", " "))
    axis.set_ylabel(label_of_axis)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="best")
    save_figure(figure, file)
