"""Reads checkpoints of the official TensorFlow 1 implementation.

Sizes and architecture come from the variables' names and shapes. The official code
nests its layers in pairs (`layer_i/first_submodule`, `second_submodule`), and names a
layer's type by its variables.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from lvbert_tf.architecture import Architecture, ArchitectureSpec
from lvbert_tf.layers.encoder import Encoder
from lvbert_tf.layers.heads import MaskedLMHead
from lvbert_tf.models.backbone import LVBertBackbone
from lvbert_tf.models.electra import LVBertElectra
from lvbert_tf.models.masked_lm import LVBertMaskedLM
from lvbert_tf.models.span_predictor import LVBertSpanPredictor
from lvbert_tf.models.text_classifier import LVBertTextClassifier

Shapes = Mapping[str, tuple[int, ...]]

_TRAINING_STATE = re.compile(r"(^|/)(global_step|adam_m|adam_v)$")
_KINDS = ("backbone", "masked_lm", "electra", "classifier", "span_predictor")
_MARKERS = {
    "c": "dynamic_convolution_layer/convolution/glu_l/kernel",
    "s": "attention/self/query/kernel",
    "f": "intermediate/dense/kernel",
}
_WITHIN_LAYER = {
    "c": {
        "dynamic_convolution_layer/convolution/glu_l": "layer/glu_linear",
        "dynamic_convolution_layer/convolution/glu_g": "layer/glu_gate",
        "dynamic_convolution_layer/convolution/conv_attn_kernel": (
            "layer/kernel_generator"
        ),
        "dynamic_convolution_layer/output/dense": "layer/output_dense",
        "dynamic_convolution_layer/output/LayerNorm": "layer_norm",
    },
    "s": {
        "attention/self/query": "layer/query",
        "attention/self/key": "layer/key",
        "attention/self/value": "layer/value",
        "attention/output/dense": "layer/output_dense",
        "attention/output/LayerNorm": "layer_norm",
    },
    "f": {
        "intermediate/dense": "layer/intermediate",
        "output/dense": "layer/output_dense",
        "output/LayerNorm": "layer_norm",
    },
}
_SEPARABLE = "dynamic_convolution_layer/convolution/conv_attn_key"


@dataclass
class ConversionReport:
    """What became of a checkpoint's variables.

    Attributes:
        converted: official names whose values were taken over.
        unused: names in the checkpoint that the model has no place for.
        missing: names that the model needs and the checkpoint lacks.
        mismatched: names of another shape: (name, expected, found).
        training_state: names of optimizer slots and step counters, set aside.
    """

    converted: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    mismatched: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=list
    )
    training_state: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Returns one line for each variable that did not fit."""
        return [
            *(f"missing in the checkpoint: {name}" for name in self.missing),
            *(f"left over: {name}" for name in self.unused),
            *(
                f"another shape: {name}, expected {expected}, found {actual}"
                for name, expected, actual in self.mismatched
            ),
        ]


def load_official_checkpoint(
    prefix: str | Path,
    num_heads: int | None = None,
    architecture: ArchitectureSpec | None = None,
    vocabulary: str | Path | None = None,
    *,
    kind: str = "backbone",
    strict: bool = True,
    **overrides: Any,
) -> Any:
    """Returns a model with the weights of an official checkpoint.

    Args:
        prefix: path of the checkpoint without its suffixes.
        num_heads: heads of attention; by default from the width of a kernel
            generator, or without a `c` layer hidden_dim // 64.
        architecture: the layers; by default read from the variables.
        vocabulary: a vocabulary file whose size must be the checkpoint's.
        kind: "backbone", "masked_lm", "electra" (both networks and heads),
            "classifier" (the head of one fine-tuned task) or "span_predictor" (that of
            SQuAD, with joint prediction).
        strict: whether a variable that is left over, missing or of another shape is
            an error.
        **overrides: further constructor arguments of the backbone, such as `dtype`.

    Returns:
        The model, with `mask_convolution=False` as in the official code, and with
        `.conversion_report`.

    Raises:
        FileNotFoundError: if there is no such checkpoint.
        ValueError: for anything that does not fit; the message lists all of it.
    """
    if kind not in _KINDS:
        raise ValueError(f"`kind` must be one of {_KINDS}. Received: kind={kind!r}")
    if not Path(f"{prefix}.index").is_file():
        raise FileNotFoundError(f"No checkpoint with this prefix: {prefix}")
    reader = tf.train.load_checkpoint(str(prefix))
    shapes = {
        name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()
    }
    report = ConversionReport(
        training_state=sorted(n for n in shapes if _TRAINING_STATE.search(n))
    )
    shapes = {n: s for n, s in shapes.items() if not _TRAINING_STATE.search(n)}
    backbone = _make_backbone(shapes, num_heads, architecture, overrides)
    _check_vocabulary(vocabulary, backbone)
    places = _embedding_places(backbone)
    places.update(_encoder_places(backbone.encoder, "electra"))
    model, head_places = _make_model(kind, backbone, shapes)
    places.update(head_places)
    _copy(reader, shapes, places, report)
    if strict and report.problems():
        lines = "\n".join(f"  {line}" for line in report.problems())
        raise ValueError(f"The checkpoint {prefix} does not fit a {kind}:\n{lines}")
    model.conversion_report = report
    return model


