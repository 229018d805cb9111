"""A function and its gradient as two functions, and what the second needs of the first.

TensorFlow differentiates a `tf.switch_case` through every branch's intermediate tensors
at once, each wrapped as an optional value: a graph that takes longer to optimise than
all layers. Here each branch is split beforehand, and the tensors between its halves
wait on stacks, from which the second half takes them one by one and frees them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

Stacks = dict[str, Any]
"""Handles of one stack for each dtype, by the dtype's name."""


@dataclass(frozen=True)
class TwoPasses:
    """The halves of `two_passes`.

    Attributes:
        forward: takes `(x, *others, *weights)`, returns `[y, *saved]`.
        backward: takes `(grad_y, *others, *weights, *saved)`, where `grad_y` is the
            gradient of y; returns `[grad_x, *grad_weights]`.
        saved: what `saved` is.
    """

    forward: Callable[..., list[Any]]
    backward: Callable[..., list[Any]]
    saved: tuple[tf.TensorSpec, ...]


def two_passes(
    function: Callable[..., Any],
    x: tf.TensorSpec,
    others: Sequence[tf.TensorSpec],
    weights: Sequence[tf.TensorSpec],
) -> TwoPasses:
    """Splits a function and its gradient.

    Args:
        function: takes `(x, *others, *weights)`, returns y, which is like x. It must
            have no effect besides.
        x: what it transforms; differentiated.
        others: inputs that have no gradient.
        weights: inputs that have one.
    """

    def both(x: Any, grad_y: Any, *rest: Any) -> list[Any]:
        y = function(x, *rest)
        grad_inputs = tf.gradients(
            y, [x, *rest[len(others) :]], grad_y, unconnected_gradients="zero"
        )
        return [y, *map(tf.convert_to_tensor, grad_inputs)]

    whole = tf.compat.v1.wrap_function(both, [x, x, *others, *weights])
    x_in, grad_y, *rest = whole.inputs[: 2 + len(others) + len(weights)]
    y, *grad_inputs = whole.outputs
    operations = whole.graph.get_operations()
    second = _depending(operations, [grad_y])
    # What is made of constants and weights alone is cheaper to make again than to keep.
    varying = _depending(operations, [x_in, *rest[: len(others)]])
    given = {tensor.ref() for tensor in rest}
    needed = [
        t for operation in operations if operation in second for t in operation.inputs
    ]
    saved = {
        tensor.ref(): tensor
        for tensor in (*needed, *grad_inputs)
        if tensor.op in varying - second and tensor.ref() not in given
    }
    between = list(saved.values())
    return TwoPasses(
        whole.prune([x_in, *rest], [y, *between]),
        whole.prune([grad_y, *rest, *between], grad_inputs),
        tuple(tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in between),
    )


def _depending(operations: Iterable[Any], roots: Iterable[Any]) -> set[Any]:
    """Returns the operations, given in order, that wait for one of the roots."""
    consumers = {tensor.op for tensor in roots}
    for operation in operations:
        sources = (*(t.op for t in operation.inputs), *operation.control_inputs)
        if not consumers.isdisjoint(sources):
            consumers.add(operation)
    return consumers


def make_stacks(passes: Iterable[TwoPasses]) -> Stacks:
    """Returns empty stacks for what any of `passes` saves; `free` must end them."""
    return {
        name: tf.raw_ops.StackV2(max_size=-1, elem_type=tf.as_dtype(name))
        for name in stack_specs(passes)
    }


def stack_specs(passes: Iterable[TwoPasses]) -> dict[str, tf.TensorSpec]:
    """Returns the specifications of what `make_stacks` returns."""
    names = {_stored(spec.dtype).name for each in passes for spec in each.saved}
    return {name: tf.TensorSpec(None, tf.resource) for name in sorted(names)}


def push(stacks: Stacks, tensors: Iterable[Any]) -> None:
    """Puts tensors on the stacks."""
    for tensor in tensors:
        dtype = _stored(tensor.dtype)
        tf.raw_ops.StackPushV2(
            handle=stacks[dtype.name], elem=tf.cast(tensor, dtype), swap_memory=False
        )


def pop(stacks: Stacks, specs: Sequence[tf.TensorSpec]) -> list[Any]:
    """Takes back what `push` put last.

    Args:
        stacks: what `push` had.
        specs: of the tensors, in the order in which they were pushed.
    """
    tensors = []
    for spec in reversed(specs):
        dtype = _stored(spec.dtype)
        tensor = tf.raw_ops.StackPopV2(handle=stacks[dtype.name], elem_type=dtype)
        tensors.append(tf.cast(tf.ensure_shape(tensor, spec.shape), spec.dtype))
    return tensors[::-1]


def free(stacks: Stacks) -> None:
    """Ends stacks, which TensorFlow would keep as long as the process lives."""
    for handle in stacks.values():
        tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=False)


def _stored(dtype: tf.DType) -> tf.DType:
    # A GPU keeps a stack's booleans in the host's memory.
    return tf.uint8 if dtype == tf.bool else dtype
