"""The quickstart's configuration: its own settings, and those of its stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from training.finetuning.experiment import FinetuneExperiment
from training.pretraining.experiment import PretrainExperiment, SupernetExperiment
from training.run import settings
from training.run.settings import Override, setting
from training.search.experiment import SearchExperiment

QUICKSTART = "quickstart"
DEFAULT_CONFIG = Path(__file__).parent.parent / "configs" / "quickstart.toml"
STAGE_KINDS: Mapping[str, type] = {
    "supernet": SupernetExperiment,
    "search": SearchExperiment,
    "pretrain": PretrainExperiment,
    "finetune": FinetuneExperiment,
}
"""The stages that a file configures, and their configurations."""

_SEEDS = {
    "supernet": "run.seed",
    "search": "algorithm.seed",
    "pretrain": "run.seed",
    "finetune": "run.seed",
}
_SCALED = {
    "supernet": "run.steps",
    "search": "scoring.examples",
    "pretrain": "run.steps",
}
_LEAST = {"run.steps": 20, "scoring.examples": 32}
# What a stage gets when it is its turn; until then anything that may stand there.
_LATER = {
    "supernet": {"data.directory": "."},
    "search": {"data.directory": ".", "scoring.supernet": "."},
    "pretrain": {"data.directory": ".", "model.architecture": "s"},
    "finetune": {"task.name": "tsv", "data.directory": ".", "model.directory": "."},
}


@dataclass(frozen=True)
class QuickData:
    """The text."""

    vocabulary_size: int = setting("entries of the vocabulary, V", 8000, minimum=100)
    held_out: float = setting(
        "share of the text for validation and search", 0.02, minimum=0.0, maximum=0.5
    )
    labelled_train: int = setting("labelled texts to fine-tune on", 12_000, minimum=2)
    labelled_held_out: int = setting("labelled texts to measure on", 1000, minimum=2)
    corpus: str = setting(
        "the user's corpus, paths separated by ':'; empty: the public reviews", ""
    )
    labelled: str = setting("the user's labelled TSV, or empty likewise", "")


@dataclass(frozen=True)
class QuickRun:
    """Seed, and how sizes scale."""

    seed: int = setting("decides everything random", 0, minimum=0)
    minutes: float = setting("what the stages together may take", 6.5, minimum=0.01)
    default_minutes: float = setting(
        "the minutes that the steps are for", 6.5, minimum=0.01
    )
    reference_gflops: float = setting(
        "float32 matmul rate of the machine that the steps are for", 100.0, minimum=0.1
    )
    gflops: float = setting("of this machine; 0: measure it", 0.0, minimum=0.0)


@dataclass(frozen=True)
class OwnSettings:
    """What is the quickstart's own."""

    data: QuickData
    run: QuickRun


