"""The optimizer and schedule of the paper, equal to the official code in value.

AdamW without bias correction: `m += (g - m)(1 - b1)`, `v += (g g - v)(1 - b2)`,
`w -= lr (m / (sqrt(v) + epsilon) + decay w)`; epsilon stands outside the root. The
gradient is clipped by its global norm after it was summed over replicas.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lvbert_tf.distribution import local_variable, sum_over_replicas


@keras.saving.register_keras_serializable(package="lvbert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear decay to zero, multiplied by a linear warm-up from step 0.

    `lr(t) = learning_rate * max(0, 1 - t / total_steps) * min(1, t / warmup_steps)`

    Args:
        learning_rate: peak rate.
        total_steps: steps until the rate is 0.
        warmup_steps: steps of the warm-up; 0 for none, fractions allowed.

    Raises:
        ValueError: if `total_steps` is below 1 or `warmup_steps` negative.
    """

    def __init__(
        self, learning_rate: float, total_steps: int, warmup_steps: float = 0
    ) -> None:
        if total_steps < 1 or warmup_steps < 0:
            raise ValueError(
                "`total_steps` must be at least 1 and `warmup_steps` at least 0. "
                f"Received: total_steps={total_steps}, warmup_steps={warmup_steps}"
            )
        self.learning_rate = learning_rate
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute once: steps that are traced would not see another value.

        Raises:
            AttributeError: if the attribute is set already.
        """
        if name in self.__dict__:
            raise AttributeError(
                f"`{name}` of a schedule cannot change: make a new schedule and "
                f"optimizer. Received: {name}={value!r}"
            )
        super().__setattr__(name, value)

    def __call__(self, step: Any) -> Any:
        """Returns the rate (float32 scalar) of the step with that count before it."""
        step = tf.cast(step, tf.float32)
        rate = self.learning_rate * tf.maximum(0.0, 1.0 - step / self.total_steps)
        if self.warmup_steps:
            rate = rate * tf.minimum(1.0, step / self.warmup_steps)
        return rate

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            "learning_rate": self.learning_rate,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
        }


_SETTLED = (
    "decay",
    "beta_1",
    "beta_2",
    "epsilon",
    "clip_norm",
    "exclude_from_weight_decay",
    "learning_rate_multipliers",
    "clip_occurrences",
    "_learning_rate",
)
"""What a traced step of `AdamW` holds as constants."""


@keras.saving.register_keras_serializable(package="lvbert_tf")
class AdamW(keras.optimizers.Optimizer):
    """AdamW without bias correction, clipping the gradient summed over replicas.

    Works in `compile` + `fit`, and in a custom step: `take_step` sums over replicas,
    clips, updates and counts, and `apply` is that as Keras calls it. Every stage
    merges and clips by `sum_and_clip`; the supernet, which updates only the layers
    that a step sampled, calls it and `update` by themselves.

    Args:
        learning_rate: a float or a schedule; the schedule sees the step count before
            the increment.
        weight_decay: decoupled decay, multiplied by the learning rate.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment.
        clip_norm: largest global norm of a gradient; None for no clipping.
        exclude_from_weight_decay: regular expressions; variables whose path matches
            one are not decayed.
        learning_rate_multipliers: pairs of a regular expression and a factor; the
            first whose expression matches a variable's path counts (layer-wise decay).
        clip_occurrences: whether the norm of a gradient that is a `tf.IndexedSlices`
            is that of its rows before rows of one token are summed, as in the official
            fine-tuning (see `gradient_of_occurrences`). It differs from the norm of
            the gradient itself, which the default takes.
        name: name of the optimizer.
    """

    def __init__(
        self,
        learning_rate: Any = 5e-4,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        clip_norm: float | None = 1.0,
        exclude_from_weight_decay: Iterable[str] = ("layer_norm", "bias"),
        learning_rate_multipliers: Iterable[tuple[str, float]] = (),
        clip_occurrences: bool = False,
        name: str = "lvbert_adamw",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.decay = weight_decay
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.clip_norm = clip_norm
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)
        self.learning_rate_multipliers = tuple(
            (pattern, float(factor)) for pattern, factor in learning_rate_multipliers
        )
        self.clip_occurrences = clip_occurrences

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute, unless traced steps may hold it as a constant.

        Raises:
            AttributeError: for such an attribute of an optimizer that is built. A float
                `learning_rate` is a variable, and can be set at any time.
        """
        if name in _SETTLED and self.__dict__.get("built", False):
            name = name.removeprefix("_")
            raise AttributeError(
                f"`{name}` is settled once the optimizer is built: steps that are "
                "traced already would not see another one. Make a new optimizer and "
                f"`compile` with it. Received: {name}={value!r}"
            )
        super().__setattr__(name, value)

    def build(self, variables: Sequence[Any]) -> None:
        """Creates two moments for every variable."""
        if self.built:
            return
        super().build(variables)
        self._first = self.add_optimizer_variables(variables, "first_moment")
        self._second = self.add_optimizer_variables(variables, "second_moment")

    def decays(self, variable: Any) -> bool:
        """Returns whether the variable is subject to weight decay."""
        return not any(
            re.search(pattern, variable.path)
            for pattern in self.exclude_from_weight_decay
        )

    def learning_rate_multiplier(self, variable: Any) -> float:
        """Returns the factor of the variable's learning rate."""
        for pattern, factor in self.learning_rate_multipliers:
            if re.search(pattern, variable.path):
                return factor
        return 1.0

    def current_learning_rate(self) -> Any:
        """Returns the learning rate (float32 scalar) of the next update."""
        return tf.cast(self._get_current_learning_rate(), tf.float32)

    def learning_rate_after(self, norm: Any) -> Any:
        """Returns the learning rate, which is not had before the gradient's norm is.

        Weight decay takes nothing but the rate: a step that fails on its way to the
        gradients must not have decayed anything.
        """
        with tf.control_dependencies([norm]):
            return tf.identity(self.current_learning_rate())

    def sum_and_clip(self, gradients: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """Merges gradients, sums them over replicas, finds how far to scale them down.

        The one place where that happens, in every stage: a `tf.IndexedSlices` becomes
        dense here, so that rows of one token are one row before any moment sees them.

        Args:
            gradients: this replica's, float32, of any shapes.

        Returns:
            The summed gradients; the float32 factor to multiply them by; their global
            norm before that.
        """
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        summed = sum_over_replicas(dense)
        # L2Loss is half the sum of squares, in one pass without a temporary.
        halves = [tf.nn.l2_loss(gradient) for gradient in summed]
        if self.clip_occurrences:
            sparse = [
                place
                for place, gradient in enumerate(gradients)
                if isinstance(gradient, tf.IndexedSlices)
            ]
            rows = [tf.nn.l2_loss(gradients[place].values) for place in sparse]
            totals = sum_over_replicas(rows) if rows else []
            for place, half in zip(sparse, totals, strict=True):
                halves[place] = half
        norm = tf.sqrt(2.0 * tf.add_n(halves))
        if self.clip_norm is None:
            return summed, tf.constant(1.0), norm
        # A non-finite norm must reach the weights as NaN, never as a silent zero.
        return summed, self.clip_norm / tf.maximum(norm, self.clip_norm), norm

    def slots(self, variable: Any) -> tuple[Any, Any]:
        """Returns the two moments of a variable."""
        index = self._get_variable_index(variable)
        return self._first[index], self._second[index]

    def updater(self, variable: Any) -> Callable[[Any, Any, Any, Any, Any, Any], None]:
        """Returns a function that updates one variable, or any other like it.

        It takes `(weights, first, second, gradient, scale, learning_rate)`, the first
        three `tf.Variable`s local to the replica, and decides nothing itself, so that
        one traced function can serve all layers of a kind.
        """
        decay = self.decay if self.decays(variable) else 0.0
        factor = self.learning_rate_multiplier(variable)
        first_scale = (1.0 - float(np.float32(self.beta_1))) / (1.0 - self.beta_1)
        second_scale = (
            (1.0 - float(np.float32(self.beta_2))) / (1.0 - self.beta_2)
        ) ** 0.5

        def update(
            weights: Any,
            first: Any,
            second: Any,
            gradient: Any,
            scale: Any,
            learning_rate: Any,
        ) -> None:
            rate = learning_rate * factor
            if decay:
                value = tf.raw_ops.ReadVariableOp(
                    resource=weights.handle, dtype=weights.dtype
                )
                tf.raw_ops.AssignSubVariableOp(
                    resource=weights.handle, value=value * (rate * decay)
                )
            # With both powers 0 the fused operation corrects no bias. It takes 1 - beta
            # from the float32 beta, which is 1.3e-5 off for 0.999 and scales the
            # moments by a constant: rate and epsilon make up for that.
            tf.raw_ops.ResourceApplyAdam(
                var=weights.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=0.0,
                beta2_power=0.0,
                lr=rate * (second_scale / first_scale),
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon * second_scale,
                grad=gradient * scale,
            )

        return update

    def update(
        self,
        variables: Sequence[Any],
        gradients: Sequence[Any],
        scale: Any,
        learning_rate: Any,
    ) -> None:
        """Updates variables with gradients that are summed over replicas already."""
        for variable, gradient in zip(variables, gradients, strict=True):
            first, second = self.slots(variable)
            self.updater(variable)(
                local_variable(variable),
                local_variable(first),
                local_variable(second),
                gradient,
                scale,
                learning_rate,
            )

    def finish_step(self) -> None:
        """Counts one step."""
        tf.raw_ops.AssignAddVariableOp(
            resource=local_variable(self.iterations).handle,
            value=tf.ones([], local_variable(self.iterations).dtype),
        )

    def take_step(
        self, variables: Sequence[Any], gradients: Sequence[Any]
    ) -> tuple[Any, Any]:
        """Sums over replicas, clips, updates and counts the step.

        Args:
            variables: the variables that take part.
            gradients: this replica's, one for each of them.

        Returns:
            The gradient's global norm before clipping, and the learning rate.
        """
        summed, scale, norm = self.sum_and_clip(gradients)
        rate = self.learning_rate_after(norm)
        self.update(variables, summed, scale, rate)
        with tf.control_dependencies([norm]):
            self.finish_step()
        return norm, rate

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Takes a step as Keras calls it; see `take_step`.

        Args:
            grads: this replica's gradients; None where a variable took no part, which
                then keeps its value and moments.
            trainable_variables: the variables; those of `build` by default.

        Returns:
            The step count after the update.

        Raises:
            ValueError: if no variable has a gradient.
        """
        grads = list(grads)
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        trainable_variables = list(trainable_variables)
        self.build(trainable_variables)
        pairs = [
            (gradient, variable)
            for gradient, variable in zip(grads, trainable_variables, strict=True)
            if gradient is not None
        ]
        if not pairs:
            raise ValueError(
                "`grads` must hold a gradient for one variable at least. Received: "
                f"None for each of {len(grads)} variables"
            )
        self.take_step(
            [variable for _, variable in pairs], [gradient for gradient, _ in pairs]
        )
        return self.iterations

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config = super().get_config()
        return {
            "name": config["name"],
            "learning_rate": config["learning_rate"],
            "weight_decay": self.decay,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "clip_norm": self.clip_norm,
            "exclude_from_weight_decay": list(self.exclude_from_weight_decay),
            "learning_rate_multipliers": [
                list(pair) for pair in self.learning_rate_multipliers
            ],
            "clip_occurrences": self.clip_occurrences,
        }
