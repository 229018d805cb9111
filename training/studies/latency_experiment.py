"""What the command ``latency`` can configure."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from training.run.flags import Flag
from training.run.settings import setting

if TYPE_CHECKING:
    from lvbert_tf.presets import ModelSize

LATENCY = "latency"
RUNTIMES = ("keras", "onnx", "onnx-int8")


@dataclass(frozen=True)
class TimedLayers:
    """The layers that are measured, and their widths."""

    size: str = setting(
        "the paper's model size", "small", choices=("small", "medium", "base")
    )
    letters: str = setting("layer types to measure", "csf")
    embedding_dim: int = setting("width of embeddings; 0: the size's", 0, minimum=0)
    hidden_dim: int = setting("width of the layers; 0: the size's", 0, minimum=0)
    intermediate_dim: int = setting(
        "inner width of feed-forward layers; 0: the size's", 0, minimum=0
    )
    num_heads: int = setting("heads; 0: the size's", 0, minimum=0)
    kernel_size: int = setting(
        "taps of dynamic convolutions; 0: the size's", 0, minimum=0
    )

    def sizes(self) -> "ModelSize":
        """Returns the widths, those of `size` where none is given."""
        from lvbert_tf.presets import model_size

        base = model_size(self.size)
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("size", "letters") and getattr(self, field.name)
        }
        return dataclasses.replace(base, **given)


@dataclass(frozen=True)
class TimedCall:
    """The call that is measured, and what runs it."""

    batch: int = setting("sequences at once", 1, minimum=1)
    sequence_length: int = setting("tokens of each", 128, minimum=1)
    runtime: str = setting(
        "what the model will run on: TensorFlow, or what `python -m export onnx` and "
        "`quantize` make of it, on onnxruntime",
        "keras",
        choices=RUNTIMES,
    )
    threads: int = setting(
        "threads for one call; 0: as many as the runtime takes", 0, minimum=0
    )


@dataclass(frozen=True)
class Timing:
    """How it is measured."""

    repeats: int = setting("measurements of each stack", 30, minimum=1)
    seed: int = setting("of weights and inputs", 0, minimum=0)


@dataclass(frozen=True)
class LatencyExperiment:
    """A configuration of the command ``latency``."""

    model: TimedLayers
    call: TimedCall
    study: Timing


LATENCY_FLAGS = (
    Flag("--size", "model.size"),
    Flag("--letters", "model.letters"),
    Flag("--batch", "call.batch"),
    Flag("--sequence-length", "call.sequence_length"),
    Flag("--runtime", "call.runtime"),
    Flag("--threads", "call.threads"),
    Flag("--repeats", "study.repeats"),
    Flag("--seed", "study.seed"),
)
