"""The command ``lvbert``: describe architectures and models, convert checkpoints."""

from collections.abc import Sequence

from lvbert_tf.command_line import Command, run_application

COMMANDS = {
    "describe": Command(
        "lvbert_tf.cli.describe",
        "show an architecture's (or a model directory's) layers, parameters and FLOPs",
    ),
    "convert": Command(
        "lvbert_tf.cli.convert", "turn a checkpoint of others into a model directory"
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name; returns the exit status."""
    return run_application(
        "lvbert", "LV-BERT architectures and checkpoints.", COMMANDS, argv
    )
