"""The stages of the quickstart: each is a command of this project, called as such."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common.command_line import CommandError
from common.files import write_text
from training.pretraining.experiment import load_pretrain
from training.quickstart.data import gather
from training.quickstart.experiment import QuickstartExperiment
from training.run import settings

Stage = Callable[[QuickstartExperiment, Path], Mapping[str, Any]]

MODEL_NAME = "quickstart"
_READY_SECONDS = 120.0


def get_data(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Gets the text: the user's files, or the public reviews.

    Held-out labelled texts do not get into the corpus made here.
    """
    return gather(quickstart, folder)


def prepare(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Makes vocabulary and records."""
    corpus = quickstart.data.corpus.split(":") if quickstart.data.corpus else None
    supernet = quickstart.stage("supernet")
    inputs = corpus or [str(_beside(folder, "data") / "corpus.txt")]
    return _call(
        "training",
        "prepare",
        "--input",
        *inputs,
        "--output",
        str(folder / "records"),
        *("--vocabulary-size", str(quickstart.data.vocabulary_size)),
        *("--sequence-length", str(supernet.data.sequence_length)),
        *("--held-out", str(quickstart.data.held_out)),
        *("--seed", str(quickstart.run.seed)),
    )


def supernet(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Trains the supernet."""
    return _train(quickstart, folder, {"data.directory": _records(folder)})


def search(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Searches the supernet."""
    supernet = str(_beside(folder, "supernet").absolute())
    places = {"data.directory": _records(folder), "scoring.supernet": supernet}
    return _train(quickstart, folder, places)


def pretrain(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Pretrains what the search found, at the sizes of the supernet."""
    winner = load_pretrain(_beside(folder, "search") / "winner.toml")
    model = {f"model.{key}": value for key, value in vars(winner.model).items()}
    return _train(quickstart, folder, {**model, "data.directory": _records(folder)})


def finetune(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Fine-tunes the classifier and measures it on held-out texts."""
    places = {
        "task.name": "tsv",
        "data.directory": str((_beside(folder, "data") / "labelled").absolute()),
        "model.directory": str((_beside(folder, "pretrain") / "model").absolute()),
    }
    return _train(quickstart, folder, places)


def export(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Exports the classifier as SavedModel and as ONNX, each compared with Keras."""
    model = str(_beside(folder, "finetune") / "model")
    saved_model = _call(
        "export",
        "saved-model",
        *("--model", model),
        *("--output", str(folder / MODEL_NAME)),
        *("--version", "1"),
        unless=folder / MODEL_NAME / "1",
        memory=folder / "saved_model.json",
    )
    onnx = _call(
        "export",
        "onnx",
        *("--model", model),
        *("--output", str(folder / "onnx")),
        unless=folder / "onnx",
        memory=folder / "onnx.json",
    )
    return {"saved_model": saved_model, "onnx": onnx}


def serve(quickstart: QuickstartExperiment, folder: Path) -> dict[str, Any]:
    """Serves the SavedModel on loopback and asks it about some texts."""
    texts = json.loads((_beside(folder, "data") / "ask.json").read_text("utf-8"))
    base = _beside(folder, "export") / MODEL_NAME
    command = [
        *_command("serving", "serve"),
        *("--model", f"{MODEL_NAME}={base}"),
        *("--host", "127.0.0.1", "--rest-port", "0", "--grpc-port", "0"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = _wait_until_ready(server)
            answer = _call(
                "serving",
                "predict",
                *("--url", address["rest"]),
                *("--model", MODEL_NAME),
                "--",
                *texts,
            )
        finally:
            server.terminate()
            server.communicate()  # it has a last word to print
    answers = [
        {"text": text, **(reply if isinstance(reply, dict) else {"answer": reply})}
        for text, reply in zip(texts, answer["predictions"], strict=True)
    ]
    return {"answers": answers}


STAGES: Mapping[str, Stage] = {
    "data": get_data,
    "prepare": prepare,
    "supernet": supernet,
    "search": search,
    "pretrain": pretrain,
    "finetune": finetune,
    "export": export,
    "serve": serve,
}
"""In the order in which they run; each reads what those before it wrote."""


def _train(
    quickstart: QuickstartExperiment, folder: Path, later: Mapping[str, Any]
) -> dict[str, Any]:
    """Runs the stage of a folder with its own configuration, written beside it."""
    stage = folder.name
    config = folder.with_suffix(".toml")
    write_text(config, settings.to_toml(quickstart.stage(stage, later), stage))
    return _call("training", stage, "--config", str(config), "--run-dir", str(folder))


def _records(folder: Path) -> str:
    return str((_beside(folder, "prepare") / "records").absolute())


def _beside(folder: Path, stage: str) -> Path:
    return folder.parent / stage


def _command(application: str, command: str) -> list[str]:
    return [sys.executable, "-m", application, command]


def _call(
    application: str,
    command: str,
    *arguments: str,
    unless: Path | None = None,
    memory: Path | None = None,
) -> dict[str, Any]:
    """Runs a command of this project and returns the object it printed last.

    Args:
        application: `training`, `export` or `serving`.
        command: its subcommand.
        *arguments: of the command.
        unless: an output that the command refuses to overwrite. If it is there, whole
            as commands leave outputs, an earlier call made it: it isn't run again.
        memory: where the object of that earlier call is kept.

    Raises:
        CommandError: if the command fails; it has said why on stderr.
    """
    if unless is not None and unless.exists():
        if memory is not None and memory.exists():
            stored: dict[str, Any] = json.loads(memory.read_text("utf-8"))
            return stored
        return {"path": str(unless)}
    done = subprocess.run(
        [*_command(application, command), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(
            f"`python -m {application} {command}` failed with exit status "
            f"{done.returncode}; the reason stands above. The same quickstart command "
            "goes on from here"
        )
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if memory is not None:
        write_text(memory, json.dumps(result, indent=2) + "\n")
    return result


def _wait_until_ready(server: subprocess.Popen[str]) -> dict[str, Any]:
    """Returns the server's first line: its addresses."""
    import threading

    # A server that hangs must not hang the quickstart.
    timer = threading.Timer(_READY_SECONDS, server.kill)
    timer.start()
    try:
        line = server.stdout.readline() if server.stdout else ""
    finally:
        timer.cancel()
    try:
        address: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise CommandError(
            f"`python -m serving serve` did not get ready, it printed {line!r}"
        ) from error
    return address
