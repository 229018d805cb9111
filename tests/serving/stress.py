"""A server at saturation while its versions change: ``make stress``.

Good, bad, huge, aborted and slow requests, version swaps, a version that cannot be
loaded, label moves; then SIGTERM as the clients stop, and kill -9 and a restart. It
ends with status 1 for a wrong answer, memory that is not given back, or a server that
does not stop; it writes a picture of latency and memory over time.
"""

import argparse
import contextlib
import json
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import requests

from serving.client import ClientError, Retry, connect
from tests.serving.running_server import RunningServer

_CONFIG = """model_config_list {{ config {{
  name: "clf" base_path: "{base}" model_platform: "tensorflow"
  model_version_policy {{ all {{}} }}
  version_labels {{ key: "stable" value: {stable} }}
}} }}
"""
_BATCHING = """max_batch_size {{ value: 8 }} batch_timeout_micros {{ value: 0 }}
num_batch_threads {{ value: 1 }} max_enqueued_batches {{ value: {queue} }}
allowed_batch_sizes: 1 allowed_batch_sizes: 8
"""
TEXTS = ["good movie", "bad movies", "", "good " * 30]


@dataclass
class Record:
    """What the clients saw.

    Attributes:
        latencies: seconds since the start, and milliseconds, of good requests.
        memory: seconds since the start, and MiB.
        events: seconds since the start, and what was done.
        counts: how requests ended.
        wrong: answers that are none of the right ones.
    """

    started: float = field(default_factory=time.monotonic)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def now(self) -> float:
        """Returns the seconds since the start."""
        return time.monotonic() - self.started


