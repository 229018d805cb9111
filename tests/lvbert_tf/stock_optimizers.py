"""Fits a classifier on one device and on two, with the optimizers that Keras has.

Run as a process of its own: logical devices are made before TensorFlow starts. Prints
the largest difference between the weights by optimizer, as JSON.
"""

import json
import sys
from typing import Any

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

import keras  # noqa: E402
import numpy as np  # noqa: E402

from lvbert_tf.optimization import AdamW  # noqa: E402
from tests.lvbert_tf.models.tiny import classifier  # noqa: E402

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(1e-2, epsilon=1e-3),
    "adamw": lambda: keras.optimizers.AdamW(1e-2, epsilon=1e-3),
    "rmsprop": lambda: keras.optimizers.RMSprop(1e-2, epsilon=1e-3),
    "adagrad": lambda: keras.optimizers.Adagrad(1e-2, epsilon=1e-3),
    "nadam": lambda: keras.optimizers.Nadam(1e-2, epsilon=1e-3),
    "ours": lambda: AdamW(1e-2, epsilon=1e-3),
}
# Tokens that occur several times in a row, in both replicas' halves.
TEXTS = ["a a a a film", "the the bad plot a", "good good film", "a plot the plot"] * 2
CLASSES = [1, 0, 1, 0] * 2


def weights_after(name: str, strategy: Any) -> list[np.ndarray]:
    with strategy.scope():
        model = classifier("csf")
        model.compile(OPTIMIZERS[name]())
    model.fit(TEXTS, CLASSES, batch_size=8, epochs=3, shuffle=False, verbose=0)
    return [np.asarray(v) for v in model.trainable_variables]


if __name__ == "__main__":
    differences = {}
    for optimizer in sys.argv[1:] or OPTIMIZERS:
        one = weights_after(optimizer, tf.distribute.get_strategy())
        both = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        two = weights_after(optimizer, both)
        pairs = zip(one, two, strict=True)
        differences[optimizer] = max(float(np.abs(a - b).max()) for a, b in pairs)
    print(json.dumps(differences))
