"""``python -m lvbert_tf.cli``: the command ``lvbert`` where it is not installed."""

import sys

from lvbert_tf.cli import main

sys.exit(main())
