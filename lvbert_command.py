"""The command ``lvbert``, without what it does not need.

Importing the package `lvbert_tf` imports Keras and TensorFlow, so that its classes are
registered. Help and ``lvbert describe`` are arithmetic: here the package stands as a
name only, through which its light modules are found.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec, module_from_spec


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name; returns the exit status."""
    _name_package()
    from lvbert_tf.cli import main as run

    return run(argv)


def _name_package() -> None:
    """Makes `lvbert_tf.architecture` and the like importable, and runs nothing."""
    if "lvbert_tf" in sys.modules:
        return
    spec = find_spec("lvbert_tf")
    if spec is None:
        raise ModuleNotFoundError("lvbert_tf is not installed")
    sys.modules["lvbert_tf"] = module_from_spec(spec)


if __name__ == "__main__":
    sys.exit(main())
