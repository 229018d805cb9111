"""The training application: from raw text to a fine-tuned model.

Run it with ``python -m training COMMAND``; ``python -m training --help`` lists the
commands. It is an application, not a library: nothing outside this folder imports it.
"""

import os

# TensorFlow reads this once, when it is first imported. A missing GPU driver is an
# error to it; such lines would bury the progress bar. What fails still raises.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
