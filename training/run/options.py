"""Sections that every pretraining configuration has: data, optimizer, run."""

from dataclasses import dataclass

from training.run.settings import setting


@dataclass(frozen=True)
class Data:
    """Which records to read and how to mask them."""

    directory: str = setting("a directory that `prepare` wrote")
    sequence_length: int = setting("tokens per example, T", 128, minimum=8)
    mask_probability: float = setting(
        "share of tokens to predict", 0.15, minimum=0.001, maximum=0.9
    )
    validation_examples: int = setting(
        "held-out examples per evaluation; 0 takes all", 0, minimum=0
    )


@dataclass(frozen=True)
class Optimizer:
    """AdamW with linear warm-up and decay."""

    learning_rate: float = setting("peak learning rate", 5e-4, minimum=0.0)
    warmup_steps: int = setting("steps of linear warm-up", 10_000, minimum=0)
    weight_decay: float = setting(
        "decoupled decay, not on LayerNorm and biases", 0.01, minimum=0.0
    )
    clip_norm: float = setting("global norm to clip gradients at", 1.0, minimum=1e-9)


@dataclass(frozen=True)
class Run:
    """How long and on what to train, and what to write when."""

    steps: int = setting("optimizer steps", 1_000_000, minimum=1)
    batch_size: int = setting("examples per step over all devices, B", 128, minimum=1)
    seed: int = setting("decides routes, masks, dropout, order", 0, minimum=0)
    log_every: int = setting("steps between lines of metrics.jsonl", 100, minimum=1)
    evaluate_every: int = setting(
        "steps between evaluations on held-out data; 0 only at the end",
        10_000,
        minimum=0,
    )
    checkpoint_every: int = setting("steps between checkpoints", 1_000, minimum=1)
    keep_checkpoints: int = setting("latest checkpoints to keep", 3, minimum=1)
    reset_optimizer: bool = setting(
        "go on from the weights of a checkpoint whose optimizer holds other variables, "
        "with a fresh optimizer; without it that is an error",
        False,
    )
    strategy: str = setting(
        "devices: auto takes every GPU of this machine, or one device",
        "auto",
        choices=("auto", "one_device", "mirrored", "multi_worker", "tpu"),
    )
    logical_cpus: int = setting(
        "CPU devices to split one CPU into, for `mirrored` without GPUs",
        1,
        minimum=1,
        maximum=64,
    )
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
