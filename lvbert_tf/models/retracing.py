"""What a traced step read once: changing it takes effect, or is an error.

A traced function keeps the Python values and the optimizer that it met while it was
traced. What a model traces for itself (`fit`, an eager call) is traced again after a
change. A function that a caller traced cannot be found again: it fails at its next
call, instead of going on with what no longer holds.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tensorflow as tf

_GUARD = "_trace_guard"
_Model = TypeVar("_Model", bound=type[Any])


class _Guard:
    """Counts changes, for Python and for traced functions.

    Not an attribute that Keras or TensorFlow track: no checkpoint holds the count.
    """

    def __init__(self) -> None:
        self.count = 0
        with tf.init_scope():
            self.variable = tf.Variable(
                0,
                trainable=False,
                dtype=tf.int64,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    def change(self) -> None:
        self.count += 1
        with tf.init_scope():
            self.variable.assign(self.count)


def retraces(
    watched: tuple[str, ...] = (), fixed: tuple[str, ...] = ()
) -> Callable[[_Model], _Model]:
    """Returns a class decorator for models whose steps read Python attributes.

    Args:
        watched: attributes, besides `optimizer` and `run_seed`, that a step reads.
            Setting one to another value lets the model trace its own functions again
            (`forget_traces`, if it has one, is called).
        fixed: attributes that the weights were made for; setting one of them again
            raises `AttributeError`.
    """
    names = ("optimizer", "run_seed", *watched)

    def decorate(model_class: _Model) -> _Model:
        settable: Any = model_class
        inherited = settable.__setattr__

        def set_attribute(self: Any, name: str, value: Any) -> None:
            guard = self.__dict__.get(_GUARD)
            if guard is not None and name in fixed:
                raise AttributeError(
                    f"`{name}` is settled when a {type(self).__name__} is made: its "
                    f"weights depend on it. Received: {name}={value!r}"
                )
            if name not in names:
                inherited(self, name, value)
                return
            before = self.__dict__.get(name)
            inherited(self, name, value)
            if guard is not None and before is not value and before != value:
                guard.change()
                self.train_function = self.test_function = None
                forget = getattr(self, "forget_traces", None)
                if forget is not None:
                    forget()

        settable.__setattr__ = set_attribute
        settable.traced_attributes = names
        return model_class

    return decorate


def guard_traces(model: Any) -> None:
    """Begins to watch a model whose class has `retraces`; its constructor calls it."""
    model.__dict__[_GUARD] = _Guard()


def unchanged(model: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `batch`, of which nothing is had once the model changed after tracing.

    Args:
        model: one that `guard_traces` watches.
        batch: tensors by name.

    Raises:
        tf.errors.InvalidArgumentError: when a function traced before the change runs.
            XLA leaves such checks out of what it compiles.
    """
    if tf.executing_eagerly():
        return dict(batch)
    guard = model.__dict__[_GUARD]
    check = tf.debugging.assert_equal(
        guard.variable,
        tf.constant(guard.count, tf.int64),
        f"The {type(model).__name__} was changed after this function was traced (one "
        f"of {', '.join(model.traced_attributes)}, or another `compile`), and the "
        "function would go on with the old values. Make the `tf.function` anew.",
    )
    with tf.control_dependencies([check]):
        return {name: tf.identity(value) for name, value in batch.items()}
