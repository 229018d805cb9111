"""Starts a server, loads it while it changes, stops and kills it."""

import shutil
import signal
import time
from pathlib import Path
from typing import Any

from serving.client import connect
from tests.serving.running_server import RunningServer
from tests.serving.stress.changes import Changes, write_config
from tests.serving.stress.load import TEXTS, Load
from tests.serving.stress.record import Record, median

_BATCHING = """max_batch_size {{ value: 8 }} batch_timeout_micros {{ value: 0 }}
num_batch_threads {{ value: 1 }} max_enqueued_batches {{ value: {queue} }}
allowed_batch_sizes: 1 allowed_batch_sizes: 8
"""


def stress(folder: Path, seconds: float) -> tuple[Record, dict[str, Any]]:
    """Runs everything; returns what was seen, and the findings that must hold."""
    from tests.serving.toy_models import save_classifier

    save_classifier(folder / "odd", seed=1)
    save_classifier(folder / "even", seed=2)
    base = folder / "clf"
    base.mkdir()
    shutil.copytree(folder / "odd", base / "1")
    write_config(folder, base, 1)
    (folder / "batching").write_text(_BATCHING.format(queue=2))
    arguments = ["--config", str(folder / "config"), "--poll-config"]
    arguments += ["--batching", str(folder / "batching"), "--read-timeout-ms", "1500"]
    server = RunningServer(folder / "log", *arguments)
    right = []
    record = Record()
    findings: dict[str, Any] = {}
    try:
        right = _answers(server, folder, base)
        load = Load(server, right, record)
        changes = Changes(folder, record)
        load.start()
        warm = max(seconds * 0.25, 10.0)
        next_change = 3.0
        while record.now() < seconds:
            record.memory.append((record.now(), server.resident_mb()))
            if record.now() >= next_change:
                changes.next()
                next_change = record.now() + max(seconds / 60, 4.0)
            time.sleep(0.2)
        resident = [mb for second, mb in record.memory if second >= warm]
        third = max(len(resident) // 3, 1)
        findings["memory_after_warm_up_mb"] = round(median(resident[:third]), 1)
        findings["memory_at_end_mb"] = round(median(resident[-third:]), 1)
        # Stopped while all of it comes: what runs is answered, then it ends.
        drain = time.monotonic()
        load._stop.set()
        findings["stopped"] = server.stop(signal.SIGTERM)
        findings["drain_s"] = round(time.monotonic() - drain, 2)
        load.stop()
        findings["restart"] = _killed_and_restarted(folder, arguments, right)
    finally:
        server.kill()
    findings["tracebacks"] = (folder / "log").read_text().count("Traceback")
    return record, findings


def _answers(server: RunningServer, folder: Path, base: Path) -> list[Any]:
    """Returns what both models answer, asked while nothing else happens."""
    with connect(server.rest_url, "clf") as client:
        answers = [client.predict(TEXTS)]
        shutil.copytree(folder / "even", folder / "even.tmp")
        (folder / "even.tmp").rename(base / "2")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer = client.predict(TEXTS)
            if answer != answers[0]:
                shutil.rmtree(base / "2")
                time.sleep(3)
                return [*answers, answer]
            time.sleep(0.1)
    raise AssertionError("the second version was not loaded in 60 s")


def _killed_and_restarted(folder: Path, arguments: list[str], right: list[Any]) -> bool:
    """Kills a server and starts it anew on what lies there; returns if it answers."""
    for name in ("killed", "restarted"):
        server = RunningServer(folder / name, *arguments)
        try:
            with connect(server.rest_url, "clf") as client:
                answered = client.predict(TEXTS) in right
        finally:
            server.kill()  # kill -9
    return answered
