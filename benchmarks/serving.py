"""How fast the embedded server answers: ``python -m benchmarks.serving --model BASE``.

It starts the server as a process of its own, so that client and server do not share an
interpreter, and runs ``serving bench`` over REST and gRPC, one by one and concurrently,
with and without batching. Beside it stands what the SavedModel does when it is called
in a process with the same texts, one at a time and in batches of 32. All kinds take
turns in each repetition, so that a disturbance meets them alike. Rates are medians over
the repetitions, beside the spread; client and server share the machine, so they are
lower bounds.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import REPOSITORY, printed_in_new_process

_BATCHING = REPOSITORY / "serving" / "deploy" / "batching.config"
_BATCH = 32
# In a process: not measured, and measured at least.
_WARM_UP_CALLS, _LEAST_CALLS = 3, 5
_PERCENTILES = (50, 90, 95, 99)
_PACKAGES = ("tensorflow", "tensorflow-text", "grpcio", "uvicorn", "h11")


class Key(NamedTuple):
    """What is measured: how it is asked, with batching or not, how many at a time."""

    protocol: str
    batching: bool
    concurrency: int


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints a table on stderr and JSON on stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", type=Path, required=True, metavar="BASE", help="an exported model"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for each figure")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--texts", type=Path, help="texts to send, one a line")
    parser.add_argument("--output", type=Path, help="also write the JSON here")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        arguments.texts = arguments.texts or _write_texts(Path(name))
        runs = _interleaved(arguments)
    results = [_summary(key, values) for key, values in runs.items()]
    for result in results:
        _show(result)
    compared = _compared(results)
    print(json.dumps(compared, indent=1), file=sys.stderr)
    report = json.dumps(
        {
            "benchmark": "serving",
            **_machine(),
            "results": results,
            "compared": compared,
        }
    )
    print(report)
    if arguments.output:
        partial = arguments.output.with_name(f"{arguments.output.name}.partial")
        partial.write_text(report)
        partial.rename(arguments.output)
    return 0


@contextmanager
def _server(model: Path, batching: bool) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "serving", "serve", "--model", f"bench={model}"]
    command += ["--rest-port", "0", "--grpc-port", "0"]
    if batching:
        command += ["--batching", str(_BATCHING)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                process.wait()
                log.seek(0)
                sys.exit(f"the server did not start:\n{log.read().decode()}")
            yield json.loads(line)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _interleaved(arguments: argparse.Namespace) -> dict[Key, list[dict[str, Any]]]:
    """Runs everything in turn, as often as was asked for."""
    runs: dict[Key, list[dict[str, Any]]] = {}
    with (
        _server(arguments.model, False) as single,
        _server(arguments.model, True) as together,
    ):
        for _ in range(arguments.repetitions):
            for batch in (1, _BATCH):
                key = Key("in process", False, batch)
                runs.setdefault(key, []).append(_in_process(arguments, batch))
            for batching, ready in ((False, single), (True, together)):
                for protocol, url in (
                    ("REST", ready["rest"]),
                    ("gRPC", f"grpc://{ready['grpc']}"),
                ):
                    for concurrency in arguments.concurrency:
                        key = Key(protocol, batching, concurrency)
                        runs.setdefault(key, []).append(
                            _bench(arguments, url, concurrency)
                        )
    return runs


def _bench(arguments: argparse.Namespace, url: str, concurrency: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "serving", "bench", "--url", url]
    command += ["--model", "bench", "--concurrency", str(concurrency)]
    command += ["--seconds", str(arguments.seconds)]
    command += ["--texts", str(arguments.texts.absolute())]
    output = subprocess.run(
        command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    run: dict[str, Any] = json.loads(output.splitlines()[-1])
    return run


def _in_process(arguments: argparse.Namespace, batch: int) -> dict[str, Any]:
    """Calls the SavedModel in a process of its own; the same figures as `_bench`."""
    call = f"in_process({str(_newest(arguments.model))!r}, "
    call += f"{str(arguments.texts.absolute())!r}, {batch}, {arguments.seconds})"
    lines = printed_in_new_process(f"from benchmarks.serving import in_process; {call}")
    run: dict[str, Any] = json.loads(lines[-1])
    return run


def in_process(folder: str, texts_file: str, batch: int, seconds: float) -> None:
    """Calls a version's default signature for some seconds; prints JSON.

    Args:
        folder: the version.
        texts_file: texts, one a line.
        batch: texts in a call.
        seconds: how long to measure, after some calls to warm up.
    """
    import numpy as np

    from common.saved_model_session import SavedModelSession

    texts = [line.encode() for line in Path(texts_file).read_text().splitlines()]
    texts = [text for text in texts if text.strip()]
    arrays = []
    for start in range(0, len(texts) * batch, batch):
        array = np.empty(batch, object)
        array[:] = [texts[(start + n) % len(texts)] for n in range(batch)]
        arrays.append(array)
    latencies: list[float] = []
    with SavedModelSession(Path(folder)) as session:
        for array in arrays[:_WARM_UP_CALLS]:
            session.run("serving_default", {"text": array})
        begin = time.perf_counter()
        for array in itertools.cycle(arrays):
            started = time.perf_counter()
            if started - begin > seconds and len(latencies) >= _LEAST_CALLS:
                break
            session.run("serving_default", {"text": array})
            latencies.append(1000 * (time.perf_counter() - started))
    latencies.sort()
    report = {
        "requests_per_second": 1000 * len(latencies) / sum(latencies),
        "texts_per_second": 1000 * batch * len(latencies) / sum(latencies),
        "latency_ms": {
            f"p{p}": latencies[len(latencies) * p // 100] for p in _PERCENTILES
        },
        "errors": 0,
    }
    print(json.dumps(report))


def _summary(key: Key, runs: list[dict[str, Any]]) -> dict[str, Any]:
    rates = [run["texts_per_second"] for run in runs]
    return {
        **key._asdict(),
        "texts_per_second": statistics.median(rates),
        "spread": [min(rates), max(rates)],
        "latency_ms": {
            f"p{p}": statistics.median(run["latency_ms"][f"p{p}"] for run in runs)
            for p in _PERCENTILES
        },
        "errors": sum(run["errors"] for run in runs),
        "repetitions": len(runs),
    }


def _compared(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns what a server costs, against calls in a process."""
    table = {Key(r["protocol"], r["batching"], r["concurrency"]): r for r in results}

    def p50(protocol: str, batching: bool) -> float:
        return float(table[Key(protocol, batching, 1)]["latency_ms"]["p50"])

    def rate(protocol: str, batching: bool, concurrency: int) -> float:
        return float(table[Key(protocol, batching, concurrency)]["texts_per_second"])

    concurrencies = {key.concurrency for key in table if key.batching}
    compared: dict[str, dict[str, float]] = {}
    for protocol in ("REST", "gRPC"):
        compared[protocol] = figures = {}
        if _BATCH in concurrencies:
            figures["share_of_batches_in_process"] = rate(
                protocol, True, _BATCH
            ) / rate("in process", False, _BATCH)
        if 1 in concurrencies:
            alone = p50("in process", False)
            figures["ms_over_in_process"] = p50(protocol, False) - alone
            figures["ms_over_in_process_with_batching"] = p50(protocol, True) - alone
            figures["slower_by_batching"] = p50(protocol, True) / p50(protocol, False)
    return compared


def _newest(base: Path) -> Path:
    versions = [int(path.name) for path in base.iterdir() if path.name.isdigit()]
    if not versions:
        sys.exit(f"--model: {base}: expected a folder of numbered versions")
    return (base / str(max(versions))).absolute()


def _write_texts(folder: Path) -> Path:
    from serving.bench import TEXTS

    path = folder / "texts"
    path.write_text("\n".join(TEXTS))
    return path


def _machine() -> dict[str, Any]:
    return {
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count()},
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    }


def _show(result: dict[str, Any]) -> None:
    batching = "batching" if result["batching"] else "single  "
    print(
        f"{result['protocol']:10} {batching} {result['concurrency']:3d} at a time: "
        f"{result['texts_per_second']:8.1f} texts/s "
        f"({result['spread'][0]:.1f} to {result['spread'][1]:.1f}), "
        f"p50 {result['latency_ms']['p50']:.2f} ms, "
        f"p99 {result['latency_ms']['p99']:.2f} ms, {result['errors']} errors",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