class Load:
    """Clients of all kinds, each on threads of its own.

    Args:
        server: what they ask.
        right: the answers to `TEXTS` of each version, even and odd.
        record: takes what they see.
    """

    def __init__(self, server: RunningServer, right: list[Any], record: Record) -> None:
        self._server = server
        self._right = right
        self._record = record
        self._stop = threading.Event()
        port = int(server.rest_url.rsplit(":", 1)[1])
        self._address = ("127.0.0.1", port)
        kinds = [
            *[self._good] * 12,
            *[self._bad, self._huge, self._aborted, self._slow, self._hurried],
        ]
        self._threads = [
            threading.Thread(target=self._repeat, args=(k,)) for k in kinds
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends all clients and waits for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _repeat(self, kind: Any) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                kind(number)
            except (OSError, requests.RequestException) as error:
                if not self._stop.is_set():
                    self._record.counts[f"broken {type(error).__name__}"] += 1
                time.sleep(0.05)

    def _good(self, number: int) -> None:
        url = self._server.rest_url
        if number % 3 == 0:
            url = f"grpc://{self._server.grpc_address}"
        label = "stable" if number % 2 else None
        client = connect(url, "clf", label=label, timeout_s=30, retry=Retry(tries=12))
        started = time.monotonic()
        with client:
            for _ in range(20):
                if self._stop.is_set():
                    return
                started = time.monotonic()
                try:
                    answer = client.predict(TEXTS)
                except ClientError as error:
                    if not self._stop.is_set():
                        self._record.counts[f"good failed {error.code}"] += 1
                        self._record.wrong.append(str(error)[:300])
                    return
                milliseconds = (time.monotonic() - started) * 1000
                self._record.latencies.append((self._record.now(), milliseconds))
                self._record.counts["good"] += 1
                if answer not in self._right:
                    self._record.wrong.append(f"answered {answer}")

    def _expect(self, kind: str, answer: requests.Response, *statuses: int) -> None:
        self._record.counts[f"{kind} {answer.status_code}"] += 1
        if answer.status_code == 503:
            if "retry-after" not in answer.headers:
                self._record.wrong.append(f"{kind}: 503 without Retry-After")
        elif answer.status_code not in statuses:
            self._record.wrong.append(
                f"{kind}: {answer.status_code} {answer.text[:200]}"
            )

    def _bad(self, number: int) -> None:
        bodies = (b"{", b'{"instances": [7]}', b'{"inputs": {"x": ["a"]}}', b"\xff")
        url = f"{self._server.rest_url}/v1/models/clf:predict"
        answer = requests.post(url, data=bodies[number % len(bodies)], timeout=30)
        self._expect("bad", answer, 400)
        time.sleep(0.01)

    def _huge(self, number: int) -> None:
        url = f"{self._server.rest_url}/v1/models/clf:predict"
        body = json.dumps({"instances": ["a"] * 200_000})
        if number % 2:
            body = json.dumps({"instances": ["a" * 9_000_000]})
        answer = requests.post(url, data=body, timeout=30)
        self._expect("huge", answer, 400, 413)
        time.sleep(0.2)

    def _aborted(self, number: int) -> None:
        with socket.create_connection(self._address, timeout=10) as opened:
            opened.sendall(
                b"POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\n"
                b"Content-Length: 100000\r\n\r\n" + b"x" * random.randrange(90_000)
            )
        self._record.counts["aborted"] += 1
        time.sleep(0.05)

    def _slow(self, number: int) -> None:
        with socket.create_connection(self._address, timeout=30) as opened:
            opened.sendall(b"POST /v1/models/clf:predict HTTP/1.1\r\nHost: x\r\n")
            for _ in range(100):
                if self._stop.is_set():
                    return
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    opened.sendall(b"X-Slow: y\r\n")
                time.sleep(0.1)
                opened.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    if opened.recv(100).startswith(b"HTTP/1.1 408"):
                        self._record.counts["slow 408"] += 1
                        return
                opened.setblocking(True)
        self._record.wrong.append("a head that trickled in for 10 s was waited for")

    def _hurried(self, number: int) -> None:
        """Asks with a deadline that cannot be met, then whether it was honoured."""
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

        request = predict_pb2.PredictRequest()
        request.model_spec.name = "clf"
        tensor = request.inputs["text"]
        tensor.dtype = 7
        tensor.tensor_shape.dim.add(size=8)
        tensor.string_val.append(b"good " * 100)
        with grpc.insecure_channel(self._server.grpc_address) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            started = time.monotonic()
            try:
                stub.Predict(request, timeout=0.005)
                self._record.counts["hurried OK"] += 1
            except grpc.RpcError as error:
                self._record.counts[f"hurried {error.code().name}"] += 1
                if time.monotonic() - started > 2:
                    self._record.wrong.append("a deadline of 5 ms took over 2 s")
        time.sleep(0.1)


class Changes:
    """Publishes versions, breaks one, moves the label.

    Args:
        folder: holds ``config``, ``clf/1`` and what is copied as later versions.
        record: takes what was done and when.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self._folder = folder
        self._record = record
        self._version = 1

    def next(self) -> None:
        """Publishes the next version, moves the label to it, retires older ones."""
        version = self._version = self._version + 1
        base = self._folder / "clf"
        if version % 5 == 0:
            (base / f"{version}.tmp").mkdir()
            (base / f"{version}.tmp" / "saved_model.pb").write_bytes(b"broken")
            (base / f"{version}.tmp").rename(base / str(version))
            self._record.events.append((self._record.now(), "broken"))
            self._version = version
            self._broken = base / str(version)
            return
        partial = base / f"{version}.tmp"
        shutil.copytree(self._folder / ("odd" if version % 2 else "even"), partial)
        partial.rename(base / str(version))
        # Moved before the version is loaded: until then it means the old one.
        write_config(self._folder, base, version)
        self._record.events.append((self._record.now(), "swap"))
        time.sleep(3)
        for old in sorted(int(p.name) for p in base.iterdir() if p.name.isdigit()):
            if old < version:
                shutil.rmtree(base / str(old))


def write_config(folder: Path, base: Path, stable: int) -> None:
    """Writes the configuration whose label ``stable`` is a version, at once."""
    partial = folder / "config.tmp"
    partial.write_text(_CONFIG.format(base=base, stable=stable))
    partial.rename(folder / "config")


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
        findings["memory_after_warm_up_mb"] = round(_median(resident[:third]), 1)
        findings["memory_at_end_mb"] = round(_median(resident[-third:]), 1)
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


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else float("nan")


def draw(record: Record, path: Path) -> None:
    """Draws latency and memory over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(9, 5.5))
    seconds, milliseconds = zip(*record.latencies, strict=True)
    top.plot(seconds, milliseconds, ",", color="tab:blue")
    top.set(yscale="log", ylabel="latency of good requests (ms)")
    bottom.plot(*zip(*record.memory, strict=True), color="tab:green")
    bottom.set(xlabel="seconds", ylabel="resident memory (MiB)", ylim=(0, None))
    for second, what in record.events:
        for axes in (top, bottom):
            color = "tab:red" if what == "broken" else "0.8"
            axes.axvline(second, color=color, linewidth=0.7)
    top.set_title(
        "grey: a version is swapped and the label moved; red: a broken version"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def verdict(record: Record, findings: dict[str, Any]) -> list[str]:
    """Returns what does not hold."""
    faults = [f"wrong: {text}" for text in record.wrong[:10]]
    if findings["memory_at_end_mb"] > 1.1 * findings["memory_after_warm_up_mb"]:
        faults.append("memory grew by over 10% after warm-up")
    if not findings["restart"]:
        faults.append("killed and restarted, it does not answer")
    if findings["drain_s"] > 15:
        faults.append("SIGTERM took over 15 s")
    if findings["tracebacks"]:
        faults.append("the log has tracebacks")
    return faults


def main() -> int:
    """Runs it, prints findings as JSON, and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--figure", type=Path, default=Path("stress.png"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        record, findings = stress(Path(name), arguments.seconds)
    draw(record, arguments.figure)
    milliseconds = sorted(value for _, value in record.latencies)
    faults = verdict(record, findings)
    report = {
        "seconds": arguments.seconds,
        "counts": dict(sorted(record.counts.items())),
        "swaps": len(record.events),
        "latency_ms": {
            f"p{p}": round(milliseconds[len(milliseconds) * p // 100], 1)
            for p in (50, 95, 99)
        },
        **findings,
        "faults": faults,
    }
    print(json.dumps(report))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
