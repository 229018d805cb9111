"""From a search's configuration to its space and its algorithm."""

import math
from pathlib import Path
from typing import Any

from common.command_line import UsageError
from lvbert_tf.architecture import Architecture
from lvbert_tf.cost import Dimensions
from lvbert_tf.search.evolution import EvolutionSearch, RandomSearch, Search
from lvbert_tf.search.space import Constraint, SearchSpace
from training.data.manifest import DataManifest
from training.pretraining.experiment import SupernetExperiment
from training.search.constraints import limits_of, make_constraint, read_latency_table
from training.search.experiment import Algorithm, Space


def make_space(
    options: Space, supernet: "SupernetExperiment", data_dir: str
) -> "SearchSpace":
    """Returns the space that the options describe, within the supernet's.

    Raises:
        UsageError: if the supernet lacks a letter, the pattern has another length, or
            nothing meets the constraints.
    """
    model = supernet.model
    letters = options.letters or model.letters
    foreign = [letter for letter in letters if letter not in model.letters]
    if foreign:
        raise UsageError(
            f"--letters {letters}: the supernet has only {model.letters!r}, "
            f"not {foreign[0]!r}"
        )
    limits = limits_of([c for c in options.constraints.split(",") if c], None, None)
    try:
        return SearchSpace(
            letters,
            model.num_layers,
            pattern=options.pattern or None,
            constraints=[
                make_cost(name, options, supernet, data_dir, maximum)
                for name, maximum in limits.items()
            ],
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def make_cost(
    name: str,
    options: Space,
    supernet: "SupernetExperiment",
    data_dir: str,
    maximum: float = math.inf,
) -> "Constraint":
    """Returns a cost of the search's architectures, as a constraint.

    Args:
        name: one of `training.search.constraints.COSTS`.
        options: letters, and the table for latencies.
        supernet: whose sizes count.
        data_dir: whose vocabulary counts.
        maximum: of the constraint; without one it only tells the cost.

    Raises:
        UsageError: if there is no such cost, or no table where one is needed.
    """
    model = supernet.model
    return make_constraint(
        name,
        maximum,
        letters=options.letters or model.letters,
        dimensions=Dimensions(
            embedding_dim=model.embedding_dim,
            hidden_dim=model.hidden_dim,
            intermediate_dim=model.intermediate_dim,
            num_heads=model.num_heads,
            vocabulary_size=DataManifest.load(data_dir).vocabulary_size,
            kernel_size=model.kernel_size,
            max_sequence_length=model.max_sequence_length,
        ),
        sequence_length=supernet.data.sequence_length,
        latency_table=read_latency_table(Path(options.latency_table))
        if options.latency_table
        else None,
    )


def make_search(
    options: Algorithm, space: "SearchSpace", method: str, seed: int
) -> "Search":
    """Returns a new search.

    Raises:
        UsageError: if an option is not allowed.
    """
    try:
        common: dict[str, Any] = {
            "population": options.population,
            "iterations": options.iterations,
            "top_k": options.top_k,
            "seed": seed,
            "patience": options.patience or None,
            "initial": [
                str(Architecture.parse(spec))
                for spec in options.initial.split(",")
                if spec
            ],
        }
        if method == "random":
            return RandomSearch(space, **common)
        return EvolutionSearch(
            space,
            crossover=options.crossover,
            mutation=options.mutation,
            mutation_probability=options.mutation_probability,
            **common,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
