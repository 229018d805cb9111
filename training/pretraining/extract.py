"""``extract``: one architecture of a supernet as a model of its own."""

import json
from pathlib import Path
from typing import Any

import keras

from common.command_line import CommandError, UsageError
from common.files import write_directory
from lvbert_tf import Architecture, LVBertMaskedLMPreprocessor
from training.pretraining import trained_supernet
from training.pretraining.stage import write_provenance
from training.run.directory import RunDirectory


def run(
    supernet_dir: Path,
    architecture: "Architecture",
    output: Path,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes a path of the supernet, weights and all, as a preset directory.

    Args:
        supernet_dir: run directory of the supernet.
        architecture: the path.
        output: directory to write: an `LVBertMaskedLM` with its tokenizer.
        overwrite: whether `output` may exist.

    Returns:
        `model`, the directory, and `architecture`.

    Raises:
        UsageError: if the path is not one of the supernet's, or `output` exists.
    """
    if output.exists() and not overwrite:
        raise UsageError(
            f"--output {output}: exists already; choose another name or --overwrite"
        )
    trained = trained_supernet.load(supernet_dir)
    source = RunDirectory(supernet_dir).model
    if not source.is_dir():
        raise CommandError(
            f"--supernet {supernet_dir}: expected a finished run, found one that "
            f"stopped at step {trained.step} of {trained.settings.run.steps}; run "
            "`supernet` again with the same --run-dir"
        )
    try:
        model = trained.model.extract(architecture)
    except ValueError as error:
        raise UsageError(f"--architecture: {error}") from error
    tokenizer = _tokenizer(source)
    model.preprocessor = LVBertMaskedLMPreprocessor(
        tokenizer, sequence_length=trained.settings.data.sequence_length
    )

    def write(path: Path) -> None:
        model.save_to_preset(str(path))
        write_provenance(path, trained.settings, tokenizer.vocabulary_sha256)

    write_directory(output, write)
    return {
        "model": str(output),
        "architecture": str(architecture),
        "supernet_step": trained.step,
    }


def _tokenizer(preset: Path) -> Any:
    """Returns the tokenizer beside a supernet.

    `from_preset` looks for a tokenizer class of the supernet's own; the one there is
    that of every LV-BERT model.
    """
    config = json.loads((preset / "tokenizer.json").read_text("utf-8"))
    tokenizer = keras.saving.deserialize_keras_object(config)
    tokenizer.load_preset_assets(str(preset))
    return tokenizer
