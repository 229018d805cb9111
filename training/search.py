"""``search``: finds the best architecture of a supernet (the paper's Algorithm 1)."""

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import CommandError, UsageError
from training import experiment, settings
from training.run_directory import RunDirectory, write_text
from training.search_constraints import COSTS, limits_of
from training.settings import setting

if TYPE_CHECKING:
    from lvbert_tf.search.evolution import Search
    from lvbert_tf.search.space import SearchSpace
    from training.experiment import SupernetExperiment
    from training.scoring import Scorer
    from training.search_log import SearchLog

STAGE = "search"
METHODS = ("evolution", "random")


@dataclass(frozen=True)
class Algorithm:
    """How to search; the defaults are the paper's."""

    method: str = setting("evolution or random", "evolution", choices=METHODS)
    population: int = setting("candidates of the first generation", 50, minimum=1)
    iterations: int = setting("generations", 20, minimum=1)
    crossover: int = setting("children per generation", 25, minimum=0)
    mutation: int = setting("mutants per generation", 25, minimum=0)
    mutation_probability: float = setting(
        "of each layer of a mutant", 0.1, minimum=0.0, maximum=1.0
    )
    top_k: int = setting("best candidates to keep, the parents", 10, minimum=1)
    patience: int = setting(
        "end after so many generations without a better best; 0 never", 0, minimum=0
    )
    seed: int = setting("of all randomness", 0, minimum=0)
    initial: str = setting("architectures to begin with, separated by commas", "")


@dataclass(frozen=True)
class Space:
    """What may be proposed."""

    letters: str = setting("layer types; empty: those of the supernet", "")
    pattern: str = setting("a letter or ? for each layer; empty: all free", "")
    constraints: str = setting("NAME<=NUMBER, separated by commas", "")
    latency_table: str = setting("file of `latency`, for latency_ms", "")


@dataclass(frozen=True)
class Scoring:
    """What scores a candidate."""

    supernet: str = setting("run directory of the supernet", "")
    examples: int = setting("held-out examples; 0 takes all", 0, minimum=0)
    mask_seed: int = setting("of the masks", 0, minimum=0)


@dataclass(frozen=True)
class Data:
    """Where the held-out text lies."""

    directory: str = setting("a directory that `prepare` wrote", "")


