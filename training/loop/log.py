"""What a training writes down: lines of JSON for us, summaries for TensorBoard."""

import orbit
import tensorflow as tf

from training.loop.plan import Figures
from training.run.directory import RunDirectory


class TrainingLog:
    """The log of a run, without what was logged after the step that it goes on from.

    Args:
        directory: of the run.
        counter: int64 scalar variable, the steps taken.
    """

    def __init__(self, directory: RunDirectory, counter: tf.Variable) -> None:
        directory.truncate(int(counter.numpy()))
        self._directory = directory
        self._summaries = {
            split: orbit.utils.SummaryManager(
                str(directory.tensorboard / split), tf.summary.scalar, counter
            )
            for split in ("train", "validation")
        }

    def train(self, step: int, means: Figures, timing: Figures) -> None:
        """Logs means of the training figures since the last line, and the rate.

        Args:
            step: steps taken.
            means: name to mean.
            timing: `steps`, `seconds`, `examples_per_second`; empty where no step was
                timed.
        """
        self._directory.append_metrics(step, "train", means)
        rates = {}
        if timing:
            self._directory.append_timing(step, timing)
            rates = {
                "examples_per_second": timing["examples_per_second"],
                "steps_per_second": timing["steps"] / timing["seconds"],
            }
        self._summarize("train", {**means, **rates})

    def validation(self, step: int, figures: Figures) -> None:
        """Logs the figures of an evaluation."""
        self._directory.append_metrics(step, "validation", figures)
        self._summarize("validation", figures)

    def was_evaluated(self, step: int) -> bool:
        """Returns whether the evaluation of a step was logged."""
        return any(
            record["step"] == step and record["split"] == "validation"
            for record in self._directory.metrics()
        )

    def examples_per_second(self, batch_size: int) -> float | None:
        """Returns the rate over all sessions, or None where no step was timed."""
        lines = self._directory.timing()
        seconds = sum(line["seconds"] for line in lines)
        steps = sum(line["steps"] for line in lines)
        return steps * batch_size / seconds if steps else None

    def _summarize(self, split: str, figures: Figures) -> None:
        scalars = _numbers(figures)
        self._summaries[split].write_summaries(scalars)
        self._summaries[split].flush()


def _numbers(figures: Figures) -> Figures:
    """Returns what can be drawn: an undefined figure and its reason cannot."""
    flat: Figures = {}
    for name, value in figures.items():
        if isinstance(value, dict):
            inner = _numbers(value)
            if inner:
                flat[name] = inner
        elif isinstance(value, (int, float)):
            flat[name] = value
    return flat
