"""Dynamic masking: the official rules, and what must never happen."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from lvbert_tf.masking import (
    Predictions,
    SpecialTokens,
    apply_predictions,
    candidate_positions,
    default_max_predictions,
    mask_tokens,
    prediction_counts,
)

SPECIAL = SpecialTokens(pad=0, unk=1, cls=2, sep=3, mask=4)
HELPERS = Path(__file__).parent.parent / "golden" / "pretrain" / "helpers.npz"


def _batch(
    rows: int, length: int, seed: int = 0, padded: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids with [CLS] first, a [SEP] last of each row, and padding behind."""
    rng = np.random.default_rng(seed)
    real = rng.integers(max(2, int(length * (1 - padded))), length + 1, (rows, 1))
    position = np.arange(length)
    ids = rng.integers(5, 200, (rows, length))
    ids = np.where(position == 0, SPECIAL.cls, ids)
    ids = np.where(position == real - 1, SPECIAL.sep, ids)
    mask = (position < real).astype(np.int32)
    return (ids * mask).astype(np.int32), mask


def test_recorded_official_draws() -> None:
    """The official masking, given the official draws."""
    golden = np.load(HELPERS)
    special = SpecialTokens(pad=0, unk=100, cls=101, sep=102, mask=103)
    ids, padding = golden["mask::input_ids"], golden["mask::input_mask"]
    slots = int(golden["mask::max_predictions_per_seq"])
    candidates = candidate_positions(tf.constant(ids), tf.constant(padding), special)
    np.testing.assert_array_equal(candidates, golden["mask::sampling_probs"] > 0)
    counts = prediction_counts(
        tf.constant(padding), float(golden["mask::mask_prob"]), slots
    )
    masked = apply_predictions(
        tf.constant(ids),
        Predictions(
            positions=tf.constant(golden["mask::position_draws"]),
            keep_draws=tf.constant(golden["mask::uniform_draws"]),
            counts=counts,
        ),
        mask_token_id=special.mask,
        keep_probability=0.15,
    )
    for name, expected in (
        ("token_ids", "out_input_ids"),
        ("mask_positions", "masked_lm_positions"),
        ("mask_ids", "masked_lm_ids"),
        ("mask_weights", "masked_lm_weights"),
    ):
        np.testing.assert_array_equal(
            getattr(masked, name), golden[f"mask::{expected}"], err_msg=name
        )
    # The golden draws repeat a position, or this test would miss that.
    used = golden["mask::masked_lm_positions"][0]
    assert len(set(used.tolist())) < len(used)


@pytest.mark.parametrize("with_replacement", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    rows=st.integers(1, 5),
    length=st.integers(2, 40),
    probability=st.floats(0.01, 1.0),
    slots=st.integers(1, 50),
)
def test_invariants(
    with_replacement: bool,
    seed: int,
    rows: int,
    length: int,
    probability: float,
    slots: int,
) -> None:
    ids, padding = _batch(rows, length, seed)
    masked = {
        name: tensor.numpy()
        for name, tensor in mask_tokens(
            tf.constant(ids),
            tf.constant(padding),
            seed=tf.constant([seed, 1]),
            special=SPECIAL,
            mask_probability=probability,
            max_predictions=slots,
            with_replacement=with_replacement,
        ).items()
    }
    assert masked["mask_positions"].shape == (rows, slots)
    for row in range(rows):
        used = masked["mask_weights"][row] > 0
        positions = masked["mask_positions"][row]
        candidates = np.flatnonzero(
            (padding[row] > 0) & ~np.isin(ids[row], (0, 2, 3, 4))
        )
        wanted = max(
            1,
            min(
                slots,
                int(np.round(np.float32(padding[row].sum()) * np.float32(probability))),
            ),
        )
        if with_replacement:
            assert used.sum() == (wanted if len(candidates) else 0)
        else:
            assert used.sum() == min(wanted, len(candidates))
            assert len(set(positions[used])) == used.sum()
        assert set(positions[used]) <= set(candidates)
        np.testing.assert_array_equal(
            masked["mask_ids"][row][used], ids[row][positions[used]]
        )
        # Unused slots point at [CLS] with weight 0 and id 0.
        assert not positions[~used].any()
        assert not masked["mask_ids"][row][~used].any()
        changed = np.flatnonzero(masked["token_ids"][row] != ids[row])
        assert set(changed) <= set(positions[used])
        assert (masked["token_ids"][row][changed] == SPECIAL.mask).all()


def test_shares_over_many_draws() -> None:
    """D05: no padding is masked in 1,000 draws; 15% are predicted, 85% of them hidden.

    Rows of 61 to 120 tokens: rounding to whole tokens moves the share by at most
    half a token in 61, and evenly, so 15% within 0.5%.
    """
    ids, padding = _batch(64, 120)
    run = tf.function(
        lambda step: mask_tokens(
            tf.constant(ids),
            tf.constant(padding),
            seed=tf.stack([0, step]),
            special=SPECIAL,
            max_predictions=40,
        )
    )
    predicted = np.zeros(ids.shape, np.int64)
    hidden = 0
    draws = 1000
    for step in range(draws):
        masked = run(tf.constant(step))
        changed = masked["token_ids"].numpy() != ids
        assert not changed[padding == 0].any()
        hidden += changed.sum()
        rows = np.arange(len(ids))[:, None]
        np.add.at(
            predicted,
            (rows, masked["mask_positions"].numpy()),
            masked["mask_weights"].numpy().astype(np.int64),
        )
    share = predicted.sum() / (padding.sum() * draws)
    assert abs(share - 0.15) < 0.005
    # 0.85 of about 875,000: five standard errors are 0.002.
    assert abs(hidden / predicted.sum() - 0.85) < 0.002
    # Each candidate of a row equally often: within six standard errors.
    for row in range(len(ids)):
        candidates = (padding[row] > 0) & ~np.isin(ids[row], (0, 2, 3, 4))
        rates = predicted[row][candidates] / draws
        error = np.sqrt(rates.mean() * (1 - rates.mean()) / draws)
        assert np.abs(rates - rates.mean()).max() < 6 * error
        assert not predicted[row][~candidates].any()


