"""What a finished search says and draws."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.command_line import CommandError
from common.files import write_text
from lvbert_tf.architecture import Architecture
from lvbert_tf.drawing import draw_architecture
from training.pretraining import experiment
from training.pretraining.experiment import SupernetExperiment
from training.scoring.score import Score, figures_of, fitness_of, rank_key
from training.search.experiment import SearchExperiment
from training.search.figures import draw_front, draw_letters, draw_progress
from training.search.jobs import Job
from training.search.letter_statistics import letter_statistics
from training.search.log import LOG_FILE, read_log
from training.search.pareto import pareto_front, write_front
from training.search.regression import explain, fit
from training.search.space import make_cost

Front = dict[str, Any]

_COSTS: tuple[str, ...] = ("params", "flops")


def report(
    options: SearchExperiment,
    supernet: "SupernetExperiment",
    jobs: Sequence["Job"],
    run_dir: Path,
    context: Mapping[str, Any],
    finished: dict[str, Any] | None,
) -> dict[str, Any]:
    """Writes ``winner.toml``, tables and pictures, and returns the result.

    Args:
        options: the search's configuration.
        supernet: that of the supernet.
        jobs: the searches, at their end.
        run_dir: where everything goes.
        context: `supernet_step`; `others`, iteration lines of other searches by name;
            `unigram_loss` and `warnings`, unless it is finished.
        finished: the result of an earlier call, which stays as it is.

    Returns:
        The command's result.

    Raises:
        CommandError: if nothing was scored, or all candidates tie.
    """
    fitness = options.scoring.fitness
    scores: dict[str, Score] = {}
    for job in jobs:
        for name, score in job.log.scores.items():
            if name not in scores or scores[name].eliminated:
                scores[name] = score
    if not scores:
        raise CommandError("the search scored no candidate")
    _refuse_a_tie(scores, fitness)
    fronts = _fronts(options, supernet, scores, run_dir)
    statistics = {
        method: letter_statistics(
            {
                job.label: [c.architecture for c in job.search.top]
                for job in jobs
                if job.method == method
            },
            jobs[0].search.space.letters,
            jobs[0].search.space.pattern,
        )
        for method in dict.fromkeys(job.method for job in jobs)
    }
    top = _top(jobs, scores, options.algorithm.top_k, fitness)
    explained = _explain(jobs, scores, fitness)
    write_text(run_dir / "explained.json", json.dumps(explained, indent=1) + "\n")
    if len(jobs) > 1:
        _merge_logs(jobs, run_dir / LOG_FILE)
    winner = experiment.pretrain_winner(supernet, top[0]["architecture"])
    write_text(run_dir / "winner.toml", experiment.to_toml(winner))
    _draw(jobs, statistics, top[0], context["others"], run_dir, fitness)
    if finished is not None:
        return finished
    spent = {
        name: sum(job.log.spent[name] for job in jobs) for name in jobs[0].log.spent
    }
    return {
        "best": top[0],
        "top": top,
        "fitness": fitness,
        "unigram_loss": context["unigram_loss"],
        "warnings": context["warnings"],
        "pattern": jobs[0].search.space.pattern,
        "evaluations": sum(job.search.evaluations for job in jobs),
        "iterations": max(job.search.iteration for job in jobs),
        "finished": ", ".join(sorted({str(job.search.finished) for job in jobs})),
        "seconds": round(spent["seconds"], 3),
        "scoring_seconds": round(spent["scoring_seconds"], 3),
        "layer_evaluations": spent["layer_evaluations"],
        "masked_token_evaluations": sum(
            score.masked_tokens for job in jobs for score in job.log.scores.values()
        ),
        "searches": [_summary(job) for job in jobs],
        "letters": statistics,
        "explained": {
            name: value for name, value in explained.items() if name != "effects"
        },
        "pareto": fronts,
        "space_size": jobs[0].search.space.size,
        "supernet_step": context["supernet_step"],
        "winner": str(run_dir / "winner.toml"),
        "run_dir": str(run_dir),
    }


def _refuse_a_tie(scores: Mapping[str, Score], fitness: str) -> None:
    """Refuses to crown one of many that are all the same.

    Raises:
        CommandError: if there are several candidates, all of one fitness.
    """
    values = {fitness_of(score, fitness) for score in scores.values()}
    if len(scores) > 1 and len(values) == 1:
        value = abs(values.pop())
        raise CommandError(
            f"all {len(scores)} candidates tie: each has {fitness} {value:.5g}, so "
            "there is no winner and no winner.toml was written. The supernet's paths "
            "do not differ in what they predict: train it longer"
            + ("" if fitness == "loss" else ", or rank by --fitness loss")
        )


def _summary(job: "Job") -> dict[str, Any]:
    best = job.log.scores[job.search.top[0].architecture]
    return {
        "method": job.method,
        "seed": job.seed,
        "best": best.architecture,
        "accuracy": best.accuracy,
        "loss": best.loss,
        "top_mean": job.log.iterations[-1]["top_mean"],
        "evaluations": job.search.evaluations,
        "finished": job.search.finished,
    }


def _top(
    jobs: Sequence["Job"], scores: Mapping[str, Score], top_k: int, fitness: str
) -> list[dict[str, Any]]:
    """The best of all searches."""
    names = dict.fromkeys(c.architecture for job in jobs for c in job.search.top)
    ranked = sorted(names, key=lambda name: rank_key(scores[name], fitness))
    return [figures_of(scores[name]) for name in ranked[:top_k]]


def _fronts(
    options: SearchExperiment,
    supernet: "SupernetExperiment",
    scores: Mapping[str, Score],
    run_dir: Path,
) -> dict[str, list[Front]]:
    """The Pareto fronts over what was scored on the whole held-out set."""
    fitness = options.scoring.fitness
    values = {
        name: fitness_of(score, fitness)
        for name, score in scores.items()
        if not score.eliminated
    }
    names = _COSTS
    if options.space.latency_table:
        names = (*_COSTS, "latency_ms")
    fronts = {}
    for name in names:
        cost = make_cost(name, options.space, supernet, options.data.directory)
        front = pareto_front(values, cost.value)
        table = [(p, scores[p.architecture]) for p in front]
        write_front(table, name, run_dir / f"pareto_{name}.tsv")
        fronts[name] = [
            {
                "architecture": point.architecture,
                "accuracy": score.accuracy,
                "loss": score.loss,
                "cost": point.cost,
            }
            for point, score in table
        ]
        draw_front(
            [(cost.value(c), getattr(scores[c], fitness)) for c in values],
            [(p.cost, getattr(score, fitness)) for p, score in table],
            name,
            run_dir / "figures" / f"pareto_{name}.png",
            fitness,
        )
    return fronts


def _explain(
    jobs: Sequence["Job"], scores: Mapping[str, Score], fitness: str
) -> dict[str, Any]:
    """The regression, and the string that it takes for the best within the space."""
    space = jobs[0].search.space
    values = {name: fitness_of(score, fitness) for name, score in scores.items()}
    weights = {name: float(score.masked_tokens) for name, score in scores.items()}
    explained = {
        "fitness": fitness,
        **explain(values, space.letters, weights),
    }
    if "effects" not in explained:
        return explained
    model = fit(values, space.letters, weights)
    best = model.best(space)
    measured = scores.get(best)
    return {
        **explained,
        "best": {
            "architecture": best,
            "predicted": abs(model.predict(best)),
            "measured": None if measured is None else getattr(measured, fitness),
        },
    }


def _merge_logs(jobs: Sequence["Job"], file: Path) -> None:
    lines = [
        {"method": job.method, "seed": job.seed, **line}
        for job in jobs
        for line in read_log(job.log.file)
    ]
    write_text(file, "".join(json.dumps(line) + "\n" for line in lines))


def _draw(
    jobs: Sequence["Job"],
    statistics: Mapping[str, Any],
    winner: Mapping[str, Any],
    others: Mapping[str, Sequence[Mapping[str, Any]]],
    run_dir: Path,
    fitness: str,
) -> None:
    curves = {
        (job.method if len(jobs) == 1 else f"{job.method}, seed {job.seed}"): (
            job.log.iterations
        )
        for job in jobs
        if job.log.iterations
    }
    draw_progress({**curves, **others}, run_dir / "search.png", fitness)
    figures = run_dir / "figures"
    letters = jobs[0].search.space.letters
    for method, counted in statistics.items():
        alone = len(statistics) == 1
        name = "letters.png" if alone else f"letters_{method}.png"
        draw_letters(
            counted["counts"],
            counted["candidates"],
            letters,
            figures / name,
            fixed=[int(place) for place in counted["fixed"]],
        )
    name = winner["architecture"]
    title = f"{name}: loss {winner['loss']:.3f}, accuracy {winner['accuracy']:.2%}"
    draw_architecture(
        Architecture(name),
        title,
        figures / "winner.png",
        fixed=[int(place) for place in next(iter(statistics.values()))["fixed"]],
    )
