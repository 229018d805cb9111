"""The rounding noise of a model, and cases for every id."""

from typing import Any

import keras
import numpy as np
import pytest

import lvbert_tf
from export.noise import SMALLEST, measured_tolerance, rounding_noise
from export.parity import token_cases
from export.task import describe_task
from export.vocabulary_cases import vocabulary_cases
from tests.export.models import VOCABULARY, make_classifier

pytestmark = pytest.mark.export


def test_noise_is_some_units_in_the_last_place_and_leaves_the_model(
    classifier: Any,
) -> None:
    task = describe_task(classifier, pairs=False)
    cases = token_cases(classifier, task)
    before = classifier.get_weights()
    noise = rounding_noise(classifier, task, cases)
    # Scores have an ulp of at most 6e-8; thousands of them would be no rounding.
    assert 0 < noise < 6e-5
    assert SMALLEST <= measured_tolerance(classifier, task, cases, 1e-4) < 1e-4
    assert measured_tolerance(classifier, task, cases, 1e-9) == 1e-9
    for old, new in zip(before, classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("architecture", "mask_convolution"),
    [("f", True), ("cf", True), ("csf", True), ("c", False), ("cs", False)],
)
def test_every_id_bears_on_a_score(architecture: str, mask_convolution: bool) -> None:
    """By more than the check forgives."""
    keras.utils.set_random_seed(0)
    backbone = lvbert_tf.LVBertBackbone(
        len(VOCABULARY),
        architecture,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=64,
        num_heads=4,
        max_sequence_length=64,
        mask_convolution=mask_convolution,
    )
    model = lvbert_tf.LVBertTextClassifier(
        backbone,
        2,
        preprocessor=lvbert_tf.LVBertTextClassifierPreprocessor(
            lvbert_tf.LVBertTokenizer(VOCABULARY), sequence_length=40
        ),
    )
    generator = np.random.default_rng(0)
    model.set_weights(
        [w + generator.normal(0, 0.2, w.shape) for w in model.get_weights()]
    )
    task = describe_task(model, pairs=False)
    cases = list(vocabulary_cases(model, task))
    ids = np.concatenate([case.inputs["input_ids"].ravel() for case in cases])
    assert set(ids.tolist()) == set(range(len(VOCABULARY)))
    before = np.concatenate([case.outputs["scores"] for case in cases])
    tolerance = measured_tolerance(model, task, cases, 1e-4)
    table = next(w for w in model.weights if w.shape[0] == len(VOCABULARY))
    kept = table.numpy()
    for token_id in (0, 5, 40, len(VOCABULARY) - 1):
        # One column: a shift of all is lost in the embeddings' normalisation.
        changed = kept.copy()
        changed[token_id, 0] += 2.0
        table.assign(changed)
        after = np.concatenate(
            [c.outputs["scores"] for c in vocabulary_cases(model, task)]
        )
        assert np.abs(after - before).max() > tolerance, token_id
    table.assign(kept)


def test_a_noisy_model_has_a_wider_tolerance() -> None:
    model = make_classifier(regression=True)
    task = describe_task(model, pairs=False)
    calm = rounding_noise(model, task, token_cases(model, task))
    dense = model.output_dense
    dense.kernel.assign(dense.kernel * 1e-4)
    still = rounding_noise(model, task, token_cases(model, task))
    assert still < calm
