"""Draws an architecture: a row of coloured boxes, the bottom layer on the left."""

import contextlib
from collections.abc import Collection
from pathlib import Path

from lvbert_tf.architecture import Architecture, letter_name
from lvbert_tf.command_line import CommandError, UsageError

# Okabe and Ito's colours: told apart with every kind of colour vision.
LETTER_COLOURS = {"c": "#E69F00", "s": "#56B4E9", "f": "#009E73"}
OTHER_COLOUR = "#999999"


def draw_architecture(
    architecture: Architecture,
    title: str,
    file: Path,
    fixed: Collection[int] = (),
) -> None:
    """Draws the layers into a picture; its kind is that of the file's suffix.

    Args:
        architecture: the layers.
        title: what stands above.
        file: the picture, for example ``layers.png`` or ``layers.svg``.
        fixed: positions, from 1, that were given and not found; they are hatched.

    Raises:
        CommandError: if matplotlib is not installed.
        UsageError: if the picture cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CommandError(
            "drawing needs matplotlib: pip install matplotlib "
            '(or the extra: pip install "lvbert-tf[training]")'
        ) from error
    figure = Figure(
        figsize=(max(6.5, 0.38 * len(architecture) + 1), 2.2), layout="constrained"
    )
    canvas = FigureCanvasAgg(figure)
    kinds = canvas.get_supported_filetypes()
    if file.suffix[1:].lower() not in kinds:
        raise UsageError(f"{file}: expected a suffix out of {', '.join(sorted(kinds))}")
    axis = figure.subplots()
    named: set[str] = set()
    for position, letter in enumerate(architecture, start=1):
        axis.bar(
            position,
            1.0,
            width=0.9,
            color=LETTER_COLOURS.get(letter, OTHER_COLOUR),
            label=None if letter in named else f"{letter}  {letter_name(letter)}",
            hatch="//" if position in fixed else None,
        )
        axis.text(position, 0.5, letter, ha="center", va="center")
        named.add(letter)
    if fixed:
        axis.bar(0, 0, color="white", hatch="//", label="fixed, not searched")
        named.add("//")
    axis.set_xlim(0.4, len(architecture) + 0.6)
    axis.set_ylim(0.0, 1.0)
    axis.set_yticks([])
    axis.set_xlabel("layer, from the bottom")
    axis.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=len(named), frameon=False)
    figure.suptitle(title, fontsize=11)
    partial = file.with_name(f"{file.stem}.partial{file.suffix}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(partial, dpi=120)
        partial.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise UsageError(f"{file}: {error.strerror}") from error
