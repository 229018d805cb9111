"""The model card: what an artefact is, for people, in Markdown."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common.model_card import CARD_FILE, training_lines


def model_card(manifest: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    """Returns the card of an artefact.

    Everything in it is read from the manifest and from what trained the model; what
    neither says, the card says it does not know.

    Args:
        manifest: of the artefact, checksums aside.
        provenance: content of the model directory's ``training.json``, or {}.
    """
    sections = (
        ("", _what(manifest)),
        ("## Inputs and outputs", _interface(manifest["task"])),
        ("## Data and training", training_lines(provenance)),
        ("## Size and cost", _cost(manifest)),
        ("## Limits", _limits(manifest)),
        ("## How the artefact was checked", _checks(manifest)),
    )
    lines = ["# Model card"]
    for title, content in sections:
        lines += ["", title] if title else []
        lines += ["", *content]
    return "\n".join(lines) + "\n"


def write_model_card(
    folder: Path, manifest: Mapping[str, Any], provenance: Mapping[str, Any]
) -> None:
    """Writes ``model_card.md``."""
    (folder / CARD_FILE).write_text(model_card(manifest, provenance), encoding="utf-8")


def _what(manifest: Mapping[str, Any]) -> Iterator[str]:
    task, model = manifest["task"], manifest["model"]
    from export.heads import HEADS

    title = HEADS[task["kind"]].title
    kind = "regression" if task["regression"] else title
    of = "pairs of texts" if task["pairs"] else "texts"
    form = {"onnx": "an ONNX graph", "saved_model": "a TensorFlow SavedModel"}
    yield (
        f"An LV-BERT {kind} of {of}, as {form[manifest['kind']]}. Encoder: "
        f"`{model['architecture']}` (`c` dynamic convolution, `s` self-attention, "
        f"`f` feed-forward), width {model['hidden_dim']}, {model['num_heads']} heads."
    )


def _interface(task: Mapping[str, Any]) -> Iterator[str]:
    if task["kind"] == "span_predictor":
        yield "* In: a question and a context (UTF-8)."
        yield "* Out: the best answer in the context, where it stands, and its score."
        return
    yield "* In: " + ("two texts" if task["pairs"] else "a text") + " (UTF-8)."
    others = {
        "backbone": f"hidden states of {task['hidden_dim']} numbers a token",
        "masked_lm": "for every [MASK] in the text, tokens and their probabilities",
    }
    if task["kind"] in others:
        yield f"* Out: {others[task['kind']]}."
        return
    if task["regression"]:
        yield "* Out: one value."
        return
    yield f"* Out: probabilities of {len(task['labels'])} classes:"
    for label in task["labels"]:
        # As JSON, so that spaces and line breaks in a label show.
        yield f"  * `{json.dumps(label, ensure_ascii=False)}`"


def _cost(manifest: Mapping[str, Any]) -> Iterator[str]:
    model = manifest["model"]
    yield f"* Parameters: {model['parameters']:,}"
    flops = model["flops"]
    yield (
        f"* Forward pass over {flops['sequence_length']} tokens: "
        f"{flops['forward'] / 1e9:.3g} GFLOP"
    )
    yield f"* Files: {sum(e['bytes'] for e in manifest['files'].values()):,} bytes"
    yield "* Latency: depends on the machine; measure it on yours."


def _limits(manifest: Mapping[str, Any]) -> Iterator[str]:
    task, model = manifest["task"], manifest["model"]
    if task["kind"] == "span_predictor":
        yield (
            f"* Questions are cut to {task['max_question_length']} tokens; contexts "
            f"are read in windows of {task['sequence_length']} tokens, whole."
        )
    else:
        yield (
            f"* Texts are cut to {task['sequence_length']} tokens, pairs longest "
            f"first; what is beyond has no influence."
        )
    yield (
        f"* Vocabulary of {task['vocabulary_size']:,} word pieces; words it cannot "
        "spell become [UNK]."
    )
    if not model["mask_convolution"]:
        yield "* Convolutions see the padding, as in the official code."
    if task["fixed_length"]:
        yield "* Every text costs as much as the longest: all are padded to one length."
    yield "* Scores are not calibrated, and say nothing of texts unlike the training's."


def _checks(manifest: Mapping[str, Any]) -> Iterator[str]:
    measured = manifest["measured"]
    yield (
        "Compared with Keras, every id of the vocabulary included: outputs differ by "
        f"at most {measured['max_abs_difference']:.2g} (tolerance "
        f"{measured['tolerance']:.2g})."
    )
    for name in ("weights_sha256", "vocabulary_sha256"):
        yield f"* {name}: `{manifest['model'][name]}`"
