"""The applications' way to the library's command frame.

Importing anything of `lvbert_tf` imports Keras and TensorFlow, so that its classes
are registered. Help and the serving client must come without that: this loads the
one light module `lvbert_tf/command_line.py` by its path, under its own name, so that
the exceptions are the same objects when the library is imported later.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lvbert_tf.command_line import (
        Command,
        CommandError,
        UsageError,
        at_least,
        json_safe,
        run_application,
    )
else:
    _NAME = "lvbert_tf.command_line"
    if _NAME not in sys.modules:
        _spec = spec_from_file_location(
            _NAME, Path(__file__).parent.parent / "lvbert_tf" / "command_line.py"
        )
        sys.modules[_NAME] = module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_NAME])
    _frame = sys.modules[_NAME]
    Command = _frame.Command
    CommandError = _frame.CommandError
    UsageError = _frame.UsageError
    at_least = _frame.at_least
    json_safe = _frame.json_safe
    run_application = _frame.run_application

__all__ = [
    "Command",
    "CommandError",
    "UsageError",
    "at_least",
    "json_safe",
    "run_application",
]
