"""On which devices a stage computes, and how a global batch is split over them."""

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from common.command_line import CommandError, UsageError

if TYPE_CHECKING:
    import tensorflow as tf

Batch = dict[str, Any]


@dataclass(frozen=True)
class Distribution:
    """A strategy and this process's place in it.

    Attributes:
        strategy: the `tf.distribute.Strategy`.
        worker: index of this process among the workers.
        num_workers: processes that train together.
        deterministic: whether operations were made deterministic.
    """

    strategy: "tf.distribute.Strategy"
    worker: int = 0
    num_workers: int = 1
    deterministic: bool = False

    @property
    def is_chief(self) -> bool:
        """Whether this process writes what all share."""
        return self.worker == 0

    @property
    def num_replicas(self) -> int:
        """Devices over all workers."""
        return int(self.strategy.num_replicas_in_sync)

    def check_batch_size(self, batch_size: int) -> None:
        """Raises UsageError if the batch does not split evenly over the devices."""
        if batch_size % self.num_replicas:
            raise UsageError(
                f"run.batch_size must be a multiple of the {self.num_replicas} "
                f"devices of the strategy, found {batch_size}"
            )

    def distribute(self, worker_batches: "tf.data.Dataset") -> Any:
        """Splits this worker's batches over its replicas.

        Args:
            worker_batches: batches of this worker's rows of the global batch, every
                tensor of static shape (B / workers, ...).

        Returns:
            What `iter` and `strategy.run` take: one element per replica and step.
        """
        import tensorflow as tf

        replicas = self.num_replicas // self.num_workers
        if self.num_replicas == 1:
            return worker_batches

        def split(batch: Batch) -> "tf.data.Dataset":
            return tf.data.Dataset.from_tensor_slices(
                {
                    name: tf.reshape(
                        value,
                        (replicas, value.shape[0] // replicas, *value.shape[1:]),
                    )
                    for name, value in batch.items()
                }
            )

        # Not experimental_distribute_dataset: its automatic sharding decides by itself
        # which worker sees which rows; here the caller has decided.
        per_replica = worker_batches.flat_map(split).prefetch(2 * replicas)
        return self.strategy.distribute_datasets_from_function(lambda _: per_replica)


def set_up(
    *,
    strategy: str = "auto",
    logical_cpus: int = 1,
    deterministic: str = "auto",
    precision: str = "float32",
    seed: int = 0,
) -> Distribution:
    """Prepares TensorFlow for a stage: devices, determinism, seed, number format.

    Call it before anything else of TensorFlow runs.

    Args:
        strategy: `"auto"` (all GPUs of this machine if there are several, else one
            device), `"one_device"`, `"mirrored"` (all GPUs, or `logical_cpus` CPU
            devices), `"multi_worker"` (the workers that the environment variable
            TF_CONFIG lists) or `"tpu"` (one host's TPU, that of this machine or the one
            that TPU_NAME names).
        logical_cpus: devices to split the CPU into.
        deterministic: `"on"`, `"off"`, or `"auto"`: on where there are only CPUs.
        precision: Keras dtype policy of the layers.
        seed: seeds Python, NumPy and TensorFlow, for what draws from a global state;
            training itself derives its draws from the step.

    Returns:
        The strategy and this process's place in it.

    Raises:
        UsageError: if TF_CONFIG is missing or malformed.
        CommandError: if TensorFlow already runs with other devices, or no TPU answers.
    """
    import keras
    import tensorflow as tf

    if logical_cpus > 1:
        _split_cpu(logical_cpus)
    worker, num_workers = 0, 1
    chosen: tf.distribute.Strategy
    gpus = tf.config.list_physical_devices("GPU")
    if strategy == "multi_worker":
        # Its collective operations must be set up before anything starts the runtime.
        worker, num_workers = place_in_cluster()
        chosen = tf.distribute.MultiWorkerMirroredStrategy()
    elif strategy == "tpu":
        chosen = _connect_tpu(os.environ.get("TPU_NAME", "local"))
    elif strategy == "mirrored" or (strategy == "auto" and len(gpus) > 1):
        devices = tf.config.list_logical_devices("GPU")
        chosen = tf.distribute.MirroredStrategy(
            devices or tf.config.list_logical_devices("CPU")[:logical_cpus],
            # NCCL is for GPUs only.
            cross_device_ops=None if gpus else tf.distribute.ReductionToOneDevice(),
        )
    else:
        # The default strategy of one device costs nothing inside tf.function.
        chosen = tf.distribute.get_strategy()
    only_cpus = not gpus and strategy != "tpu"
    is_deterministic = deterministic == "on" or (deterministic == "auto" and only_cpus)
    keras.utils.set_random_seed(seed)
    if is_deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy(precision)
    return Distribution(chosen, worker, num_workers, is_deterministic)


def _split_cpu(count: int) -> None:
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError as error:
        if len(tf.config.list_logical_devices("CPU")) < count:
            raise CommandError(
                f"run.logical_cpus: expected TensorFlow to be free to make {count} CPU "
                "devices, found it running already"
            ) from error


def _connect_tpu(name: str) -> "tf.distribute.Strategy":
    """Returns the strategy of all cores of one host's TPU.

    Raises:
        CommandError: if none answers, or if it has several hosts.
    """
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(name)
        strategy = tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise CommandError(
            f"run.strategy = tpu: expected the TPU {name!r} (environment variable "
            f"TPU_NAME; `local` is this machine's), found none that answers: {reason}"
        ) from error
    hosts = int(strategy.extended.num_hosts)
    if hosts > 1:
        # Every host would draw the same rows of a batch.
        raise CommandError(
            f"run.strategy = tpu: expected a TPU of one host, found {name!r} with "
            f"{hosts}"
        )
    return strategy


def place_in_cluster() -> tuple[int, int]:
    """Returns (index of this worker, number of workers) from TF_CONFIG.

    Raises:
        UsageError: if the variable is missing or malformed.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        raise UsageError(
            "run.strategy = multi_worker: expected the environment variable TF_CONFIG "
            "with the cluster's workers and this process's task; it is not set"
        )
    try:
        content = json.loads(text)
        workers = content["cluster"]["worker"]
        task = content["task"]
        index = int(task["index"])
        sound = (
            set(content["cluster"]) == {"worker"}
            and task["type"] == "worker"
            and 0 <= index < len(workers)
        )
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise UsageError(
            'TF_CONFIG: expected {"cluster": {"worker": ["host:port", ...]}, "task": '
            f'{{"type": "worker", "index": 0}}}} with the index of one of the workers, '
            f"found {text!r}"
        )
    return index, len(workers)
