"""``python -m serving serve | predict | bench``."""

import sys

from common.command_line import Command, run_application

COMMANDS = {
    "serve": Command(
        "serving.serve", "serve SavedModels over the TensorFlow Serving API"
    ),
    "predict": Command("serving.predict", "ask a running server for predictions"),
    "bench": Command("serving.bench", "measure a running server"),
}


def main() -> int:
    """Runs the command that the process's arguments name."""
    return run_application(
        "python -m serving",
        "Serve exported models over REST and gRPC, ask them, measure them.",
        COMMANDS,
    )


if __name__ == "__main__":
    sys.exit(main())
