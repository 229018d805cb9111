"""Twenty training steps on one device, two devices or two processes.

Usage: ``python -m tests.lvbert_tf.distributed_training KIND OPTIMIZER STRATEGY OUTPUT``
with STRATEGY `one`, `mirrored` or `workers` (with TF_CONFIG). It writes every copy of
every weight, and the figures of the last step, into an npz file.
"""

import json
import sys
from typing import Any

import numpy as np
import tensorflow as tf

KIND, OPTIMIZER, STRATEGY, OUTPUT = sys.argv[1:]
# Both must come before TensorFlow starts.
if STRATEGY == "mirrored":
    cpus = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
if STRATEGY == "workers":
    strategy: Any = tf.distribute.MultiWorkerMirroredStrategy()
elif STRATEGY == "mirrored":
    strategy = tf.distribute.MirroredStrategy(
        [device.name for device in tf.config.list_logical_devices("CPU")]
    )
else:
    strategy = tf.distribute.get_strategy()

import keras  # noqa: E402

import lvbert_tf  # noqa: E402
from lvbert_tf.optimization import AdamW  # noqa: E402
from tests.lvbert_tf.batches import TINY_SIZES, VOCABULARY_SIZE, pretraining_batch  # noqa: E402

STEPS = 20
SIZES = {**TINY_SIZES, "dropout": 0.0, "attention_dropout": 0.0}


def optimizer() -> AdamW:
    """Returns the optimizer; clipping is active in every step."""
    if OPTIMIZER == "adamw":
        # The paper's rate for the supernet. Adam divides a gradient by its own size, so
        # elements whose gradient is rounding noise differ by a share of the rate.
        return AdamW(2e-4, weight_decay=0.1, clip_norm=0.1)
    # Without a second moment: plain SGD, which shows a wrong scale that Adam hides.
    return AdamW(
        1e-2, weight_decay=0.0, beta_1=0.0, beta_2=0.0, epsilon=1e3, clip_norm=0.1
    )


def build() -> Any:
    """Returns the compiled model."""
    keras.utils.set_random_seed(1)
    if KIND == "supernet":
        model = lvbert_tf.LVBertSupernet(VOCABULARY_SIZE, num_layers=3, **SIZES)
    else:
        backbone = lvbert_tf.LVBertBackbone(VOCABULARY_SIZE, "csf", **SIZES)
        model = lvbert_tf.LVBertElectra(backbone, 0.5)
    model.compile(optimizer=optimizer())
    model.optimizer.build(model.trainable_variables)
    return model


def batch(step: int, part: int | None = None) -> dict[str, Any]:
    """Returns the global batch of a step, or one half of it."""
    route = [step % 3, (step + 1) % 3, 0]
    whole = pretraining_batch(step, rows=8, route=route, step=step)
    if part is None:
        return whole
    return {name: value[4 * part : 4 * part + 4] for name, value in whole.items()}


def main() -> None:
    """Trains and writes."""
    with strategy.scope():
        model = build()

    @tf.function
    def step(parts: Any) -> Any:
        return strategy.run(model.train_step, args=(parts,))

    for i in range(STEPS):
        if strategy.num_replicas_in_sync == 1:
            figures = step(batch(i))
        else:
            figures = step(
                strategy.experimental_distribute_values_from_function(
                    lambda context, i=i: batch(i, context.replica_id_in_sync_group)
                )
            )
    local = strategy.experimental_local_results
    copies = {
        f"{variable.path}@{copy}": value.numpy()
        for variable in model.trainable_variables
        for copy, value in enumerate(local(variable.value))
    }
    last = {name: float(local(value)[0]) for name, value in figures.items()}
    np.savez(OUTPUT, figures=json.dumps(last), **copies)


if __name__ == "__main__":
    main()
