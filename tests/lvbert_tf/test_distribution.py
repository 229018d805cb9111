"""Training steps under tf.distribute equal those of one device."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.paths import REPOSITORY

pytestmark = pytest.mark.multi_device

# Two logical devices must be configured before TensorFlow starts.
PROGRAM = """
import json, sys
import numpy as np
import tensorflow as tf

kind, optimizer_name = sys.argv[1:]
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
import keras
import lvbert_tf
from lvbert_tf.optimization import AdamW
from tests.lvbert_tf.batches import VOCABULARY_SIZE, pretraining_batch


def optimizer():
    if optimizer_name == "adamw":
        # The paper's rate for the supernet. Adam divides a gradient by its own size, so
        # elements whose gradient is rounding noise differ by a share of the rate.
        return AdamW(2e-4, weight_decay=0.1, clip_norm=0.1)
    # Without a second moment: plain SGD, which shows a wrong scale that Adam hides.
    return AdamW(1e-2, weight_decay=0.0, beta_1=0.0, beta_2=0.0, epsilon=1e3,
                 clip_norm=0.1)


def model():
    keras.utils.set_random_seed(1)
    sizes = dict(embedding_dim=8, hidden_dim=16, intermediate_dim=32, num_heads=2,
                 dropout=0.0, attention_dropout=0.0, max_sequence_length=32)
    if kind == "supernet":
        made = lvbert_tf.LVBertSupernet(VOCABULARY_SIZE, num_layers=3, **sizes)
    else:
        made = lvbert_tf.LVBertElectra(
            lvbert_tf.LVBertBackbone(VOCABULARY_SIZE, "csf", **sizes), 0.5)
    made.compile(optimizer=optimizer())
    made.optimizer.build(made.trainable_variables)
    return made


def batch(step, part=None):
    route = [step % 3, (step + 1) % 3, 0]
    whole = pretraining_batch(step, rows=8, route=route, step=step)
    if part is None:
        return whole
    return {k: v[4 * part : 4 * part + 4] for k, v in whole.items()}


def train(strategy, steps=20):
    with strategy.scope():
        made = model()

    @tf.function
    def step(parts):
        return strategy.run(made.train_step, args=(parts,))

    for i in range(steps):
        if strategy.num_replicas_in_sync == 1:
            metrics = step(batch(i))
        else:
            values = strategy.experimental_distribute_values_from_function(
                lambda context: batch(i, context.replica_id_in_sync_group)
            )
            metrics = step(values)
    local = {k: float(strategy.experimental_local_results(v)[0])
             for k, v in metrics.items()}
    copies = [
        [c.numpy() for c in strategy.experimental_local_results(v.value)]
        for v in made.trainable_variables
    ]
    return copies, local


alone, figures = train(tf.distribute.get_strategy())
devices = tf.config.list_logical_devices("CPU")
together, mirrored = train(tf.distribute.MirroredStrategy([d.name for d in devices]))
print(json.dumps({
    "difference": max(float(np.abs(a[0] - b[0]).max())
                      for a, b in zip(alone, together)),
    "between_replicas": max(float(np.abs(b[0] - b[1]).max()) for b in together),
    "copies": len(together[0]),
    "alone": figures,
    "mirrored": mirrored,
}))
"""


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [
        ("supernet", "sgd"),
        ("electra", "adamw"),
        pytest.param("supernet", "adamw", marks=pytest.mark.slow),
        pytest.param("electra", "sgd", marks=pytest.mark.slow),
    ],
)
def test_two_devices_equal_one(kind: str, optimizer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, optimizer],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["copies"] == 2
    assert result["between_replicas"] == 0.0
    # The sums over a batch are taken in another order.
    assert result["difference"] <= 1e-5
    for name, value in result["alone"].items():
        assert result["mirrored"][name] == pytest.approx(value, rel=1e-4), name
    assert np.isfinite(result["alone"]["loss"])
