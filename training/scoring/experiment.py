"""What scoring architectures with inherited weights can configure."""

from dataclasses import dataclass

from training.loop.batches import HELD_OUT_SEED
from training.run.flags import Flag
from training.run.settings import setting

EVALUATE = "evaluate"


@dataclass(frozen=True)
class HeldOutData:
    """Where the held-out text lies."""

    directory: str = setting("a directory that `prepare` wrote")


@dataclass(frozen=True)
class Evaluation:
    """What to score, by which supernet."""

    supernet: str = setting("run directory of the supernet")
    architectures: str = setting("architectures, separated by commas", "")
    random: int = setting(
        "so many random paths besides, and their losses by letter and depth",
        0,
        minimum=0,
    )
    examples: int = setting("held-out examples; 0 takes all", 0, minimum=0)
    batch_size: int = setting("examples at once; moves no score", 32, minimum=1)
    mask_seed: int = setting(
        "of the masks; the default is that of the validation", HELD_OUT_SEED, minimum=0
    )


@dataclass(frozen=True)
class EvaluateExperiment:
    """A configuration of the command ``evaluate``."""

    scoring: Evaluation
    data: HeldOutData


EVALUATE_FLAGS = (
    Flag("--supernet", "scoring.supernet", path=True, metavar="RUN_DIR"),
    Flag("--data", "data.directory", path=True, metavar="DIR"),
    Flag("--architecture", "scoring.architectures", many=True, metavar="SPEC"),
    Flag("--random", "scoring.random"),
    Flag("--batch-size", "scoring.batch_size"),
    Flag("--examples", "scoring.examples"),
    Flag("--seed", "scoring.mask_seed"),
)
