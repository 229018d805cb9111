"""What fine-tuning can configure; 0 or auto takes what suits task and model."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError
from common.labelled_tables.table import FORMAT_CHOICES, QUOTING_CHOICES
from training.finetuning.tasks import KINDS, TABLES, TASK_NAMES
from training.run import settings
from training.run.flags import Flag
from training.run.settings import Override, setting

FINETUNE = "finetune"


@dataclass(frozen=True)
class TaskSection:
    """Which task, and where a table of the user's own has what."""

    name: str = setting(
        "the task; tsv, csv and jsonl: a table of your own", choices=TASK_NAMES
    )
    kind: str = setting(
        "what a table of your own asks for; auto: classification, unless the labels "
        "look like scores or several classes, which is refused",
        "auto",
        choices=("auto", *KINDS),
    )
    text_column: str = setting("column of the texts", "text")
    pair_column: str = setting(
        "column of the second texts; empty: text_pair where there is one", ""
    )
    label_column: str = setting("column of the labels", "label")
    question_column: str = setting(
        "of a span task: column of the questions", "question"
    )
    context_column: str = setting("column of the texts that may answer", "context")
    answer_column: str = setting("column of the answers; empty cells: none", "answer")
    start_column: str = setting(
        "column of the characters where answers stand in their contexts", "answer_start"
    )
    label_separator: str = setting("between the classes of a multi_label cell", ",")
    format: str = setting(
        "of the table; auto: by the name of its file", "auto", choices=FORMAT_CHOICES
    )
    quoting: str = setting(
        "standard: quotes wrap cells; none: they are text; auto: standard for csv, for "
        "tsv found out and said",
        "auto",
        choices=QUOTING_CHOICES,
    )
    skip_bad_rows: bool = setting(
        "leave out rows that are not as expected, and count them", False
    )


@dataclass(frozen=True)
class DataSection:
    """The files."""

    directory: str = setting("directory of the task's files", "")
    train: str = setting("file to train on, in place of the directory's", "")
    dev: str = setting("file to measure on, in place of the directory's", "")


@dataclass(frozen=True)
class ModelSection:
    """Where the pretrained model lies."""

    directory: str = setting("model directory of `pretrain` or `extract`")


@dataclass(frozen=True)
class FinetuneOptimizer:
    """AdamW with linear warm-up and decay, slower towards the bottom layers."""

    learning_rate: float = setting(
        "peak learning rate of the head; 0: 3e-4, for hidden_dim from 768 on 1e-4 "
        "(2e-4 for SQuAD)",
        0.0,
        minimum=0.0,
    )
    layer_decay: float = setting(
        "factor of the learning rate from a pair of layers to the one below; 0: 0.8 "
        "for 24 layers or more of hidden_dim from 256 on, as in the paper, else 1",
        0.0,
        minimum=0.0,
        maximum=1.0,
    )
    warmup_fraction: float = setting(
        "share of the steps for the linear warm-up", 0.1, minimum=0.0, maximum=1.0
    )
    weight_decay: float = setting(
        "decoupled decay, not on LayerNorm and biases", 0.01, minimum=0.0
    )
    clip_norm: float = setting("global norm to clip gradients at", 1.0, minimum=1e-9)
    clip_occurrences: bool = setting(
        "take the norm of the token table's gradient before the rows of one token are "
        "summed, as the official code does",
        False,
    )
    retry_at_half_rate: bool = setting(
        "repeat a run that has not left chance by the end of its first epoch, once, "
        "with half the learning rate",
        False,
    )


@dataclass(frozen=True)
class FinetuneRun:
    """How long, how often."""

    runs: int = setting("runs with seeds seed, seed + 1, ...", 10, minimum=1)
    seed: int = setting("seed of the first run", 0, minimum=0)
    epochs: int = setting("times through the data; 0: the task's own", 0, minimum=0)
    batch_size: int = setting("examples per step, B", 32, minimum=1)
    sequence_length: int = setting(
        "tokens per example, T; 0: as the model was trained, for span tasks as many as "
        "it has positions, 512 at most",
        0,
        minimum=0,
    )
    dropout: float = setting(
        "dropout rate before the head", 0.1, minimum=0.0, maximum=0.9
    )
    both_orders: str = setting(
        "train on pairs in both orders; auto: MRPC and STS only",
        "auto",
        choices=("auto", "on", "off"),
    )
    bucketing: bool = setting(
        "batches of similar length, padded to their longest; never where padding moves "
        "outputs (mask_convolution = false)",
        True,
    )
    keep: str = setting(
        "which weights a run keeps: of its last epoch, or of its best one on dev",
        "last",
        choices=("last", "best"),
    )
    early_stopping: int = setting(
        "stop after so many epochs without a better figure on dev; 0: never",
        0,
        minimum=0,
    )
    class_weights: str = setting(
        "balanced: a class counts the more the rarer it is",
        "none",
        choices=("none", "balanced"),
    )
    label_smoothing: float = setting(
        "share of a target that is spread over all classes",
        0.0,
        minimum=0.0,
        maximum=0.99,
    )
    checkpoint_every: int = setting(
        "steps between states that a killed run goes on from", 500, minimum=1
    )
    keep_models: bool = setting("keep the model of every seed, not one", True)
    deterministic: str = setting(
        "bit-identical runs: auto is on where there are only CPUs",
        "auto",
        choices=("auto", "on", "off"),
    )
    precision: str = setting(
        "number format of the layers",
        "float32",
        choices=("float32", "mixed_bfloat16"),
    )