@dataclass(frozen=True)
class QuickstartExperiment:
    """A configuration of the command ``quickstart``.

    Attributes:
        data: the text.
        run: seed and scale.
        source: the file, for messages.
        stages: the tables of each stage in it.
        overrides: settings of the stages given beside the file.
    """

    data: QuickData
    run: QuickRun
    source: str
    stages: Mapping[str, settings.Tables]
    overrides: Mapping[str, Sequence[Override]]

    @property
    def scale(self) -> float:
        """How many times the configured steps fit; a fast machine just ends sooner."""
        speed = min(1.0, self.run.gflops / self.run.reference_gflops)
        return speed * self.run.minutes / self.run.default_minutes

    def scaled(self, count: int, least: int = 1) -> int:
        """Returns a number of steps or examples as it fits this machine and time."""
        return max(least, round(count * self.scale))

    def stage(self, name: str, later: Mapping[str, Any] | None = None) -> Any:
        """Returns the configuration of a stage.

        Args:
            name: of the stage.
            later: what is known only when it is its turn, by ``section.key``.

        Raises:
            UsageError: naming the file or ``--set`` and the key that is wrong.
        """
        where = _LATER[name] if later is None else later
        fixed = {_SEEDS[name]: self.run.seed, **where}
        if name not in _SCALED:
            return self._load(name, fixed)
        first = self.unscaled(name)
        section, key = _SCALED[name].split(".")
        least = _LEAST[_SCALED[name]]
        count = self.scaled(getattr(getattr(first, section), key), least)
        derived = _short_run(count) if key == "steps" else {}
        given = self.given(name)
        fixed |= {k: v for k, v in derived.items() if k not in given}
        return self._load(name, {**fixed, _SCALED[name]: count})

    def unscaled(self, name: str) -> Any:
        """Returns the configuration of a stage as it is given."""
        fixed: dict[str, Any] = dict(_LATER[name])
        if _SCALED.get(name) == "run.steps":
            fixed |= {
                k: v for k, v in _short_run(0).items() if k not in self.given(name)
            }
        return self._load(name, fixed)

    def given(self, name: str) -> set[str]:
        """Returns which settings of a stage the file or an override gives."""
        tables = self.stages.get(name, {})
        return {
            *(f"{section}.{key}" for section in tables for key in tables[section]),
            *(override.key for override in self.overrides[name]),
        }

    def _load(self, name: str, fixed: Mapping[str, Any]) -> Any:
        return settings.from_tables(
            STAGE_KINDS[name],
            f"{self.source}: {name}",
            self.stages.get(name, {}),
            [
                *self.overrides[name],
                *(
                    Override(f"quickstart: {key}", key, settings.toml_value(value))
                    for key, value in fixed.items()
                ),
            ],
        )


def load(
    config: Path | None, overrides: Sequence[str], gflops: float
) -> QuickstartExperiment:
    """Reads the quickstart's configuration, and makes sure that its stages accept it.

    Args:
        config: a TOML file, by default the one in ``training/configs``.
        overrides: ``section.key=value`` or ``stage.section.key=value``.
        gflops: matmul rate of this machine, where no override gives it.

    Raises:
        UsageError: naming the file or ``--set`` and the key that is wrong.
    """
    file = config or DEFAULT_CONFIG
    tables = settings.read_stage(file, QUICKSTART)
    stages = {name: tables.pop(name) for name in STAGE_KINDS if name in tables}
    own = [f"run.gflops={gflops!r}"]
    of_stages: dict[str, list[Override]] = {name: [] for name in STAGE_KINDS}
    for override in overrides:
        stage, _, rest = override.partition(".")
        if stage in STAGE_KINDS:
            key, _, text = rest.partition("=")
            of_stages[stage].append(Override(f"--set {stage}.{key}", key, text))
        elif override.partition("=")[0].count(".") > 1:
            raise UsageError(
                f"--set {override}: expected a stage out of {', '.join(STAGE_KINDS)}"
            )
        else:
            own.append(override)
    mine = settings.from_tables(OwnSettings, str(file), tables, own)
    quickstart = QuickstartExperiment(mine.data, mine.run, str(file), stages, of_stages)
    for name in STAGE_KINDS:
        quickstart.stage(name)
    return quickstart


def to_toml(quickstart: QuickstartExperiment) -> str:
    """Writes the configuration as TOML that ``--config`` reads back as the same."""
    own = OwnSettings(quickstart.data, quickstart.run)
    lines = [settings.to_toml(own, QUICKSTART).rstrip("\n")]
    for name, kind in STAGE_KINDS.items():
        # As given, before scaling: it is scaled again where it is read.
        configuration = quickstart.unscaled(name)
        given = quickstart.given(name)
        for section in settings.section_types(kind):
            values = vars(getattr(configuration, section))
            rows = [
                f"{key} = {settings.toml_value(value)}"
                for key, value in values.items()
                if f"{section}.{key}" in given
            ]
            lines += ["", f"[{name}.{section}]", *rows] if rows else []
    return "\n".join(lines) + "\n"


def _short_run(steps: int) -> dict[str, int]:
    """Returns warm-up, and when a short run logs, evaluates and saves."""
    return {
        "optimizer.warmup_steps": steps // 10,
        "run.log_every": max(1, steps // 40),
        "run.evaluate_every": max(1, steps // 4),
        # Often: killed anywhere, the quickstart loses some seconds at most.
        "run.checkpoint_every": max(1, steps // 20),
    }