def read_architecture(shapes: Shapes, scope: str = "electra") -> Architecture:
    """Returns the architecture that the variables under `scope` spell.

    Raises:
        ValueError: if a position holds no layer or more than one.
    """
    letters = []
    for position in range(10_000):
        at = _layer_scope(scope, position)
        present = [m for m, name in _MARKERS.items() if f"{at}/{name}" in shapes]
        if not present:
            if any(name.startswith(f"{at}/") for name in shapes):
                raise ValueError(f"No known layer type at {at}")
            break
        letters.append(present[0])
    if not letters:
        raise ValueError(
            f"The checkpoint holds no encoder layers under {scope}/encoder"
        )
    return Architecture("".join(letters))


def _layer_scope(scope: str, position: int) -> str:
    half = ("first", "second")[position % 2]
    return f"{scope}/encoder/layer_{position // 2}/{half}_submodule"


def _make_backbone(
    shapes: Shapes,
    num_heads: int | None,
    architecture: ArchitectureSpec | None,
    overrides: dict[str, Any],
) -> LVBertBackbone:
    tables = {}
    for table in ("word", "position", "token_type"):
        name = f"electra/embeddings/{table}_embeddings"
        if name not in shapes:
            raise ValueError(f"Not a checkpoint of LV-BERT or ELECTRA: no {name}")
        tables[table] = shapes[name]
    embedding_dim = tables["word"][1]
    projection = shapes.get("electra/embeddings_project/kernel")
    hidden_dim = embedding_dim if projection is None else projection[1]
    parsed = (
        read_architecture(shapes)
        if architecture is None
        else Architecture.parse(architecture)
    )
    kernel_size, heads_of_generator = _convolution_sizes(shapes)
    if num_heads is None:
        num_heads = heads_of_generator or hidden_dim // 64
    if num_heads < 1:
        raise ValueError(
            f"The number of heads cannot be told from a width of {hidden_dim} without "
            "a dynamic-convolution layer; give `num_heads`. Received: num_heads=None"
        )
    arguments = {
        "embedding_dim": embedding_dim,
        "hidden_dim": hidden_dim,
        "intermediate_dim": _intermediate_dim(shapes) or 4 * hidden_dim,
        "num_heads": num_heads,
        "kernel_size": kernel_size or 9,
        "max_sequence_length": tables["position"][0],
        "num_segments": tables["token_type"][0],
        "mask_convolution": False,
        **overrides,
    }
    return LVBertBackbone(tables["word"][0], parsed, **arguments)


def _convolution_sizes(shapes: Shapes) -> tuple[int | None, int | None]:
    """Returns kernel size and heads of the first `c` layer, if there is one."""
    for name, shape in shapes.items():
        if name.startswith("electra/") and name.endswith("/depthwise_kernel"):
            generator = name.replace(
                "conv_attn_key/depthwise_kernel", "conv_attn_kernel/bias"
            )
            return shape[0], shapes[generator][0] // shape[0]
    return None, None


def _intermediate_dim(shapes: Shapes) -> int | None:
    for name, shape in shapes.items():
        if name.startswith("electra/") and name.endswith("/intermediate/dense/kernel"):
            return shape[1]
    return None


def _check_vocabulary(vocabulary: str | Path | None, backbone: LVBertBackbone) -> None:
    if vocabulary is None:
        return
    lines = len(Path(vocabulary).read_bytes().splitlines())
    if lines != backbone.vocabulary_size:
        raise ValueError(
            f"{vocabulary} has {lines} entries. Expected: "
            f"{backbone.vocabulary_size}, the rows of the checkpoint's word table"
        )


def _make_model(
    kind: str, backbone: LVBertBackbone, shapes: Shapes
) -> tuple[Any, dict[str, Any]]:
    if kind == "masked_lm":
        masked_lm = LVBertMaskedLM(backbone)
        return masked_lm, _masked_lm_places(masked_lm.masked_lm_head)
    if kind == "electra":
        return _make_electra(backbone, shapes)
    if kind == "classifier":
        head = [
            name
            for name in shapes
            if re.fullmatch(r"task_specific/[^/]+/dense/kernel", name)
        ]
        if len(head) != 1:
            raise ValueError(
                "Expected the head of one classification task. Found: "
                f"{sorted(n for n in shapes if n.startswith('task_specific/'))}"
            )
        classes = shapes[head[0]][1]
        classifier = LVBertTextClassifier(backbone, classes, regression=classes == 1)
        scope = head[0].removesuffix("/kernel")
        return classifier, _dense_places(classifier.output_dense, scope)
    if kind == "span_predictor":
        return _make_span_predictor(backbone, shapes)
    return backbone, {}


