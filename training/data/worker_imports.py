"""What a worker process needs, imported once for all of them; see `worker_pool`."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import lvbert_tf.models.tokenizer  # noqa: F401
import training.data.worker_pool  # noqa: F401
