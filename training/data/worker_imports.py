"""What a worker process needs, imported once for all of them; see `worker_pool`."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import lvbert_tf.models.tokenizer  # noqa: F401
import training.data.worker_pool  # noqa: F401
from training.data.parent_death import die_with_parent

# The server of the workers ends at once with the command; TensorFlow's own clearing up
# would take seconds.
die_with_parent()