def _make_electra(
    backbone: LVBertBackbone, shapes: Shapes
) -> tuple[LVBertElectra, dict[str, Any]]:
    bias = next(
        (
            shape
            for name, shape in shapes.items()
            if name.startswith("generator/") and name.endswith("LayerNorm/beta")
        ),
        None,
    )
    if bias is None:
        raise ValueError("The checkpoint holds no generator.")
    electra = LVBertElectra(backbone, generator_fraction=bias[0] / backbone.hidden_dim)
    places = _encoder_places(electra.generator, "generator")
    places.update(_masked_lm_places(electra.generator_head))
    head = electra.discriminator_head
    places.update(_dense_places(head.dense, "discriminator_predictions/dense"))
    places.update(_dense_places(head.logits, "discriminator_predictions/dense_1"))
    return electra, places


def _make_span_predictor(
    backbone: LVBertBackbone, shapes: Shapes
) -> tuple[LVBertSpanPredictor, dict[str, Any]]:
    suffix = "/qa_hidden/kernel"
    kernels = [
        n for n in shapes if n.startswith("task_specific") and n.endswith(suffix)
    ]
    if len(kernels) != 1:
        raise ValueError(
            "Expected the joint start and end head of one SQuAD task. Found: "
            f"{sorted(n for n in shapes if n.startswith('task_specific/'))}"
        )
    scope = kernels[0].removesuffix(suffix)
    predictor = LVBertSpanPredictor(backbone, intermediate_dim=shapes[kernels[0]][1])
    head = predictor.span_head
    # In the order in which the official code makes them, which gives them their names.
    named = {
        "dense": head.start,
        "dense_1": head.end,
        "dense_2": head.unanswerable_hidden,
        "dense_3": head.unanswerable,
    }
    places = {
        f"{scope}/qa_hidden/kernel": head.end_hidden_kernel,
        f"{scope}/qa_hidden/bias": head.end_hidden_bias,
    }
    for name, dense in named.items():
        places.update(_dense_places(dense, f"{scope}/{name}"))
    return predictor, places


def _dense_places(dense: Any, scope: str) -> dict[str, Any]:
    return {f"{scope}/kernel": dense.kernel, f"{scope}/bias": dense.bias}


def _norm_places(norm: Any, scope: str) -> dict[str, Any]:
    return {f"{scope}/gamma": norm.gamma, f"{scope}/beta": norm.beta}


def _embedding_places(backbone: LVBertBackbone) -> dict[str, Any]:
    embeddings = backbone.embeddings
    scope = "electra/embeddings"
    return {
        f"{scope}/word_embeddings": embeddings.token_embedding.embeddings,
        f"{scope}/position_embeddings": embeddings.position_embedding.embeddings,
        f"{scope}/token_type_embeddings": embeddings.segment_embedding.embeddings,
        **_norm_places(embeddings.layer_norm, f"{scope}/LayerNorm"),
    }


def _encoder_places(encoder: Encoder, scope: str) -> dict[str, Any]:
    places: dict[str, Any] = {}
    if encoder.projection is not None:
        places.update(_dense_places(encoder.projection, f"{scope}/embeddings_project"))
    for position, (letter, residual) in enumerate(
        zip(encoder.architecture, encoder.layer_list, strict=True)
    ):
        at = _layer_scope(scope, position)
        for official, ours in _WITHIN_LAYER[letter].items():
            if ours == "layer_norm":
                places.update(_norm_places(residual.layer_norm, f"{at}/{official}"))
            else:
                dense = getattr(residual.layer, ours.removeprefix("layer/"))
                places.update(_dense_places(dense, f"{at}/{official}"))
        if letter == "c":
            conv, separable = residual.layer, f"{at}/{_SEPARABLE}"
            places[f"{separable}/depthwise_kernel"] = conv.depthwise_kernel
            places[f"{separable}/pointwise_kernel"] = conv.pointwise.kernel
            places[f"{separable}/bias"] = conv.pointwise.bias
    return places


def _masked_lm_places(head: MaskedLMHead) -> dict[str, Any]:
    scope = "generator_predictions"
    return {
        **_dense_places(head.dense, f"{scope}/dense"),
        **_norm_places(head.layer_norm, f"{scope}/LayerNorm"),
        f"{scope}/output_bias": head.output_bias,
    }


def _copy(
    reader: Any, shapes: Shapes, places: dict[str, Any], report: ConversionReport
) -> None:
    """Copies what fits, and notes what does not."""
    for name, variable in places.items():
        if name not in shapes:
            report.missing.append(name)
            continue
        expected, actual = tuple(variable.shape), shapes[name]
        # The separable convolution keeps axes of length 1 that ours does without.
        if "conv_attn_key" in name:
            actual = tuple(n for n in actual if n != 1) if 1 in actual else actual
        if expected != actual:
            report.mismatched.append((name, expected, shapes[name]))
            continue
        variable.assign(np.reshape(reader.get_tensor(name), expected))
        report.converted.append(name)
    report.unused = sorted(set(shapes) - set(places))
