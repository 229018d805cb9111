"""Fits a classifier on one device and on two, with the optimizers that Keras has.

Run as a process of its own: logical devices are made before TensorFlow starts. Prints
the largest difference between the weights by optimizer, as JSON; by `fit`, and by a
loop as users write it (`by_hand`).
"""

import json
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


def weights_by_hand(name: str, strategy: Any) -> list[np.ndarray]:
    """Trains by `strategy.run` on a dataset of ids that the strategy deals out."""
    with strategy.scope():
        model = classifier("csf")
        optimizer = OPTIMIZERS[name]()
        optimizer.build(model.trainable_variables)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, CLASSES)).batch(8)
    data = strategy.experimental_distribute_dataset(data.map(model.preprocessor))

    def replica_step(inputs: Any, classes: Any) -> None:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(
                classes, model(inputs, training=True), from_logits=True
            )
            loss = tf.reduce_sum(losses) / 8
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [v.value for v in variables])
        optimizer.apply(gradients, variables)

    @tf.function
    def step(inputs: Any, classes: Any) -> None:
        strategy.run(replica_step, args=(inputs, classes))

    for _ in range(3):
        for inputs, classes in data:
            step(inputs, classes)
    return [np.asarray(v) for v in model.trainable_variables]


if __name__ == "__main__":
    differences = {}
    both = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    runs = [(name, weights_after) for name in OPTIMIZERS]
    runs += [(name, weights_by_hand) for name in ("sgd", "adam", "ours")]
    for optimizer, train in runs:
        one = train(optimizer, tf.distribute.get_strategy())
        two = train(optimizer, both)
        pairs = zip(one, two, strict=True)
        way = "fit" if train is weights_after else "by_hand"
        differences[f"{optimizer} {way}"] = max(
            float(np.abs(a - b).max()) for a, b in pairs
        )
    print(json.dumps(differences))
