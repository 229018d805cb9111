"""``python -m benchmarks [NAME...]``: runs the suite; JSON on stdout and in a file."""

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from common.command_line import json_safe

SUITE = (
    "data_preparation",
    "dynamic_conv",
    "encoder",
    "supernet_step",
    "supernet_limits",
    "finetuning_speed",
    "export_latency",
    "latency_table",
    "search_racing",
    "search_scoring",
)


def main() -> int:
    """Runs the benchmarks that were named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SUITE))
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks.json"))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(SUITE)
    if unknown:
        parser.error(f"unknown: {sorted(unknown)}; known: {', '.join(SUITE)}")
    results: dict[str, Any] = {"machine": machine()}
    for name in arguments.names or SUITE:
        start = time.perf_counter()
        results[name] = importlib.import_module(f"benchmarks.{name}").run()
        results[name]["seconds"] = time.perf_counter() - start
        for key, value in _figures(results[name]):
            print(f"{name:16s} {key:44s} {value:10.3f}", file=sys.stderr)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(json_safe(results), indent=1) + "\n")
    print(json.dumps(json_safe(results)))
    return 0


def _figures(result: Any, prefix: str = "") -> list[tuple[str, float]]:
    """Returns every number of a result with its path, without raw timings' spread."""
    if isinstance(result, (int, float)):
        return [(prefix, float(result))]
    items = (
        result.items()
        if isinstance(result, dict)
        else enumerate(result)
        if isinstance(result, list)
        else ()
    )
    return [
        figure
        for key, value in items
        if key not in {"spread", "fastest"}
        for figure in _figures(value, f"{prefix}.{key}" if prefix else str(key))
    ]


if __name__ == "__main__":
    sys.exit(main())
