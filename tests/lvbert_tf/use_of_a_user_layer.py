"""What a new letter must do; run in a process of its own, for letters stay known."""

import sys

import keras
import numpy as np
import tensorflow as tf

import lvbert_tf
from lvbert_tf.cost import Dimensions, backbone_params, describe, space_size
from lvbert_tf.optimization import AdamW
from lvbert_tf.search.evolution import EvolutionSearch
from lvbert_tf.search.sampling import route
from lvbert_tf.search.space import SearchSpace
from tests.lvbert_tf import user_layer  # noqa: F401  (registers the letter)
from tests.lvbert_tf.batches import pretraining_batch
from tests.lvbert_tf.layers import layer_checks

SIZES = {"embedding_dim": 8, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}


def main(folder: str) -> None:
    """Strings, cost, backbone, files, supernet and search with `p` as a letter."""
    assert str(lvbert_tf.Architecture.parse("(pc)x2s")) == "pcpcs"
    assert lvbert_tf.Architecture.parse("pf").count("p") == 1
    backbone = lvbert_tf.LVBertBackbone(101, "pcsfp", **SIZES)
    layers = sum(layer.count_params() for layer in backbone.encoder.layer_list)
    dimensions = Dimensions(vocabulary_size=101, **SIZES)
    assert layers == backbone_params("pcsfp", dimensions)
    assert describe("pcsfp", dimensions)["counts"]["p"] == 2
    assert space_size(24, 4) == 4**24

    layer_checks.check_padding_cannot_leak(backbone.encoder.layer_list[0])
    backbone.save(f"{folder}/model.keras")
    ids = np.arange(5, 13)[None]
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    again = keras.models.load_model(f"{folder}/model.keras")
    assert np.array_equal(again(inputs), backbone(inputs))

    supernet = lvbert_tf.LVBertSupernet(101, letters="csfp", num_layers=3, **SIZES)
    supernet.compile(optimizer=AdamW(1e-3))
    supernet.optimizer.build(supernet.trainable_variables)
    step = tf.function(supernet.train_step, autograph=False)
    before = {v.path: np.asarray(v) for v in supernet.trainable_variables}
    path = [3, 0, 3]
    step(pretraining_batch(route=path))
    moved = {
        v.path
        for v in supernet.trainable_variables
        if not np.array_equal(before[v.path], v)
    }
    assert any("layer_0_p" in name for name in moved)
    assert not any("layer_1_p" in name or "layer_0_c" in name for name in moved)
    drawn = {value for n in range(20) for value in route(0, n, 3, 4)}
    assert drawn == {0, 1, 2, 3}

    space = SearchSpace("csfp", 3)
    search = EvolutionSearch(
        space, population=6, iterations=2, crossover=3, mutation=3, top_k=2, seed=0
    )
    scored = 0
    while not search.finished:
        candidates = search.ask()
        scores = {}
        for candidate in candidates:
            codes = ["csfp".index(letter) for letter in candidate]
            result = supernet.test_step(pretraining_batch(route=codes))
            scores[candidate] = -float(result["loss_sum"])
            extracted = supernet.extract(candidate)
            assert extracted.backbone.architecture == candidate
        scored += len(candidates)
        search.tell(scores)
    assert scored >= 6
    print("ok", moved and len(moved))


if __name__ == "__main__":
    main(sys.argv[1])
