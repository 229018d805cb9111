"""What the user's words mean: architectures."""

from typing import TYPE_CHECKING

from common.command_line import UsageError

if TYPE_CHECKING:
    from lvbert_tf import Architecture


def parse(spec: str) -> "Architecture":
    """Returns the architecture of a command-line argument.

    Raises:
        UsageError: if it is none.
    """
    from lvbert_tf import Architecture

    try:
        return Architecture.parse(spec)
    except ValueError as error:
        raise UsageError(f"--architecture: {error}") from error
