"""How fast the embedded server answers: ``python -m benchmarks.serving --model BASE``.

It starts the server as a process of its own, so that client and server do not share an
interpreter, and runs ``serving bench`` over REST and gRPC, one by one and concurrently,
with and without batching. Rates are medians over the repetitions, beside the spread;
client and server share the machine, so they are lower bounds.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import REPOSITORY

_BATCHING = REPOSITORY / "serving" / "deploy" / "batching.config"
_PACKAGES = ("tensorflow", "tensorflow-text", "grpcio", "uvicorn", "h11")


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
    results = []
    for batching in (False, True):
        with _server(arguments.model, batching) as ready:
            for protocol, url in (
                ("REST", ready["rest"]),
                ("gRPC", f"grpc://{ready['grpc']}"),
            ):
                for concurrency in arguments.concurrency:
                    result = _measure(arguments, url, concurrency)
                    result |= {"protocol": protocol, "batching": batching}
                    results.append(result)
                    _show(result)
    report = json.dumps({"benchmark": "serving", **_machine(), "results": results})
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


def _measure(
    arguments: argparse.Namespace, url: str, concurrency: int
) -> dict[str, Any]:
    command = [sys.executable, "-m", "serving", "bench", "--url", url]
    command += ["--model", "bench", "--concurrency", str(concurrency)]
    command += ["--seconds", str(arguments.seconds)]
    if arguments.texts:
        command += ["--texts", str(arguments.texts.absolute())]
    runs = []
    for _ in range(arguments.repetitions):
        output = subprocess.run(
            command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        runs.append(json.loads(output.splitlines()[-1]))
    rates = [run["requests_per_second"] for run in runs]
    return {
        "concurrency": concurrency,
        "requests_per_second": statistics.median(rates),
        "spread": [min(rates), max(rates)],
        "latency_ms": {
            name: statistics.median(run["latency_ms"][name] for run in runs)
            for name in ("p50", "p90", "p95", "p99")
        },
        "errors": sum(run["errors"] for run in runs),
        "repetitions": len(runs),
    }


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
        f"{result['protocol']} {batching} {result['concurrency']:3d} at a time: "
        f"{result['requests_per_second']:8.1f} requests/s "
        f"({result['spread'][0]:.1f} to {result['spread'][1]:.1f}), "
        f"p50 {result['latency_ms']['p50']:.2f} ms, "
        f"p99 {result['latency_ms']['p99']:.2f} ms, {result['errors']} errors",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
