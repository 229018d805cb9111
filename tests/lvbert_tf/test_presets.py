"""The paper's architectures and sizes, against the paper as recorded in JSON."""

import dataclasses
import json

import pytest

from lvbert_tf import presets
from lvbert_tf.architecture import Architecture, architectures
from tests.paths import require_shared


def test_every_architecture_of_the_paper_by_its_id() -> None:
    recorded = json.loads(require_shared("paper/architectures.json").read_text())
    entries = recorded["architectures"]
    assert set(presets.PAPER_ARCHITECTURES) == {entry["id"] for entry in entries}
    for entry in entries:
        architecture = Architecture.parse(entry["id"])
        assert str(architecture) == entry["architecture"]
        assert architecture.layer_list == entry["layer_list"]


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("lv_bert", "ccsffscffsccsfcfscfcssfs"),
        ("electra", "(sf)x12"),
        ("bert", "(sf)x12"),
        ("dynamic_conv", "(cf)x12"),
        ("sandwich", "sx6(fs)x6fx6"),
        ("electra_bottom_conv", "cc(sf)x11"),
        ("electra_top_attention", "(sf)x11ss"),
        ("electra_conv_to_attention", "ccsfccsf(sf)x4ssfsssfs"),
    ],
)
def test_names(name: str, spec: str) -> None:
    assert Architecture.parse(name) == Architecture.parse(spec)
    assert len(Architecture.parse(name)) == 24
    assert name in architectures()


def test_hand_made_differ_from_electra_only_where_the_paper_says() -> None:
    electra = architectures()["electra"]
    changed = {
        "electra_bottom_conv": range(2),
        "electra_top_attention": range(23, 24),
        "electra_conv_to_attention": [*range(8), *range(16, 24)],
    }
    assert set(changed) == set(presets.HAND_MADE_ARCHITECTURES)
    for name, positions in changed.items():
        other = architectures()[name]
        differing = {i for i in range(24) if other[i] != electra[i]}
        assert differing <= set(positions)
        assert differing


def test_sizes_are_those_of_table_5() -> None:
    recorded = json.loads(require_shared("paper/hyperparameters.json").read_text())
    for name, size in presets.SIZES.items():
        expected = recorded["pretraining"]["sizes"][name]
        for field in (
            "embedding_dim",
            "hidden_dim",
            "intermediate_dim",
            "num_heads",
            "learning_rate",
            "batch_size",
            "sequence_length",
        ):
            assert getattr(size, field) == expected[field], field
        assert size.training_steps == expected["steps"]
        numerator, denominator = expected["generator_size"].split("/")
        assert size.generator_fraction == int(numerator) / int(denominator)
        assert size.kernel_size == recorded["pretraining"]["common"]["kernel_size"]
        assert size.warmup_steps == recorded["pretraining"]["common"]["warmup_steps"]
        rates = recorded["finetuning"]["learning_rate"]
        assert size.finetuning_learning_rate == rates[name]
        squad_rate = rates.get(f"{name}_squad", rates[name])
        assert size.squad_learning_rate == squad_rate


def test_sizes_are_immutable_and_an_unknown_one_is_named() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        presets.SIZES["small"].hidden_dim = 1  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"small, medium, base\..*size='large'"):
        presets.model_size("large")
