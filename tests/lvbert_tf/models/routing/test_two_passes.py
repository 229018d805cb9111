"""A function in two halves: same values, same gradients, and little between them."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from lvbert_tf.models.routing.two_passes import (
    TwoPasses,
    free,
    make_stacks,
    pop,
    push,
    stack_specs,
    two_passes,
)

X = tf.TensorSpec((3, 4), tf.float32)
W = tf.TensorSpec((4, 4), tf.float32)
BIAS = tf.TensorSpec((4,), tf.float32)
SEED = tf.TensorSpec((2,), tf.int32)


def _function(x: Any, seed: Any, w: Any, bias: Any, unused: Any) -> Any:
    """Matmul, a mask drawn from a seed, and a scale made of weights alone."""
    keep = tf.random.stateless_uniform((3, 4), seed) >= 0.3
    scale = tf.exp(tf.reshape(bias, (1, 4)))
    return tf.where(keep, tf.tanh(x @ w), 0.0) * scale + x


def _halves() -> TwoPasses:
    return two_passes(_function, X, [SEED], [W, BIAS, BIAS])


def _inputs(seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    x, of_y, w = (
        draw.normal(size=s).astype("float32") for s in ((3, 4), (3, 4), (4, 4))
    )
    bias = draw.normal(size=4).astype("float32")
    return [*map(tf.constant, (x, of_y, w, bias))]


def test_the_halves_give_the_value_and_the_gradients() -> None:
    halves = _halves()
    x, of_y, w, bias = _inputs()
    seed, unused = tf.constant([1, 2]), tf.ones(4)
    with tf.GradientTape() as tape:
        tape.watch([x, w, bias])
        expected = _function(x, seed, w, bias, unused)
    expected_gradients = tape.gradient(expected, [x, w, bias], output_gradients=of_y)
    y, *saved = halves.forward(x, seed, w, bias, unused)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    found = halves.backward(of_y, seed, w, bias, unused, *saved)
    for ours, theirs in zip(found, expected_gradients, strict=False):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert len(found) == 4
    assert not np.any(found[-1]), "an unused weight has a gradient of zeros"


def test_only_what_depends_on_the_input_is_saved() -> None:
    halves = _halves()
    x, _, w, bias = _inputs()
    shapes = [tuple(spec.shape) for spec in halves.saved]
    # x for the weight's gradient, tanh's value, the mask, the masked value; not the
    # scale, which the weights give again.
    assert shapes == [(3, 4)] * len(shapes)
    assert len(shapes) <= 4
    assert tf.bool in {spec.dtype for spec in halves.saved}
    values = halves.forward(x, tf.constant([1, 2]), w, bias, tf.ones(4))[1:]
    assert [(v.shape, v.dtype) for v in values] == [
        (spec.shape, spec.dtype) for spec in halves.saved
    ]


def test_gradients_are_where_a_branch_saved_its_tensors() -> None:
    """The letter is data: each branch takes back what it put on the stacks."""
    doubled = two_passes(lambda x, seed, w, *_: 2 * (x @ w), X, [SEED], [W, BIAS, BIAS])
    both = [_halves(), doubled]
    x, of_y, w, bias = _inputs(1)
    seed, rest = tf.constant([1, 2]), tf.ones(4)

    @tf.function
    def step(letter: Any) -> Any:
        stacks = make_stacks(both)

        def forward(halves: TwoPasses) -> Any:
            y, *saved = halves.forward(x, seed, w, bias, rest)
            push(stacks, saved)
            return y

        def backward(halves: TwoPasses) -> Any:
            saved = pop(stacks, halves.saved)
            return halves.backward(of_y, seed, w, bias, rest, *saved)

        y = tf.switch_case(letter, [lambda h=h: forward(h) for h in both])
        with tf.control_dependencies([y]):
            return tf.switch_case(letter, [lambda h=h: backward(h) for h in both])

    for letter, halves in enumerate(both):
        saved = halves.forward(x, seed, w, bias, rest)[1:]
        expected = halves.backward(of_y, seed, w, bias, rest, *saved)
        found = step(tf.constant(letter))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert step.experimental_get_tracing_count() == 1


def test_stacks_return_every_dtype_in_order() -> None:
    tensors = [
        tf.constant([[1.5, 2.5]]),
        tf.constant([True, False]),
        tf.constant([1.0], tf.bfloat16),
        tf.constant([False]),
        tf.constant(7),
    ]
    specs = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
    halves = [TwoPasses(list, list, tuple(specs))]
    assert list(stack_specs(halves)) == ["bfloat16", "float32", "int32", "uint8"]

    @tf.function
    def there_and_back() -> Any:
        stacks = make_stacks(halves)
        push(stacks, tensors)
        return pop(stacks, specs)

    for ours, theirs in zip(there_and_back(), tensors, strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


def test_what_was_taken_is_gone() -> None:
    spec = tf.TensorSpec((), tf.float32)
    halves = [TwoPasses(list, list, (spec,))]

    @tf.function
    def twice() -> Any:
        stacks = make_stacks(halves)
        push(stacks, [tf.constant(1.0)])
        return pop(stacks, [spec]), pop(stacks, [spec])

    with pytest.raises(tf.errors.InvalidArgumentError, match="empty"):
        twice()


def test_freed_stacks_are_gone() -> None:
    spec = tf.TensorSpec((), tf.float32)

    @tf.function
    def step() -> Any:
        stacks = make_stacks([TwoPasses(list, list, (spec,))])
        push(stacks, [tf.constant(1.0)])
        free(stacks)
        return list(stacks.values())

    for handle in step():
        with pytest.raises(tf.errors.NotFoundError):
            tf.raw_ops.StackPopV2(handle=handle, elem_type=tf.float32)
