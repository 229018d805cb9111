"""Searches with and without racing over tables of scores: how many end differently.

The tables hold the values of all 3^7 architectures of seven layers on held-out
examples, so that a search takes seconds. They are hits and losses, recorded and
simulated, on few examples and on many. Each search sees the examples in an order of its
own, and simulated ones see a table of their own, so that the searches are a sample.

`search_racing_table.npz` was recorded by `record` of supernets of seven layers (hidden
64, 1,500 steps on books): the hits of one at all predicted positions, and the losses of
another at those that show [MASK], in steps of `LOSS_STEP` nats.
"""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TABLE = Path(__file__).with_name("search_racing_table.npz")
SEARCHES = 60
BATCH_SIZES = (8, 32, 64)
GENERATIONS = 10  # later ones find hardly anything new among so few architectures
NUM_LAYERS = 7
ROWS = {"recorded": 0, "simulated": 1024, "resampled": 2048}
"""Examples of each kind of table; 0: as many as were recorded. Racing saves more the
more there are, since those at the end serve to tell apart who is close."""
LOSS_STEP = 0.125  # nats, summed over an example

Array = NDArray[np.float64]

NAMES = ["".join(letters) for letters in itertools.product("csf", repeat=NUM_LAYERS)]


class TableRows:
    """A `training.scoring.score.RowScorer` that looks everything up.

    Args:
        values: (3^7, examples), hits or losses.
        weight: (examples,), masked tokens.
        fitness: which of the two, `"accuracy"` or `"loss"`.
        batch_size: examples at once.
    """

    identity = "table"

    def __init__(
        self, values: Array, weight: Array, fitness: str, batch_size: int
    ) -> None:
        self._values, self._weight = values, weight
        self._index = {name: i for i, name in enumerate(NAMES)}
        self._place = ("loss", "accuracy").index(fitness)
        self._batch_size = batch_size
        self.num_batches = len(weight) // batch_size

    def rows(
        self, index: int, candidates: Sequence[str], keep: Sequence[str] = ()
    ) -> Array:
        """Returns the six sums (candidates, 6, rows); 0 what is not here."""
        place = slice(index * self._batch_size, (index + 1) * self._batch_size)
        width = len(self._weight[place])
        rows = np.zeros((len(candidates), 6, width))
        rows[:, self._place] = self._values[[self._index[c] for c in candidates], place]
        rows[:, [2, 5]] = self._weight[place]
        return rows

    def fitness(self) -> dict[str, float]:
        """Returns the fitness of every architecture on all examples; more is better."""
        sign = (-1.0, 1.0)[self._place]
        means = sign * self._values.sum(axis=1) / self._weight.sum()
        return dict(zip(NAMES, means.tolist(), strict=True))


def run(searches: int = SEARCHES) -> dict[str, Any]:
    """Searches every kind of table with and without racing, at every batch size.

    Args:
        searches: of each kind of table; a third of them where there are many examples,
            which take minutes each.
    """
    from training.scoring.racing_bound import LEVEL, LOOKS, MIN_ROWS

    return {
        "searches": searches,
        "level": LEVEL,
        "min_rows": MIN_ROWS,
        "looks": len(LOOKS),
        "cases": {
            f"{origin}_{fitness}": _case(
                origin, fitness, searches if ROWS[origin] < 1000 else searches // 3
            )
            for origin in ROWS
            for fitness in ("loss", "accuracy")
        },
    }


def simulated(fitness: str, seed: int, rows: int) -> tuple[Array, Array]:
    """Draws a table: (3^7, examples) and (examples,).

    An architecture has a worth, the sum of those of its letters; an example has an ease
    that all share, tokens of its own, and a liking for each letter at each layer, so
    that architectures that are alike agree more. Losses have heavy tails.
    """
    draw = np.random.default_rng(seed)
    codes = np.array(list(itertools.product(range(3), repeat=NUM_LAYERS)))
    letters = np.eye(3)[codes].reshape(len(codes), -1)
    worth = letters @ draw.normal(scale=0.06, size=letters.shape[1])
    liking = draw.normal(scale=0.06, size=(letters.shape[1], rows))
    ease = draw.normal(size=rows)
    weight = draw.integers(10, 20, rows).astype(float)
    shape = (len(codes), rows)
    skill = ease + worth[:, np.newaxis] + letters @ liking
    if fitness == "accuracy":
        chance = 1.0 / (1.0 + np.exp(1.2 - 0.6 * skill))
        # One draw an example for all, and a little of each one's own
        luck = draw.normal(size=(1, rows)) + draw.normal(0.0, 0.3, shape)
        spread = np.sqrt(weight * chance * (1.0 - chance))
        return np.clip(np.round(weight * chance + spread * luck), 0, weight), weight
    own = draw.standard_t(4, size=shape) * 0.05
    return weight * (4.5 - 0.4 * skill + own), weight


