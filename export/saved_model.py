"""Exports a model as a version that TensorFlow Serving loads."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from common.saved_model_session import SavedModelSession
from export.graph_ops import check_operations, operations
from export.half_precision import (
    accuracy_gate,
    precision_entry,
    precision_tolerance,
)
from export.heads import head_of
from export.inference_graph import InferenceGraph
from export.manifest import (
    MANIFEST_FILE,
    describe_artefact,
    file_entries,
    other_model,
    read_manifest,
    write_manifest,
)
from export.model_card import write_model_card
from export.noise import measured_tolerance
from export.parity import (
    SAVED_MODEL_TOLERANCE,
    Case,
    Comparison,
    token_cases,
)
from export.publication import published, version_directory
from export.signatures import (
    CLASSIFY,
    SCORES_ONLY,
    SERVING_DEFAULT,
    TEXT_INPUTS,
    TOKENS,
    saved_model_signatures,
)
from export.stored_signatures import check_signatures
from export.task import Task, describe_task
from export.vocabulary_cases import vocabulary_cases
from export.warm_up import stubs_installed, write_warm_up

WARM_UP_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)
"""What ``serving/deploy/batching.config`` allows; a test compares them."""
EXTRA = "assets.extra"
"""Folder of a version for files that servers ignore, the manifest among them."""


@dataclass(frozen=True)
class HalfPrecision:
    """A model in bfloat16 and what it must still be good at.

    Attributes:
        model: the model.
        evaluation_file: labelled examples.
        max_drop: how many points the metric may fall against float32.
    """

    model: Any
    evaluation_file: Path
    max_drop: float


def export_saved_model(
    model: Any,
    base: str | Path,
    version: int | str | None = None,
    *,
    pairs: bool = False,
    model_name: str | None = None,
    warm_up: bool | None = None,
    warm_up_batch_sizes: Sequence[int] = WARM_UP_BATCH_SIZES,
    allowed_ops: Collection[str] = (),
    tolerance: float | None = None,
    provenance: Mapping[str, Any] | None = None,
    truncated: bool = False,
    scores_only: bool = False,
    half: "HalfPrecision | None" = None,
) -> dict[str, Any]:
    """Writes ``BASE/VERSION``, after comparing it with Keras.

    Args:
        model: a model of a kind in `export.heads`, with its preprocessor.
        base: the model's folder, which holds its versions.
        version: a positive integer that is free; None takes the next one.
        pairs: whether a classifier takes pairs of texts.
        model_name: the name in the warm-up requests; by default the base's.
        warm_up: whether to write warm-up requests; None: where the stubs that it
            needs are installed.
        warm_up_batch_sizes: rows of the warm-up requests.
        allowed_ops: operations to allow besides those in `export.graph_ops`.
        tolerance: largest difference of scores from Keras's; None measures the
            model's rounding noise.
        provenance: content of the model directory's ``training.json``, for the card.
        truncated: whether answers to texts say which of them were cut.
        scores_only: whether to add the signature ``scores_only``.
        half: a copy of the model that computes in bfloat16, which is exported in its
            place; None exports `model`.

    Returns:
        What the command prints: ``path``, ``version``, ``signatures``, ``ops``,
        ``minimum_tf_serving``, ``max_abs_difference``, ``tolerance``,
        ``warm_up_records`` (0 where none were written).

    Raises:
        UsageError: for an argument that won't do.
        CommandError: if the version differs from Keras, or holds operations that
            servers lack. Nothing is left then.
    """
    base = Path(base)
    task = describe_task(model, pairs, truncated=truncated, scores_only=scores_only)
    final = version_directory(base, version)
    table = saved_model_signatures(task)
    with published(final) as folder:
        served = model if half is None else half.model
        graph = InferenceGraph(served, task)
        tf.saved_model.save(graph, str(folder), signatures=graph.signatures())
        names = operations(folder)
        minimum = check_operations(names, allowed_ops)
        records = 0
        if warm_up or (warm_up is None and stubs_installed()):
            records = write_warm_up(
                folder, model_name or base.name, task, warm_up_batch_sizes
            )
        elif warm_up is None:
            print(
                "no warm-up requests: tensorflow-serving-api is not installed",
                file=sys.stderr,
            )
        with SavedModelSession(folder) as session:
            check_signatures(session.definitions, table)
            if half is not None and tolerance is None:
                cases = token_cases(served, task)
                tolerance = precision_tolerance(served, model, task, cases)
            comparison = compare_saved_model(session, served, task, tolerance)
            comparison.verify()
            agreement = (
                {}
                if half is None
                else accuracy_gate(
                    session, model, task, half.evaluation_file, half.max_drop
                )
            )
        files = sorted(
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file()
        )
        extra = folder / EXTRA
        extra.mkdir(exist_ok=True)
        manifest = describe_artefact(
            model,
            task,
            comparison,
            kind="saved_model",
            files=file_entries(folder, files),
            ops=names,
            minimum_tf_serving=minimum,
            **(precision_entry(agreement) if agreement else {}),
        )
        write_manifest(extra, manifest)
        write_model_card(extra, manifest, provenance or {})
    return {
        "path": str(final),
        "version": int(final.name),
        "signatures": {name: table[name].as_json() for name in table},
        "ops": names,
        "minimum_tf_serving": minimum,
        "max_abs_difference": comparison.max_abs_difference,
        "tolerance": comparison.tolerance,
        "warm_up_records": records,
        **({"precision": "bfloat16", "agreement": agreement} if agreement else {}),
    }


def compare_saved_model(
    session: SavedModelSession, model: Any, task: Task, tolerance: float | None
) -> Comparison:
    """Compares all signatures of a loaded version with Keras.

    Raises:
        ParityError: if they cannot be compared, or labels are wrong. Whether scores
            differ too much, `Comparison.verify` says.
    """
    cases = token_cases(model, task)
    if tolerance is None:
        tolerance = measured_tolerance(model, task, cases, SAVED_MODEL_TOLERANCE)
    head = head_of(task)
    comparison = Comparison(tolerance)

    def compare(signature: str, case: Case) -> None:
        outputs = session.run(signature, case.inputs)
        comparison.add(case, head.comparable(case.inputs, outputs))
        if signature not in (CLASSIFY, SCORES_ONLY):
            head.check_answers(case, outputs, task)

    for case in (*cases, *vocabulary_cases(model, task)):
        compare(TOKENS, case)
    for case in head.text_cases(model, task):
        compare(SERVING_DEFAULT, case)
        if task.scores_only:
            compare(SCORES_ONLY, Case(f"{case.name} alone", case.inputs, case.outputs))
        if CLASSIFY in session.definitions:
            name = f"{case.name} as examples"
            compare(CLASSIFY, Case(name, _examples(case), case.outputs))
    return comparison


def check_saved_model(
    folder: Path, model: Any, tolerance: float | None = None
) -> Comparison:
    """Compares a stored version with Keras, its checksums first.

    Args:
        folder: a version's folder.
        model: the model.
        tolerance: largest difference of scores; None measures the model's noise.

    Raises:
        CommandError: if a file was altered, a signature is not as in the table, or the
            outputs cannot be compared.
    """
    others: list[str] | None = None
    if (folder / EXTRA / MANIFEST_FILE).exists():
        manifest = read_manifest(folder / EXTRA, files_below=folder)
        others = other_model(manifest, model)
        if "precision" in manifest and tolerance is None:
            # Four times what bfloat16 moved outputs when it was made.
            tolerance = float(manifest["measured"]["tolerance"])
    with SavedModelSession(folder) as session:
        outputs = session.output_names(SERVING_DEFAULT)
        task = describe_task(
            model,
            pairs=TEXT_INPUTS[1] in session.input_names(SERVING_DEFAULT),
            truncated="truncated" in outputs,
            scores_only=SCORES_ONLY in session.definitions,
        )
        check_signatures(session.definitions, saved_model_signatures(task))
        comparison = compare_saved_model(session, model, task, tolerance)
    comparison.other_model = others
    return comparison


def _examples(case: Case) -> dict[str, Any]:
    """Returns the inputs of a text case as those of the classify signature."""
    rows = zip(*case.inputs.values(), strict=True)
    serialized = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
                    for name, value in zip(case.inputs, row, strict=True)
                }
            )
        ).SerializeToString()
        for row in rows
    ]
    return {"inputs": np.array(serialized, dtype=object)}