def test_equal_seeds_equal_masks() -> None:
    ids, padding = (tf.constant(array) for array in _batch(8, 64))

    def positions(seed: list[int]) -> np.ndarray:
        masked = mask_tokens(ids, padding, seed=tf.constant(seed), special=SPECIAL)
        return np.asarray(masked["mask_positions"])

    np.testing.assert_array_equal(positions([1, 2]), positions([1, 2]))
    assert (positions([1, 2]) != positions([1, 3])).any()
    assert (positions([1, 2]) != positions([2, 2])).any()


@pytest.mark.parametrize("with_replacement", [False, True])
def test_nothing_to_mask(with_replacement: bool) -> None:
    """D07: rows of special tokens only have no weight and point at position 0."""
    ids = tf.constant([[2, 3, 0, 0], [2, 3, 3, 0], [0, 0, 0, 0]])
    padding = tf.constant([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
    masked = mask_tokens(
        ids,
        padding,
        seed=tf.constant([0, 0]),
        special=SPECIAL,
        max_predictions=3,
        with_replacement=with_replacement,
    )
    np.testing.assert_array_equal(masked["token_ids"], ids)
    np.testing.assert_array_equal(masked["mask_weights"], np.zeros((3, 3)))
    np.testing.assert_array_equal(masked["mask_positions"], np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("objective", "empty_rows"),
    [
        ("electra", 1),
        ("electra", 3),
        pytest.param("supernet", 1, marks=pytest.mark.slow),
        ("supernet", 3),
    ],
)
def test_loss_is_finite_with_nothing_to_mask(objective: str, empty_rows: int) -> None:
    """D07: in a row or in the whole batch; training goes on from there."""
    from lvbert_tf import LVBertBackbone, LVBertElectra, LVBertSupernet
    from lvbert_tf.optimization import AdamW

    ids = np.array([[2, 3, 0, 0], [2, 3, 0, 0], [2, 3, 0, 0]], np.int32)
    ids[empty_rows:] = [2, 7, 8, 3]
    batch = {
        "segment_ids": tf.zeros((3, 4), tf.int32),
        "padding_mask": tf.cast(ids != 0, tf.int32),
        "step": tf.zeros((3,), tf.int64),
        "route": tf.zeros((3, 2), tf.int32),
    }
    batch |= mask_tokens(
        tf.constant(ids),
        batch["padding_mask"],
        seed=tf.constant([0, 0]),
        special=SPECIAL,
        max_predictions=2,
    )
    sizes = {
        "embedding_dim": 8,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "num_heads": 2,
        "max_sequence_length": 8,
    }
    if objective == "electra":
        del batch["route"]
        model = LVBertElectra(LVBertBackbone(50, "sf", **sizes), generator_fraction=0.5)
    else:
        model = LVBertSupernet(50, num_layers=2, **sizes)
    model.compile(optimizer=AdamW(1e-3))
    model.optimizer.build(model.trainable_variables)
    figures = {name: float(value) for name, value in model.train_step(batch).items()}
    assert all(np.isfinite(value) for value in figures.values()), figures
    assert figures["predicted_tokens"] == 3 - empty_rows
    if empty_rows == 3:
        assert figures["generator_loss" if objective == "electra" else "loss"] == 0.0
    for variable in model.trainable_variables:
        assert np.isfinite(variable.numpy()).all(), variable.path


def test_padding_id_is_never_predicted_even_if_called_real() -> None:
    masked = mask_tokens(
        tf.constant([[2, 0, 0, 7, 3]]),
        tf.ones([1, 5], tf.int32),
        seed=tf.constant([0, 0]),
        special=SPECIAL,
        mask_probability=1.0,
        max_predictions=5,
    )
    assert masked["mask_weights"].numpy().sum() == 1
    assert masked["mask_positions"].numpy()[0, 0] == 3


def test_official_number_of_slots() -> None:
    assert [default_max_predictions(length, 0.15) for length in (128, 512, 5)] == [
        19,
        79,
        1,
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask_probability": 1.5}, "`mask_probability` must be in"),
        ({"keep_probability": -0.1}, "`keep_probability` must be in"),
        ({"max_predictions": 0}, "`max_predictions` must be at least 1"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, float], message: str) -> None:
    ids = tf.constant([[2, 7, 3]])
    with pytest.raises(ValueError, match=message):
        mask_tokens(
            ids,
            tf.ones_like(ids),
            seed=tf.constant([0, 0]),
            special=SPECIAL,
            **arguments,  # type: ignore[arg-type]
        )
