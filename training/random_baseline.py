"""``random-baseline``: the best of some random architectures trained from scratch.

The paper's rows "Random" of Table 1: five for each set of layer types, without a
supernet.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from command_line import UsageError
from training import experiment
from training.run_directory import RunDirectory, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet",
        type=Path,
        help="run directory of a supernet, whose sizes and data are taken",
    )
    parser.add_argument(
        "--config",
        type=Path,
        help="the same from a configuration of `supernet`, which need not be trained",
    )
    parser.add_argument("--data", type=Path, help="data directory (default: theirs)")
    parser.add_argument(
        "--run-dir",
        type=Path,
        required=True,
        help="where everything is written; run again with the same to resume",
    )
    parser.add_argument(
        "--architectures", type=int, default=5, help="how many (default: 5)"
    )
    parser.add_argument(
        "--letters", default="", help="layer types (default: those of the supernet)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        help="of each training (default: the supernet's)",
    )
    parser.add_argument(
        "--objective",
        choices=("electra", "mlm"),
        default="electra",
        help="what to train by: electra compares held-out losses, mlm accuracies "
        "(default: electra)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=0, help="0: the supernet's (default)"
    )
    parser.add_argument(
        "--learning-rate", type=float, default=0.0, help="0: 5e-4, the paper's"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of architectures and training (default: 0)"
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    if (arguments.supernet is None) == (arguments.config is None):
        raise UsageError("expected either --supernet or --config")
    if arguments.architectures < 1:
        raise UsageError(
            f"--architectures must be at least 1, found {arguments.architectures}"
        )
    if min(arguments.steps, arguments.batch_size, arguments.seed) < 0:
        raise UsageError("--steps, --batch-size and --seed must be 0 or more")
    return run(arguments)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Draws, trains and compares.

    Args:
        options: those of the command.

    Returns:
        `best`, `candidates` (every architecture with its held-out figures), and `by`,
        the figure that decided.

    Raises:
        UsageError: if the options do not fit together.
    """
    from training.from_scratch import settings_of, train
    from training.progress import Progress
    from training.rank_check import draw_architectures

    file = options.config
    if options.supernet is not None:
        source = RunDirectory.existing(
            options.supernet, "--supernet", experiment.SUPERNET
        )
        file = source.config_file
    overrides = []
    if options.data is not None:
        overrides.append(f"data.directory={json.dumps(str(options.data.absolute()))}")
    supernet = experiment.load_supernet(file, overrides)
    letters = options.letters or supernet.model.letters
    foreign = [letter for letter in letters if letter not in supernet.model.letters]
    if foreign:
        raise UsageError(
            f"--letters {letters}: expected letters of {supernet.model.letters!r}, "
            f"found {foreign[0]!r}"
        )
    chosen = draw_architectures(
        [letters], supernet.model.num_layers, options.architectures, options.seed
    )
    figure = "mlm_accuracy" if options.objective == "mlm" else "loss"
    sign = 1.0 if figure == "mlm_accuracy" else -1.0
    options.run_dir.mkdir(parents=True, exist_ok=True)
    candidates = []
    with Progress(len(chosen), "trainings", "random-baseline") as progress:
        for name, _ in chosen:
            settings = settings_of(
                supernet,
                name,
                data_dir=supernet.data.directory,
                steps=options.steps or supernet.run.steps,
                seed=options.seed,
                objective=options.objective,
                batch_size=options.batch_size,
                learning_rate=options.learning_rate or 5e-4,
            )
            result = train(settings, options.run_dir / "trained" / name)
            figures = {k: v for k, v in result.items() if isinstance(v, float)}
            candidates.append(
                {"architecture": name, "model": result["model"], **figures}
            )
            progress.set(**{figure: result[figure]})
            progress.update(1)
    best = max(candidates, key=lambda one: sign * one[figure])
    result = {
        "best": best,
        "by": figure,
        "candidates": candidates,
        "letters": letters,
        "run_dir": str(options.run_dir),
    }
    write_text(options.run_dir / "result.json", json.dumps(result, indent=2) + "\n")
    return result
