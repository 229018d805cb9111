"""The backbone as KerasHub's users know backbones."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import keras_nlp
import numpy as np
import pytest

from lvbert_tf import Architecture, LVBertBackbone, architectures
from lvbert_tf.cost import Dimensions, backbone_params
from tests.paths import REPOSITORY

SIZES: dict[str, Any] = {
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "num_heads": 2,
}


def _inputs(tokens: int = 7, padded: int = 0, rows: int = 2) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(0).integers(5, 50, (rows, tokens))
    ids = np.pad(ids, ((0, 0), (0, padded)), constant_values=3)
    mask = np.pad(np.ones((rows, tokens)), ((0, 0), (0, padded)))
    return {
        "token_ids": ids.astype("int32"),
        "segment_ids": np.zeros_like(ids, "int32"),
        "padding_mask": mask.astype("int32"),
    }


@pytest.fixture(scope="module")
def backbone() -> LVBertBackbone:
    keras.utils.set_random_seed(0)
    return LVBertBackbone(50, "csfsc", max_sequence_length=600, **SIZES)


def test_every_argument_comes_back(tmp_path: Path) -> None:
    arguments = {
        "vocabulary_size": 50,
        "architecture": "cs",
        **SIZES,
        "kernel_size": 5,
        "dropout": 0.2,
        "attention_dropout": 0.3,
        "max_sequence_length": 64,
        "num_segments": 3,
        "mask_convolution": False,
        "name": "mine",
        "trainable": False,
    }
    config = LVBertBackbone(**arguments, dtype="float64").get_config()
    assert {name: config[name] for name in arguments} == arguments
    parameters = set(inspect.signature(LVBertBackbone.__init__).parameters)
    assert parameters - {"self", "kwargs"} <= set(config)
    again = LVBertBackbone.from_config(config)
    assert again.get_config() == config
    assert again.compute_dtype == "float64"


@pytest.mark.parametrize("padded", [9, 57, 121, 505])
def test_padding_and_batch_mates_do_not_matter(
    backbone: LVBertBackbone, padded: int
) -> None:
    alone = backbone(_inputs())
    with_padding = backbone(_inputs(padded=padded))[:, :7]
    assert np.abs(np.asarray(alone) - with_padding).max() <= 1e-5
    first = backbone({k: v[:1] for k, v in _inputs(padded=padded).items()})[:, :7]
    assert np.abs(np.asarray(alone)[:1] - first).max() <= 1e-5


def test_rows_of_padding_are_finite(backbone: LVBertBackbone) -> None:
    inputs = _inputs()
    inputs["padding_mask"][1] = 0
    assert np.isfinite(backbone(inputs)).all()


def test_inputs_longer_than_the_positions_are_refused() -> None:
    short = LVBertBackbone(50, "c", max_sequence_length=4, **SIZES)
    with pytest.raises(ValueError, match="max_sequence_length=4"):
        short(_inputs(tokens=5))


def test_the_paper_s_sizes() -> None:
    small = LVBertBackbone.from_size("small")
    assert small.architecture == "ccsffscffsccsfcfscfcssfs"
    assert small.encoder.count_params() == 8_519_968 + 128 * 256 + 256
    assert small.count_params() == 12_525_856
    with pytest.raises(ValueError, match="tiny"):
        LVBertBackbone.from_size("tiny")


@pytest.mark.parametrize(
    "names",
    [
        ["lv_bert", "sandwich"],
        pytest.param(sorted(architectures()), marks=pytest.mark.slow, id="all"),
    ],
)
def test_named_architectures_have_their_closed_form(names: list[str]) -> None:
    dimensions = Dimensions(vocabulary_size=50, **SIZES)
    for name in names:
        built = LVBertBackbone(50, name, **SIZES)
        layers = sum(layer.count_params() for layer in built.encoder.layer_list)
        assert layers == backbone_params(name, dimensions), name


@pytest.mark.parametrize(
    ("architecture", "weights"),
    [("cc", 2 * 13), ("sf", 10 + 6), ("fs", 6 + 10), ("c", 13)],
)
def test_no_weight_is_hidden(architecture: str, weights: int) -> None:
    built = LVBertBackbone(50, architecture, **SIZES)
    assert len(built.weights) == weights + 3 + 2 + 2  # tables, norm, projection


def test_presets_and_files_load_in_a_fresh_process(
    backbone: LVBertBackbone, tmp_path: Path
) -> None:
    backbone.save_to_preset(tmp_path / "preset")
    backbone.save(tmp_path / "model.keras")
    inputs = _inputs()
    np.savez(tmp_path / "io.npz", outputs=np.asarray(backbone(inputs)), **inputs)
    code = f"""
import numpy as np, keras, keras_hub, lvbert_tf
io = dict(np.load({str(tmp_path / "io.npz")!r}))
outputs = io.pop("outputs")
preset, file = {str(tmp_path / "preset")!r}, {str(tmp_path / "model.keras")!r}
for model in (keras.models.load_model(file), keras_hub.models.Backbone.from_preset(
        preset), lvbert_tf.LVBertBackbone.from_preset(preset)):
    assert type(model) is lvbert_tf.LVBertBackbone
    assert np.array_equal(model(io), outputs)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_keras_nlp_users_find_the_same_class(
    backbone: LVBertBackbone, tmp_path: Path
) -> None:
    backbone.save_to_preset(tmp_path)
    found = keras_nlp.models.Backbone.from_preset(str(tmp_path))
    assert type(found) is LVBertBackbone
    assert Architecture.parse(found.architecture) == Architecture("csfsc")
