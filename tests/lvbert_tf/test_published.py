"""BERT and ELECTRA of KerasHub and transformers compute the same as strings of ours."""

import json
from pathlib import Path
from typing import Any

import keras_hub
import numpy as np
import pytest

import lvbert_tf
from lvbert_tf.cli import main
from lvbert_tf.published import load_published_encoder
from lvbert_tf.tensor_files import read_pytorch, read_safetensors
from tests.lvbert_tf.published_checkpoints import (
    VOCABULARY,
    exact_gelu,
    keras_hub_backbone,
    write_pytorch,
    write_safetensors,
    write_transformers,
)

BASE = {
    "num_layers": 12,
    "num_heads": 12,
    "hidden_dim": 768,
    "intermediate_dim": 3072,
    "max_sequence_length": 512,
}
TEXTS = ["The house was old.", "Rain, and the rain was loud and old", "a"]
# Float32 sums in another order.
TOLERANCE = 1e-5


def _inputs(tokenizer: Any) -> dict[str, np.ndarray]:
    preprocessor = lvbert_tf.LVBertTextClassifierPreprocessor(
        tokenizer, sequence_length=20
    )
    pairs = (TEXTS, TEXTS[::-1])
    return {k: np.asarray(v) for k, v in preprocessor(pairs, None).items()}


def _difference(backbone: Any, tokenizer: Any, reference: Any) -> float:
    inputs = _inputs(tokenizer)
    real = inputs["padding_mask"].astype(bool)
    expected = np.asarray(reference(inputs)["sequence_output"])
    return float(np.abs(np.asarray(backbone(inputs)) - expected)[real].max())


def _preset(folder: Path, kind: str) -> Any:
    model = keras_hub_backbone(kind)
    model.save_to_preset(str(folder))
    tokenizers = {
        "bert": keras_hub.models.BertTokenizer,
        "electra": keras_hub.models.ElectraTokenizer,
    }
    tokenizers[kind](VOCABULARY, lowercase=True).save_to_preset(str(folder))
    return model


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_a_preset_of_kerashub(tmp_path: Path, kind: str) -> None:
    reference = _preset(tmp_path / "preset", kind)
    backbone, tokenizer = load_published_encoder(tmp_path / "preset")
    assert backbone.architecture == "sfsf"
    assert tokenizer is not None
    assert tokenizer.get_vocabulary() == VOCABULARY
    assert tokenizer(["The House"]) == [[5, 6]]
    assert backbone.approximate_gelu
    assert _difference(backbone, tokenizer, reference) < TOLERANCE
    # The test would see another activation, or none.
    assert _difference(backbone, tokenizer, exact_gelu(reference)) > 2 * TOLERANCE


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_a_checkpoint_of_transformers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, file: str
) -> None:
    reference = exact_gelu(keras_hub_backbone(kind))
    folder = write_transformers(tmp_path / "checkpoint", kind, reference, file)
    output = tmp_path / "model"
    argv = ["convert", "--checkpoint", str(folder), "--output", str(output)]
    assert main(argv) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "cls.predictions.bias" in result["unused"]
    assert len(result["converted"]) == 5 + 2 * 16 + 2 * (kind == "electra")
    backbone = lvbert_tf.LVBertBackbone.from_preset(str(output))
    tokenizer = lvbert_tf.LVBertTokenizer.from_preset(str(output))
    assert not backbone.approximate_gelu
    assert _difference(backbone, tokenizer, reference) < TOLERANCE
    if kind == "electra" or file == "pytorch_model.bin":
        return
    with pytest.warns(UserWarning, match="logits/kernel"):
        model = lvbert_tf.LVBertTextClassifier.from_preset(
            str(output), num_classes=2, labels=["no", "yes"]
        )
    model.compile("sgd", run_eagerly=True)
    model.fit(TEXTS, ["no", "yes", "no"], verbose=0)
    model.save_to_preset(str(tmp_path / "fitted"))
    again = lvbert_tf.LVBertTextClassifier.from_preset(str(tmp_path / "fitted"))
    np.testing.assert_allclose(
        again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-5
    )


@pytest.mark.parametrize("name", ["gelu_new", "gelu_pytorch_tanh"])
def test_the_approximate_activation_of_transformers(tmp_path: Path, name: str) -> None:
    reference = keras_hub_backbone("bert")
    folder = write_transformers(tmp_path, "bert", reference, "model.safetensors", name)
    backbone, tokenizer = load_published_encoder(folder)
    assert _difference(backbone, tokenizer, reference) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "electra"])
@pytest.mark.parametrize("source", ["preset", "model.safetensors", "pytorch_model.bin"])
def test_the_base_size(tmp_path: Path, kind: str, source: str) -> None:
    reference = keras_hub_backbone(kind, **BASE)
    if source == "preset":
        folder = tmp_path / "preset"
        reference.save_to_preset(str(folder))
        backbone, _ = load_published_encoder(folder)
    else:
        reference = exact_gelu(reference)
        folder = write_transformers(tmp_path / "checkpoint", kind, reference, source)
        backbone, _ = load_published_encoder(folder)
    assert backbone.architecture == "sf" * 12
    assert backbone.count_params() > 85e6
    tokenizer = lvbert_tf.LVBertTokenizer(VOCABULARY)
    # Twelve layers of 768: more sums, and the bound that was asked for.
    assert _difference(backbone, tokenizer, reference) < 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "relu"}, "hidden_act='relu' (expected one of ['gelu', "),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps"),
        ({"model_type": "roberta"}, "expected model_type bert or electra"),
        ({"num_hidden_layers": 3}, "missing: encoder.layer.2"),
        ({"intermediate_size": 32}, "another shape: bert.encoder.layer.0.inter"),
    ],
)
def test_what_cannot_be_expressed_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    message: str,
) -> None:
    folder = write_transformers(
        tmp_path / "checkpoint", "bert", keras_hub_backbone("bert"), "model.safetensors"
    )
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    output = str(tmp_path / "model")
    assert main(["convert", "--checkpoint", str(folder), "--output", output]) == 1
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors
    assert not Path(output).exists()


def test_files_give_back_their_tensors_and_run_nothing(tmp_path: Path) -> None:
    tensors = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.arange(4)}
    write_safetensors(tmp_path / "a.safetensors", tensors)
    tensors["a"] = np.asfortranarray(tensors["a"][:1])  # one row: still contiguous
    write_pytorch(tmp_path / "a.bin", tensors)
    assert np.array_equal(
        read_safetensors(tmp_path / "a.safetensors")["a"], [[0, 1, 2], [3, 4, 5]]
    )
    assert np.array_equal(read_pytorch(tmp_path / "a.bin")["a"], tensors["a"])
    assert np.array_equal(read_pytorch(tmp_path / "a.bin")["b"], tensors["b"])
    write_pytorch(tmp_path / "evil.bin", {"a": print})
    with pytest.raises(ValueError, match="names builtins.print|__builtin__.print"):
        read_pytorch(tmp_path / "evil.bin")
    whole = (tmp_path / "a.safetensors").read_bytes()
    for length in (4, 20, len(whole) - 3):
        (tmp_path / "cut.safetensors").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="ends"):
            read_safetensors(tmp_path / "cut.safetensors")