@dataclass(frozen=True)
class SearchExperiment:
    """The resolved configuration of a search."""

    algorithm: Algorithm
    space: Space
    scoring: Scoring
    data: Data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "--supernet", type=Path, required=True, help="run directory of `supernet`"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="data directory; its held-out part"
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        required=True,
        help="where everything is written; run again with the same to resume",
    )
    for field in dataclasses.fields(Algorithm):
        if field.name == "initial":
            continue
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            choices=field.metadata["choices"],
            help=f"{field.metadata['help']} (default: {field.default})",
        )
    parser.add_argument(
        "--initial",
        nargs="+",
        default=[],
        metavar="SPEC",
        help="architectures for the first generation, beside random ones",
    )
    parser.add_argument(
        "--letters", default="", help="layer types (default: those of the supernet)"
    )
    parser.add_argument(
        "--pattern",
        default="",
        help="fixed layers: a letter or ? for each, for example cc????????s",
    )
    parser.add_argument(
        "--max-params", type=float, metavar="N", help="the same as params<=N"
    )
    parser.add_argument(
        "--max-latency-ms", type=float, metavar="X", help="the same as latency_ms<=X"
    )
    parser.add_argument(
        "--latency-table", type=Path, metavar="FILE", help="what `latency` wrote"
    )
    costs = "; ".join(f"{name}: {meaning}" for name, meaning in COSTS.items())
    parser.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="NAME<=NUMBER",
        help=f"may be repeated. {costs}",
    )
    parser.add_argument(
        "--examples", type=int, default=0, help="held-out examples; 0 takes all"
    )
    parser.add_argument(
        "--mask-seed", type=int, default=0, help="of the masks (default: 0)"
    )
    parser.add_argument(
        "--batch-size", type=int, default=32, help="moves no score (default: 32)"
    )
    parser.add_argument(
        "--score-cache",
        type=Path,
        metavar="FILE",
        help="scores to share between searches (default: in the run directory)",
    )
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN_DIR",
        help="other searches to draw into the same picture",
    )


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command."""
    if arguments.batch_size < 1:
        raise UsageError(
            f"--batch-size must be at least 1, found {arguments.batch_size}"
        )
    return run(
        _experiment(arguments),
        arguments.run_dir,
        batch_size=arguments.batch_size,
        score_cache=arguments.score_cache,
        compare=arguments.compare,
    )


def run(
    options: SearchExperiment,
    run_dir: Path,
    *,
    batch_size: int = 32,
    score_cache: Path | None = None,
    compare: Sequence[Path] = (),
) -> dict[str, Any]:
    """Searches, or goes on where an earlier call stopped.

    Args:
        options: the configuration.
        run_dir: where everything is written.
        batch_size: held-out examples at once.
        score_cache: file of scores; by default in the run directory.
        compare: run directories of other searches to draw beside this one.

    Returns:
        `best` (`architecture`, `accuracy`, `loss`, `standard_error`), `top`, the list
        of the top k, `evaluations`, `seconds`, `finished` and more.

    Raises:
        UsageError: if supernet, data and options don't fit together.
    """
    source = RunDirectory.existing(
        Path(options.scoring.supernet), "--supernet", experiment.SUPERNET
    )
    supernet = experiment.load_supernet(source.config_file, [])
    trained_on: dict[str, str] = source.versions()["data"]
    others = {other.name: _other_iterations(other) for other in compare}
    space = make_space(options.space, supernet, options.data.directory)
    search = make_search(options.algorithm, space)
    identity = _check_data(options, supernet, trained_on)

    from training import supernet as supernet_stage
    from training.distribution import set_up
    from training.scoring import CachedScorer, SupernetScorer
    from training.search_log import SearchLog

    set_up()
    trained = supernet_stage.load(Path(options.scoring.supernet))
    scorer = SupernetScorer(
        trained,
        dataclasses.replace(
            supernet.data,
            directory=options.data.directory,
            validation_examples=options.scoring.examples,
        ),
        batch_size=batch_size,
        seed=options.scoring.mask_seed,
        held_out_sha256=identity["held_out_sha256"],
    )
    directory = RunDirectory.open(
        run_dir,
        settings.to_toml(options, STAGE),
        {**identity, "scores_sha256": scorer.identity},
    )
    with contextlib.closing(directory):
        log = SearchLog(run_dir)
        log.resume(search)
        seconds = log.seconds
        if directory.result() is None:
            cached = CachedScorer(scorer, score_cache or run_dir / "scores.jsonl")
            seconds += search_on(search, cached, log)
        result = directory.result() or _result(
            search, log, seconds=seconds, step=trained.step, run_dir=run_dir
        )
        winner = experiment.pretrain_winner(supernet, result["best"]["architecture"])
        write_text(run_dir / "winner.toml", experiment.to_toml(winner))
        _draw(search, log, options.algorithm.method, others, run_dir)
        return directory.write_result(result)


def search_on(search: "Search", scorer: "Scorer", log: "SearchLog") -> float:
    """Asks, scores and tells until the search ends; writes every generation.

    Returns:
        The seconds that it took.

    Raises:
        StopRequested: if the user or the system stopped it; the generation that was
            being scored is resumed from the score cache.
    """
    from training.progress import Progress
    from training.signals import StopRequested, StopSignals

    started = time.monotonic()
    with (
        StopSignals() as signals,
        Progress(
            _expected_evaluations(search),
            "candidates",
            f"{search.method} search",
            initial=search.evaluations,
        ) as progress,
    ):
        try:
            while generation := search.ask():
                origins = search.pending

                def on_scored(_: Any) -> None:
                    progress.update(1)
                    signals.check()

                scores = scorer.score(generation, on_scored)
                summary = search.tell({s.architecture: s.accuracy for s in scores})
                seconds = time.monotonic() - started
                log.append(search, summary, scores, origins, seconds)
                progress.set(best=summary.best, top=summary.top_mean)
                progress.note(
                    f"iteration {summary.iteration}: best {summary.best:.4f} "
                    f"{summary.best_architecture}, mean {summary.mean:.4f}, mean of "
                    f"the top {len(search.top)} {summary.top_mean:.4f}, "
                    f"new {summary.new}, repeated {summary.repeated}"
                )
        except StopRequested as stop:
            stop.explain(
                f"stopped by {stop.signal} in iteration {search.iteration + 1}; run "
                "the same command again to go on"
            )
            raise
    return time.monotonic() - started


def make_space(
    options: Space, supernet: "SupernetExperiment", data_dir: str
) -> "SearchSpace":
    """Returns the space that the options describe, within the supernet's.

    Raises:
        UsageError: if the supernet lacks a letter, the pattern has another length, or
            nothing meets the constraints.
    """
    from lvbert_tf.cost import Dimensions
    from lvbert_tf.search.space import SearchSpace
    from training.data.manifest import DataManifest
    from training.search_constraints import make_constraint, read_latency_table

    model = supernet.model
    letters = options.letters or model.letters
    foreign = [letter for letter in letters if letter not in model.letters]
    if foreign:
        raise UsageError(
            f"--letters {letters}: the supernet has only {model.letters!r}, "
            f"not {foreign[0]!r}"
        )
    table = None
    if options.latency_table:
        table = read_latency_table(Path(options.latency_table))
    dimensions = Dimensions(
        embedding_dim=model.embedding_dim,
        hidden_dim=model.hidden_dim,
        intermediate_dim=model.intermediate_dim,
        num_heads=model.num_heads,
        vocabulary_size=DataManifest.load(data_dir).vocabulary_size,
        kernel_size=model.kernel_size,
        max_sequence_length=model.max_sequence_length,
    )
    limits = limits_of([c for c in options.constraints.split(",") if c], None, None)
    try:
        return SearchSpace(
            letters,
            model.num_layers,
            pattern=options.pattern or None,
            constraints=[
                make_constraint(
                    name,
                    maximum,
                    letters=letters,
                    dimensions=dimensions,
                    sequence_length=supernet.data.sequence_length,
                    latency_table=table,
                )
                for name, maximum in limits.items()
            ],
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def make_search(options: Algorithm, space: "SearchSpace") -> "Search":
    """Returns a new search.

    Raises:
        UsageError: if an option is not allowed.
    """
    from lvbert_tf.architecture import Architecture
    from lvbert_tf.search.evolution import EvolutionSearch, RandomSearch

    try:
        common: dict[str, Any] = {
            "population": options.population,
            "iterations": options.iterations,
            "top_k": options.top_k,
            "seed": options.seed,
            "patience": options.patience or None,
            "initial": [
                str(Architecture.parse(spec))
                for spec in options.initial.split(",")
                if spec
            ],
        }
        if options.method == "random":
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


def _experiment(arguments: argparse.Namespace) -> SearchExperiment:
    """Gathers the options into the configuration that the run directory keeps."""
    limits = limits_of(
        arguments.constraint, arguments.max_params, arguments.max_latency_ms
    )
    names = [field.name for field in dataclasses.fields(Algorithm)]
    algorithm = {name: getattr(arguments, name) for name in names}
    algorithm["initial"] = ",".join(arguments.initial)
    table = arguments.latency_table
    return SearchExperiment(
        algorithm=Algorithm(**algorithm),
        space=Space(
            letters=arguments.letters,
            pattern=arguments.pattern,
            constraints=",".join(
                f"{name}<={limit!r}" for name, limit in limits.items()
            ),
            latency_table="" if table is None else str(table.absolute()),
        ),
        scoring=Scoring(
            supernet=str(arguments.supernet.absolute()),
            examples=arguments.examples,
            mask_seed=arguments.mask_seed,
        ),
        data=Data(directory=str(arguments.data.absolute())),
    )


def _check_data(
    options: SearchExperiment,
    supernet: "SupernetExperiment",
    trained_on: Mapping[str, str],
) -> dict[str, str]:
    """Refuses data that the supernet cannot be judged on; returns the data's hashes."""
    from training.batches import data_identity
    from training.held_out_overlap import check_held_out

    directory = options.data.directory
    identity = data_identity(dataclasses.replace(supernet.data, directory=directory))
    if identity["vocabulary_sha256"] != trained_on["vocabulary_sha256"]:
        raise UsageError(
            f"--data {directory}: its vocabulary (sha256 "
            f"{identity['vocabulary_sha256'][:12]}) is not the one that the supernet "
            f"was trained with (sha256 {trained_on['vocabulary_sha256'][:12]})"
        )
    check_held_out(directory, supernet.data.directory, dict(trained_on))
    return identity


