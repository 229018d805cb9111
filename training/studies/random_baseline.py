"""``random-baseline``: the best of some random architectures trained from scratch.

The paper's rows "Random" of Table 1: five for each set of layer types, without a
supernet.
"""

import argparse
import json
from typing import Any

from command_line import UsageError
from training.pretraining import experiment
from training.pretraining.from_scratch import settings_of, train
from training.run.directory import RunDirectory
from training.run.files import write_text
from training.run.progress import Progress
from training.scoring.random_architectures import draw_architectures


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
    # Not ELECTRA's own loss: a discriminator's depends on how good its generator is.
    figure = "loss" if options.objective == "mlm" else "generator_loss"
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
    best = min(candidates, key=lambda one: (round(one[figure], 5), one["architecture"]))
    result = {
        "best": best,
        "by": figure,
        "candidates": candidates,
        "letters": letters,
        "run_dir": str(options.run_dir),
    }
    write_text(options.run_dir / "result.json", json.dumps(result, indent=2) + "\n")
    return result