@dataclass(frozen=True)
class SpanSection:
    """Question answering."""

    stride: int = setting(
        "tokens from a window of a context to the next; 0: 128, less in small windows",
        0,
        minimum=0,
    )
    max_question_length: int = setting(
        "tokens that a question is cut to; 0: 64, less in small windows", 0, minimum=0
    )
    max_answer_length: int = setting("tokens of the longest answer", 30, minimum=1)
    beam_size: int = setting("starts that prediction considers", 20, minimum=1)


@dataclass(frozen=True)
class FinetuneExperiment:
    """A configuration of the command ``finetune``."""

    task: TaskSection
    data: DataSection
    model: ModelSection
    optimizer: FinetuneOptimizer
    run: FinetuneRun
    span: SpanSection

    def __post_init__(self) -> None:
        """Checks what only the settings together can say.

        Raises:
            ValueError: naming the settings.
        """
        if bool(self.data.train) != bool(self.data.dev) or (
            bool(self.data.directory) == bool(self.data.train)
        ):
            raise ValueError(
                "expected either data.directory (--data DIR), or data.train and "
                "data.dev (--train FILE --dev FILE), found "
                f"directory={self.data.directory!r}, train={self.data.train!r}, "
                f"dev={self.data.dev!r}"
            )
        if self.task.kind != "auto" and self.task.name not in TABLES:
            raise ValueError(
                f"task.kind is for tables of your own ({', '.join(TABLES)}), found "
                f"kind={self.task.kind} for {self.task.name}"
            )
        if self.run.early_stopping and self.run.keep != "best":
            raise ValueError(
                "run.early_stopping needs run.keep=best: the last weights are those "
                f"that are no better, found keep={self.run.keep}"
            )


FLAGS = (
    Flag("--task", "task.name"),
    Flag("--data", "data.directory", path=True, metavar="DIR"),
    Flag("--train", "data.train", metavar="FILE"),
    Flag("--dev", "data.dev", metavar="FILE"),
    Flag("--model", "model.directory", path=True, metavar="DIR"),
    Flag("--runs", "run.runs"),
    Flag("--seed", "run.seed"),
    Flag("--kind", "task.kind"),
    Flag("--text-column", "task.text_column", metavar="NAME"),
    Flag("--pair-column", "task.pair_column", metavar="NAME"),
    Flag("--label-column", "task.label_column", metavar="NAME"),
    Flag("--question-column", "task.question_column", metavar="NAME"),
    Flag("--context-column", "task.context_column", metavar="NAME"),
    Flag("--answer-column", "task.answer_column", metavar="NAME"),
    Flag("--format", "task.format"),
    Flag("--quoting", "task.quoting"),
    Flag("--skip-bad-rows", "task.skip_bad_rows"),
    Flag("--retry-at-half-rate", "optimizer.retry_at_half_rate"),
)
"""Short forms of settings."""

OFFICIAL = (
    "optimizer.layer_decay=0.8",
    "optimizer.clip_occurrences=true",
    "optimizer.retry_at_half_rate=false",
    "run.bucketing=false",
)
"""Where the defaults differ from the official code, its settings."""


def load(
    file: Path | None, overrides: Iterable[str | Override] = ()
) -> FinetuneExperiment:
    """Returns the experiment of a file and what changes it.

    Raises:
        UsageError: naming the file, flag or key that is wrong.
    """
    experiment = settings.load(FinetuneExperiment, FINETUNE, file, overrides)
    if experiment.optimizer.layer_decay and experiment.optimizer.layer_decay < 0.01:
        raise UsageError(
            "optimizer.layer_decay: expected 0 or at least 0.01, found "
            f"{experiment.optimizer.layer_decay}"
        )
    return experiment


def to_toml(experiment: FinetuneExperiment) -> str:
    """Writes an experiment as TOML that ``--config`` reads back unchanged."""
    return settings.to_toml(experiment, FINETUNE)