def _expected_evaluations(search: "Search") -> int:
    from lvbert_tf.search.evolution import EvolutionSearch

    later = search.population
    if isinstance(search, EvolutionSearch):
        later = search.crossover + search.mutation
    total = search.population + (search.iterations - 1) * later
    return min(total, search.space.size)


def _other_iterations(run_dir: Path) -> list[dict[str, Any]]:
    """The iteration lines of another search, for the picture."""
    from training.search_log import LOG_FILE, read_log

    lines = [
        line for line in read_log(run_dir / LOG_FILE) if line["kind"] == "iteration"
    ]
    if not lines:
        raise UsageError(f"--compare {run_dir}: its search has no iteration yet")
    return lines


def _result(
    search: "Search", log: "SearchLog", *, seconds: float, step: int, run_dir: Path
) -> dict[str, Any]:
    if not search.top:
        raise CommandError("the search scored no candidate")
    top = [
        {
            "architecture": score.architecture,
            "accuracy": score.accuracy,
            "loss": score.loss,
            "standard_error": score.standard_error,
        }
        for score in (log.scores[c.architecture] for c in search.top)
    ]
    return {
        "best": top[0],
        "top": top,
        "evaluations": search.evaluations,
        "iterations": search.iteration,
        "finished": search.finished,
        "seconds": round(seconds, 3),
        "space_size": search.space.size,
        "supernet_step": step,
        "winner": str(run_dir / "winner.toml"),
        "run_dir": str(run_dir),
    }


def _draw(
    search: "Search",
    log: "SearchLog",
    label: str,
    others: Mapping[str, Sequence[Mapping[str, Any]]],
    run_dir: Path,
) -> None:
    from lvbert_tf.architecture import Architecture
    from lvbert_tf.drawing import draw_architecture
    from training.search_figures import draw_letters, draw_progress

    draw_progress({label: log.iterations, **others}, run_dir / "search.png")
    top = [candidate.architecture for candidate in search.top]
    figures = run_dir / "figures"
    draw_letters(top, search.space.letters, figures / "letters.png")
    title = f"{top[0]} ({100 * search.top[0].fitness:.2f}%)"
    draw_architecture(Architecture(top[0]), title, figures / "winner.png")
