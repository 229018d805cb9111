"""Every architecture of the paper at every size of the paper."""

import gc
import json

import pytest

from lvbert_tf import LVBertBackbone, architectures
from lvbert_tf.cost import Dimensions, describe
from tests.paths import require_shared


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "medium", "base"])
def test_all_sixteen_build_and_are_as_described(size: str) -> None:
    table = json.loads(require_shared("paper/architectures.json").read_text())
    names = [entry["id"] for entry in table["architectures"]]
    assert len(names) == 16
    assert set(names) <= set(architectures())
    dimensions = Dimensions.of_size(size)
    for name in names:
        described = describe(name, dimensions, size=size)
        backbone = LVBertBackbone.from_size(size, name)
        layers = sum(layer.count_params() for layer in backbone.encoder.layer_list)
        assert layers == described["backbone_params"], name
        assert backbone.count_params() == described["total_params"], name
        del backbone
        gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize(
    "architecture", ["c", "s", "(csf)x7cs", "(csf)x8c", "(fsc)x21s"]
)
def test_any_length_trains_nothing_away(architecture: str) -> None:
    """1, 23, 25 and 64 layers: no layer of an odd length is lost."""
    backbone = LVBertBackbone(50, architecture, 8, 16, 32, 2)
    assert len(backbone.encoder.layer_list) in (1, 23, 25, 64)
    weights = {"c": 13, "s": 10, "f": 6}
    expected = sum(weights[letter] for letter in backbone.architecture)
    assert len(backbone.weights) == expected + 3 + 2 + 2
