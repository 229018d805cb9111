"""Pictures of a supernet's running losses."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.figures import new_figure, save_figure
from training.run.figures import PREFIX


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
    figure, (over_steps, by_position) = new_figure((11.0, 3.2), 1, 2)
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
    save_figure(figure, file, "Running loss of the steps that used a layer")
