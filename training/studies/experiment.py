"""What the studies that train many architectures can configure."""

from dataclasses import dataclass

from training.run.flags import Flag
from training.run.settings import setting

RANK_CHECK = "rank-check"
RANDOM_BASELINE = "random-baseline"


@dataclass(frozen=True)
class Supernets:
    """The supernets whose order is checked."""

    supernet: str = setting("run directory of the supernet")
    second_supernet: str = setting(
        "run directory of a supernet of another seed, to compare the two", ""
    )
    examples: int = setting("held-out examples; 0 takes all", 0, minimum=0)


@dataclass(frozen=True)
class Trainings:
    """The trainings from scratch that it is checked against."""

    steps: int = setting("of each training", minimum=1)
    architectures: int = setting("how many, K", 20, minimum=2)
    letter_sets: str = setting(
        "sets of letters to draw from, separated by commas; empty: all the supernet's, "
        "for half of the architectures, and every pair",
        "",
    )
    training_seeds: int = setting(
        "trainings of each; the second gives the noise ceiling", 2, minimum=1
    )
    batch_size: int = setting("examples a step; 0: the supernet's", 0, minimum=0)
    learning_rate: float = setting("peak; 0: the supernet's", 0.0, minimum=0.0)
    seed: int = setting("of the architectures", 0, minimum=0)


@dataclass(frozen=True)
class StudyData:
    """The data to train and score on."""

    directory: str = setting("a directory that `prepare` wrote")


@dataclass(frozen=True)
class RankCheckExperiment:
    """A configuration of the command ``rank-check``."""

    scoring: Supernets
    study: Trainings
    data: StudyData


RANK_CHECK_FLAGS = (
    Flag("--supernet", "scoring.supernet", path=True, metavar="RUN_DIR"),
    Flag("--second-supernet", "scoring.second_supernet", path=True, metavar="RUN_DIR"),
    Flag("--examples", "scoring.examples"),
    Flag("--data", "data.directory", path=True, metavar="DIR"),
    Flag("--architectures", "study.architectures"),
    Flag("--steps", "study.steps"),
    Flag("--letter-sets", "study.letter_sets"),
    Flag("--training-seeds", "study.training_seeds"),
    Flag("--batch-size", "study.batch_size"),
    Flag("--learning-rate", "study.learning_rate"),
    Flag("--seed", "study.seed"),
)


@dataclass(frozen=True)
class Sizes:
    """Where sizes, schedule and data come from; one of the two is given."""

    run_dir: str = setting("run directory of a supernet", "")
    config: str = setting(
        "a configuration of `supernet`, which need not be trained", ""
    )


@dataclass(frozen=True)
class Baseline:
    """The random architectures and their training."""

    architectures: int = setting("how many", 5, minimum=1)
    letters: str = setting("layer types; empty: those of the supernet", "")
    steps: int = setting("of each training; 0: the supernet's", 0, minimum=0)
    batch_size: int = setting("examples a step; 0: the supernet's", 0, minimum=0)
    learning_rate: float = setting("peak", 5e-4, minimum=0.0)
    seed: int = setting("of architectures and training", 0, minimum=0)


@dataclass(frozen=True)
class BaselineData:
    """The data to train on."""

    directory: str = setting("a directory that `prepare` wrote; empty: theirs", "")


@dataclass(frozen=True)
class RandomBaselineExperiment:
    """A configuration of the command ``random-baseline``."""

    supernet: Sizes
    study: Baseline
    data: BaselineData


RANDOM_BASELINE_FLAGS = (
    Flag("--supernet", "supernet.run_dir", path=True, metavar="RUN_DIR"),
    Flag("--sizes", "supernet.config", path=True, metavar="FILE"),
    Flag("--data", "data.directory", path=True, metavar="DIR"),
    Flag("--architectures", "study.architectures"),
    Flag("--letters", "study.letters"),
    Flag("--steps", "study.steps"),
    Flag("--batch-size", "study.batch_size"),
    Flag("--learning-rate", "study.learning_rate"),
    Flag("--seed", "study.seed"),
)
