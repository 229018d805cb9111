"""A server at saturation while its versions change: ``make stress``.

Good, bad, huge, aborted and slow requests, version swaps, a version that cannot be
loaded, label moves; then SIGTERM as the clients stop, and kill -9 and a restart. It
ends with status 1 for a wrong answer, memory that is not given back, or a server that
does not stop; it writes a picture of latency and memory over time.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.serving.stress.record import draw, verdict
from tests.serving.stress.run import stress


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