def _recorded(fitness: str, seed: int, rows: int) -> tuple[Array, Array]:
    """Returns the recorded table with its examples in another order.

    With `rows`, so many are drawn from them with replacement: a longer held-out set of
    the same kind.
    """
    with np.load(TABLE) as content:
        if fitness == "loss":
            steps, weight = content["loss"], content["loss_weight"]
            values = LOSS_STEP * steps.astype(float) + content["least_loss"]
        else:
            values, weight = content["correct"].astype(float), content["weight"]
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(weight))
    if rows:
        order = draw.choice(len(weight), rows)
    return values[:, order], weight[order].astype(float)


def _case(origin: str, fitness: str, searches: int) -> dict[str, Any]:
    make = simulated if origin.startswith("simulated") else _recorded
    changed = dict.fromkeys(BATCH_SIZES, 0)
    ratios: dict[int, list[float]] = {size: [] for size in BATCH_SIZES}
    for seed in range(searches):
        values, weight = make(fitness, seed, ROWS[origin])
        # All batch sizes divide this, so that all see the same examples.
        rows = len(weight) // max(BATCH_SIZES) * max(BATCH_SIZES)
        values, weight = values[:, :rows], weight[:rows]
        tables = [TableRows(values, weight, fitness, size) for size in BATCH_SIZES]
        steps = _search(tables[0].fitness(), seed)
        for size, table in zip(BATCH_SIZES, tables, strict=True):
            same, ratio = _raced(table, steps, fitness)
            changed[size] += not same
            ratios[size].append(ratio)
    return {
        f"batch_{size}": {
            "searches": searches,
            "changed": changed[size],
            "changed_interval": _interval(changed[size], searches),
            "times_fewer_token_evaluations": {
                "mean": float(np.mean(ratios[size])),
                "least": float(np.min(ratios[size])),
            },
        }
        for size in BATCH_SIZES
    }


class Step(NamedTuple):
    """One generation of a search: who led before, who was scored, who leads after."""

    before: list[str]
    generation: list[str]
    after: list[str]


def _search(scores: dict[str, float], seed: int) -> list[Step]:
    from lvbert_tf.search.evolution import EvolutionSearch
    from lvbert_tf.search.space import SearchSpace

    search = EvolutionSearch(
        SearchSpace("csf", NUM_LAYERS), seed=seed, iterations=GENERATIONS
    )
    steps = []
    while generation := search.ask():
        before = [candidate.architecture for candidate in search.top]
        search.tell({name: scores[name] for name in generation})
        after = [candidate.architecture for candidate in search.top]
        steps.append(Step(before, generation, after))
    return steps


def _raced(table: TableRows, steps: Sequence[Step], fitness: str) -> tuple[bool, float]:
    """Races through the generations of a search.

    While racing gives up nobody who leads afterwards, its search is the same, step by
    step; otherwise it counts as changed, whatever it would have found.

    Returns:
        Whether it is the same, and how many times fewer tokens were evaluated.
    """
    from training.scoring.racing import RacingScorer

    scorer = RacingScorer(table, len(steps[-1].after), len(steps), fitness=fitness)
    same = True
    for step in steps:
        scores = scorer.score(step.generation, incumbents=step.before)
        lost = {score.architecture for score in scores if score.eliminated} & set(
            step.after
        )
        if lost:
            same = False
            break
    return same, scorer.full_token_evaluations / scorer.token_evaluations


def _interval(changed: int, searches: int) -> tuple[float, float]:
    """Clopper and Pearson's 95% interval of a share."""
    from scipy import stats

    interval = stats.binomtest(changed, searches).proportion_ci(0.95, "exact")
    return float(interval.low), float(interval.high)


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
        batch_size=32,
        seed=0,
        held_out_sha256="",
        state_memory_bytes=0,
    )
    parts = []
    for index in range(scorer.num_batches):
        parts.append(scorer.rows(index, NAMES))
        print(f"batch {index + 1} of {scorer.num_batches}", file=sys.stderr)
    rows = np.concatenate(parts, axis=-1)
    write_table(rows, rows, file)


def write_table(hit_rows: Array, loss_rows: Array, file: Path = TABLE) -> None:
    """Writes the hits of one recording and the losses of one, (3^7, 6, examples)."""
    loss = loss_rows[:, 0]
    least = loss.min(axis=0)
    steps = np.round((loss - least) / LOSS_STEP)
    if steps.max() > np.iinfo(np.uint16).max:
        raise ValueError(
            f"A loss is too large for the table. Received: {loss.max()} nats"
        )
    np.savez_compressed(
        file,
        correct=hit_rows[:, 1].astype(np.uint8),
        weight=hit_rows[0, 2].astype(np.uint8),
        loss=steps.astype(np.uint8 if steps.max() < 256 else np.uint16),
        least_loss=least,
        loss_weight=loss_rows[0, 2].astype(np.uint8),
    )


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
