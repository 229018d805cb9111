"""``python -m benchmarks.search_books``: evolution against random search, on books.

Prepares a corpus, trains a tiny supernet for some minutes, searches it by both methods
with several seeds at equal numbers of evaluations, and scores what they found once more
on documents that nothing has seen, with other masks. Each step is a command of
`training`; a step that is done is not done again.
"""

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_MODEL = (
    "model.embedding_dim=64",
    "model.hidden_dim=64",
    "model.intermediate_dim=256",
    "model.num_heads=2",
    "model.max_sequence_length=128",
    "model.dropout=0.0",
    "model.attention_dropout=0.0",
    "optimizer.learning_rate=1e-3",
    "optimizer.warmup_steps=300",
    "run.log_every=100",
    "run.evaluate_every=0",
    "data.validation_examples=256",
)


def main() -> int:
    """Runs all steps; JSON as the last line of stdout."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_books")
    parser.add_argument("--corpus", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--unseen", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--output", type=Path, default=Path("runs/search_books"))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--picture", type=Path, help="copy the plot there")
    options = parser.parse_args()
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    records, unseen = folder / "records", folder / "unseen"
    supernet, search = folder / "supernet", folder / "search"
    if not (records / "index.json").exists():
        _train(
            *("prepare", "--input", *options.corpus, "--output", str(records)),
            *("--vocabulary-size", "8000", "--held-out", "0.04"),
        )
    if not (unseen / "index.json").exists():
        _train(
            *("prepare", "--input", *options.unseen, "--output", str(unseen)),
            *("--vocabulary", str(records / "vocab.txt"), "--held-out", "0.2"),
        )
    settings = (
        *_MODEL,
        f"model.num_layers={options.layers}",
        f"run.steps={options.steps}",
        f"run.batch_size={options.batch_size}",
        f"run.checkpoint_every={options.steps}",
    )
    _train(
        *("supernet", "--data", str(records), "--run-dir", str(supernet)),
        *(word for setting in settings for word in ("--set", setting)),
    )
    searched = _train(
        *("search", "--supernet", str(supernet), "--data", str(records)),
        *("--run-dir", str(search), "--method", "both"),
        *("--seeds", str(options.seeds), "--examples", str(options.examples)),
        *("--population", str(options.population)),
        *("--iterations", str(options.iterations)),
        *("--crossover", str(options.population // 2)),
        *("--mutation", str(options.population - options.population // 2)),
        # What is compared below are accuracies.
        *("--fitness", "accuracy"),
    )
    tops = _tops(search)
    names = sorted({name for top in tops.values() for name in top})
    again = _train(
        *("evaluate", "--supernet", str(supernet), "--data", str(unseen)),
        *("--seed", "1", "--examples", str(options.examples)),
        *("--architecture", *names),
    )["results"]
    unseen_accuracy = {result["architecture"]: result["accuracy"] for result in again}
    result = {
        "evaluations_per_search": searched["searches"][0]["evaluations"],
        "searched": compare(
            {
                (result["method"], result["seed"]): result["top_mean"]
                for result in searched["searches"]
            }
        ),
        "unseen": compare(
            {
                key: statistics.mean(unseen_accuracy[name] for name in top)
                for key, top in tops.items()
            }
        ),
        "standard_error_of_one_score": again[0]["standard_error"],
        "masked_tokens": again[0]["masked_tokens"],
        "letters": searched["letters"],
        "explained": searched["explained"],
        "seconds": searched["seconds"],
    }
    if options.picture:
        shutil.copyfile(search / "search.png", options.picture)
    print(json.dumps(result))
    return 0


def compare(means: dict[tuple[str, int], float]) -> dict[str, Any]:
    """Compares the methods' means of the top 10, seed by seed.

    Args:
        means: (method, seed) to the mean accuracy of the search's top 10.

    Returns:
        `evolution` and `random`: their means over the seeds and the values; and
        `difference`, evolution minus random, with its 95% interval (Student's t over
        the seeds), which is None for a single seed.
    """
    seeds = sorted({seed for _, seed in means})
    values = {
        method: [means[method, seed] for seed in seeds]
        for method in ("evolution", "random")
    }
    differences = [
        a - b for a, b in zip(values["evolution"], values["random"], strict=True)
    ]
    return {
        **{
            method: {"mean": statistics.mean(own), "by_seed": own}
            for method, own in values.items()
        },
        "difference": statistics.mean(differences),
        "interval": _interval(differences),
    }


def _interval(values: Sequence[float]) -> list[float] | None:
    from scipy import stats

    if len(values) < 2:
        return None
    error = statistics.stdev(values) / math.sqrt(len(values))
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * error
    middle = statistics.mean(values)
    return [middle - reach, middle + reach]


def _tops(search: Path) -> dict[tuple[str, int], list[str]]:
    """The last top candidates of every search, from the merged log."""
    tops = {}
    for line in (search / "search.jsonl").read_text("utf-8").splitlines():
        content = json.loads(line)
        if content["kind"] == "iteration":
            key = (content["method"], content["seed"])
            tops[key] = [result["architecture"] for result in content["top"]]
    return tops


def _train(*words: str) -> dict[str, Any]:
    print("python -m training", *words, file=sys.stderr)
    command = [sys.executable, "-m", "training", *words]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(output.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    sys.exit(main())
