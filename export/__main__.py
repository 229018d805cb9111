"""``python -m export saved-model | onnx | file | quantize | check``."""

import os
import sys

from common.command_line import Command, run_application

COMMANDS = {
    "saved-model": Command(
        "export.commands.saved_model", "write a version for TensorFlow Serving"
    ),
    "onnx": Command(
        "export.commands.onnx_graph",
        "write an ONNX graph with its tokenizer and labels",
    ),
    "file": Command(
        "export.commands.file", "write one file: .keras, safetensors or LiteRT"
    ),
    "quantize": Command(
        "export.commands.quantize", "shrink an ONNX artefact to 8-bit weights"
    ),
    "check": Command(
        "export.commands.check", "compare an artefact with the model it came from"
    ),
}


def main() -> int:
    """Runs the command that the process's arguments name."""
    # TensorFlow's remarks about the machine would bury what a command says.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return run_application(
        "python -m export",
        "Export a model and compare the artefact with Keras.",
        COMMANDS,
    )


if __name__ == "__main__":
    sys.exit(main())
