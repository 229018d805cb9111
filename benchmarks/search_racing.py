"""Searches with and without racing over a recorded table of scores.

`search_racing_table.npz` holds, for each of the 3^7 architectures of a supernet of
seven layers (hidden 64, trained for 1,500 steps on books) and each of some hundred
held-out examples, how many of its masked tokens the architecture predicts right with
inherited weights: recorded once by `record`, so that searches take seconds.
"""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TABLE = Path(__file__).with_name("search_racing_table.npz")
SEARCHES = 20
FIRST_SEED = 20
"""The number of standard errors was chosen by looking at searches with lower seeds."""
ROWS = 16


class RecordedRows:
    """A `training.scoring.score.RowScorer` that looks everything up."""

    identity = "recorded"

    def __init__(self, file: Path = TABLE) -> None:
        with np.load(file) as content:
            self._correct = content["correct"]  # (architectures, examples)
            self._weight = content["weight"]  # (examples,)
        length = round(np.log(len(self._correct)) / np.log(3))
        names = [
            "".join(letters) for letters in itertools.product("csf", repeat=length)
        ]
        self._index = {name: i for i, name in enumerate(names)}
        self.num_layers = length
        self.num_batches = len(self._weight) // ROWS

    def rows(
        self, number: int, candidates: Sequence[str], keep: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        """Returns loss (not recorded: 0), correct, number, twice."""
        place = slice(number * ROWS, (number + 1) * ROWS)
        correct = self._correct[[self._index[c] for c in candidates], place]
        weight = np.broadcast_to(self._weight[place], correct.shape)
        sums = [np.zeros(correct.shape), correct, weight]
        return np.stack([*sums, *sums], axis=1).astype(float)

    def accuracies(self) -> dict[str, float]:
        """Returns the score of every architecture on all examples."""
        rows = self.num_batches * ROWS
        shares = self._correct[:, :rows].sum(axis=1) / self._weight[:rows].sum()
        return {name: float(shares[i]) for name, i in self._index.items()}


def run(searches: int = SEARCHES, first_seed: int = FIRST_SEED) -> dict[str, Any]:
    """Searches with every seed twice and compares the top ten."""
    from lvbert_tf.search.evolution import EvolutionSearch
    from lvbert_tf.search.space import SearchSpace
    from training.scoring.racing import MIN_ROWS, RacingScorer, Z

    table = RecordedRows()
    accuracies = table.accuracies()
    space = SearchSpace("csf", table.num_layers)
    same, sets, ratios = 0, 0, []
    for seed in range(first_seed, first_seed + searches):
        plain, raced = (
            EvolutionSearch(space, seed=seed),
            EvolutionSearch(space, seed=seed),
        )
        while generation := plain.ask():
            plain.tell({c: accuracies[c] for c in generation})
        scorer = RacingScorer(table, plain.top_k, "accuracy")
        while generation := raced.ask():
            scores = scorer.score(
                generation, incumbents=[c.architecture for c in raced.top]
            )
            raced.tell({s.architecture: s.accuracy for s in scores})
        ours = [c.architecture for c in raced.top]
        theirs = [c.architecture for c in plain.top]
        same += ours == theirs
        sets += set(ours) == set(theirs)
        ratios.append(scorer.full_token_evaluations / scorer.token_evaluations)
    values = np.array(list(accuracies.values()))
    return {
        "searches": searches,
        "first_seed": first_seed,
        "same_top_ten": sets,
        "same_top_ten_in_order": same,
        "times_fewer_token_evaluations": {
            "mean": float(np.mean(ratios)),
            "least": float(np.min(ratios)),
        },
        "z": Z,
        "min_rows": MIN_ROWS,
        "table": {
            "architectures": len(accuracies),
            "examples": table.num_batches * ROWS,
            "mean_accuracy": float(values.mean()),
            "standard_deviation": float(values.std()),
            "best": float(values.max()),
        },
    }


def record(supernet: Path, data: Path, examples: int, file: Path = TABLE) -> None:
    """Scores every architecture of a supernet of few layers, and writes the table."""
    import dataclasses

    from training.pretraining import trained_supernet
    from training.run.devices import set_up
    from training.scoring.supernet_scorer import SupernetScorer

    set_up()
    trained = trained_supernet.load(supernet)
    scorer = SupernetScorer(
        trained,
        dataclasses.replace(
            trained.settings.data, directory=str(data), validation_examples=examples
        ),
        batch_size=2 * ROWS,
        seed=0,
        held_out_sha256="",
        state_memory_bytes=0,
    )
    model = trained.settings.model
    names = [
        "".join(chosen)
        for chosen in itertools.product(model.letters, repeat=model.num_layers)
    ]
    correct, weight = [], []
    for number in range(scorer.num_batches):
        rows = scorer.rows(number, names)
        correct.append(rows[:, 1].astype(np.uint8))
        weight.append(rows[0, 2].astype(np.uint8))
        print(f"batch {number + 1} of {scorer.num_batches}", file=sys.stderr)
    np.savez_compressed(
        file, correct=np.concatenate(correct, 1), weight=np.concatenate(weight)
    )


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
