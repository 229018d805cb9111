"""`model.export` of every task in every format that Keras offers.

Models with dropout, with weights as initialised (all biases zero, which tf2onnx once
took for no biases), fitted, and loaded again without ever having been called.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import lvbert_tf
from tests.lvbert_tf.batches import TINY_SIZES
from tests.lvbert_tf.models.tiny import backbone, classifier, tokenizer

pytestmark = pytest.mark.export

FORMATS = ["tf_saved_model", "onnx", "litert"]
SUFFIX = {"tf_saved_model": "", "onnx": ".onnx", "litert": ".tflite"}
TASKS = ["classifier", "masked_lm", "spans"]
TEXTS = ["a good film", "the bad plot"]
SIZES: dict[str, Any] = {"dropout": 0.1, "attention_dropout": 0.1}
TOLERANCE = 1e-5
"""Sums in another order; float32 logits of the order of 1."""


def _encoder(architecture: str = "csf") -> lvbert_tf.LVBertBackbone:
    # 40 tokens: more than one block of the dynamic convolution.
    return backbone(architecture, max_sequence_length=48, **SIZES)


def _task(task: str, architecture: str = "csf", fitted: bool = False) -> Any:
    keras.utils.set_random_seed(0)
    model: Any
    if task == "classifier":
        preprocessor = lvbert_tf.LVBertTextClassifierPreprocessor(tokenizer(), 8)
        model = lvbert_tf.LVBertTextClassifier(
            _encoder(architecture), 2, preprocessor=preprocessor
        )
        data: tuple[Any, ...] = (TEXTS, [1, 0])
    elif task == "masked_lm":
        model = lvbert_tf.LVBertMaskedLM(
            _encoder(architecture),
            lvbert_tf.LVBertMaskedLMPreprocessor(tokenizer(), sequence_length=8),
        )
        data = (TEXTS,)
    else:
        windows = lvbert_tf.LVBertSpanPredictorPreprocessor(
            tokenizer(), sequence_length=16, stride=4, max_question_length=4
        )
        model = lvbert_tf.LVBertSpanPredictor(
            _encoder(architecture), windows, beam_size=2, intermediate_dim=8
        )
        data = (
            {"question": ["the film", "a plot"], "context": TEXTS},
            {"answer_start": [2, 4], "answer_text": ["good", "bad"]},
        )
    if fitted:
        model.fit(*data, verbose=0)
    return model


def _inputs(model: Any, rows: int, tokens: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(tokens)
    lengths = np.linspace(tokens, max(1, tokens // 2), rows).astype(int)
    mask = (np.arange(tokens) < lengths[:, None]).astype("int32")
    inputs = {
        "token_ids": draw.integers(5, 11, (rows, tokens)).astype("int32") * mask,
        "segment_ids": (np.arange(tokens) >= tokens // 2).astype("int32") * mask,
        "padding_mask": mask,
    }
    if "mask_positions" in model.input:
        inputs["mask_positions"] = draw.integers(0, lengths, (3, rows)).T.astype(
            "int32"
        )
    return inputs


class _Exported:
    """An exported file, run by the runtime that it is for."""

    def __init__(self, path: Path, form: str) -> None:
        self.form = form
        if form == "tf_saved_model":
            self.loaded: Any = tf.saved_model.load(str(path))
        elif form == "onnx":
            onnxruntime = pytest.importorskip("onnxruntime")
            self.loaded = onnxruntime.InferenceSession(str(path))
        else:
            # The interpreter without TensorFlow's own operators.
            litert = pytest.importorskip("ai_edge_litert.interpreter")
            self.loaded = litert.Interpreter(model_path=str(path))

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.form == "tf_saved_model":
            given = {name: tf.constant(value) for name, value in inputs.items()}
            outputs = self.loaded.serve(given)
            return outputs if isinstance(outputs, dict) else {"output": outputs}
        if self.form == "onnx":
            taken = {i.name: i.name.split(":")[0] for i in self.loaded.get_inputs()}
            given = {name: inputs[of] for name, of in taken.items()}
            names = [o.name for o in self.loaded.get_outputs()]
            return dict(zip(names, self.loaded.run(None, given), strict=True))
        (signature,) = self.loaded.get_signature_list()
        return self.loaded.get_signature_runner(signature)(**inputs)


def _assert_equal(model: Any, form: str, folder: Path) -> None:
    path = folder / f"exported{SUFFIX[form]}"
    model.export(path, format=form, verbose=False)
    exported = _Exported(path, form)
    for rows, tokens in ((2, 4), (3, 40), (1, 2)):
        inputs = _inputs(model, rows, tokens)
        expected = model(inputs)
        outputs = exported(inputs)
        if not isinstance(expected, dict):
            (output,) = outputs.values()
            expected, outputs = {"output": expected}, {"output": output}
        assert set(outputs) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(
                outputs[name], value, atol=TOLERANCE, rtol=1e-5, err_msg=name
            )


@pytest.mark.parametrize("form", FORMATS)
def test_a_fitted_classifier_gives_the_same(form: str, tmp_path: Path) -> None:
    _assert_equal(_task("classifier", fitted=True), form, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("state", ["fresh", "fitted", "file", "preset"])
@pytest.mark.parametrize("task", TASKS)
def test_every_task_in_every_state(
    task: str, state: str, form: str, tmp_path: Path
) -> None:
    model = _task(task, fitted=state != "fresh")
    if state == "file":
        model.save(tmp_path / "model.keras")
        model = keras.models.load_model(tmp_path / "model.keras")
    if state == "preset":
        model.save_to_preset(str(tmp_path / "preset"))
        model = type(model).from_preset(str(tmp_path / "preset"))
    _assert_equal(model, form, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("architecture", ["c", "s", "f"])
def test_layers_alone_with_zero_biases(
    architecture: str, form: str, tmp_path: Path
) -> None:
    model = _task("classifier", architecture)
    assert not any(np.any(w) for w in model.weights if w.path.endswith("/bias"))
    _assert_equal(model, form, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_backbones_and_adapted_models(form: str, tmp_path: Path) -> None:
    _assert_equal(_encoder(), form, tmp_path)
    adapted = _task("classifier")
    adapted.backbone.enable_lora(2)
    for weight in adapted.weights:
        if "lora" in weight.path:
            weight.assign(weight + 0.1)
    _assert_equal(adapted, form, tmp_path)


@pytest.mark.slow
# Keras names each layer that has nothing to quantise.
@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
@pytest.mark.parametrize("form", ["tf_saved_model", "onnx"])
def test_quantised_models(form: str, tmp_path: Path) -> None:
    model = _task("classifier")
    model.quantize("int8")
    _assert_equal(model, form, tmp_path)


@pytest.mark.slow
def test_litert_quantises_by_itself(tmp_path: Path) -> None:
    model = _task("classifier")
    model.export(
        tmp_path / "small.tflite",
        format="litert",
        verbose=False,
        optimizations=[tf.lite.Optimize.DEFAULT],
    )
    inputs = _inputs(model, 3, 40)
    (output,) = _Exported(tmp_path / "small.tflite", "litert")(inputs).values()
    np.testing.assert_allclose(output, model(inputs), atol=0.05)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("openvino", "OpenVINO reads ONNX files.*Received: 'openvino'"),
        ("torch", "PyTorch backend only.*Received: 'torch'"),
        ("h5", "must be one of .*Received: 'h5'"),
    ],
)
def test_other_formats_are_refused(form: str, message: str, tmp_path: Path) -> None:
    for model in (classifier(), backbone()):
        with pytest.raises(ValueError, match=message):
            model.export(tmp_path / "model.xml", format=form)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
def test_numbers_that_no_runtime_takes_are_refused(tmp_path: Path) -> None:
    model = classifier("s")
    model.quantize("int8")
    with pytest.raises(ValueError, match="before `quantize`"):
        model.export(tmp_path / "model.tflite", format="litert")
    half = classifier("f", dtype="mixed_bfloat16")
    for form in ("onnx", "litert"):
        with pytest.raises(ValueError, match="Received: dtype='mixed_bfloat16'"):
            half.export(tmp_path / f"model{SUFFIX[form]}", format=form)
    half.save_to_preset(str(tmp_path / "preset"))
    whole = lvbert_tf.LVBertTextClassifier.from_preset(
        str(tmp_path / "preset"), dtype="float32"
    )
    assert whole.backbone.dtype_policy.name == "float32"
    for a, b in zip(half.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_pretrains_is_not_exported(tmp_path: Path) -> None:
    supernet = lvbert_tf.LVBertSupernet(11, num_layers=2, **TINY_SIZES)
    with pytest.raises(ValueError, match="training extract"):
        supernet.export(tmp_path / "saved")
    pair = lvbert_tf.LVBertElectra(lvbert_tf.LVBertBackbone(11, "s", **TINY_SIZES), 0.5)
    with pytest.raises(ValueError, match="`discriminator`"):
        pair.export(tmp_path / "saved")
