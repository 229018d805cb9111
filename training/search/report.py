"""What a finished search says and draws."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from command_line import CommandError
from lvbert_tf.architecture import Architecture
from lvbert_tf.drawing import draw_architecture
from training.pretraining import experiment
from training.pretraining.experiment import SupernetExperiment
from training.run.directory import write_text
from training.scoring.score import Score
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
            `timing` of this process.
        finished: the result of an earlier call, which stays as it is.

    Returns:
        The command's result.
    """
    scores: dict[str, Score] = {}
    for job in jobs:
        for name, score in job.log.scores.items():
            if name not in scores or scores[name].eliminated:
                scores[name] = score
    if not scores:
        raise CommandError("the search scored no candidate")
    fronts = _fronts(options, supernet, scores, run_dir)
    statistics = {
        method: letter_statistics(
            {
                job.label: [c.architecture for c in job.search.top]
                for job in jobs
                if job.method == method
            },
            jobs[0].search.space.letters,
        )
        for method in dict.fromkeys(job.method for job in jobs)
    }
    top = _top(jobs, scores, options.algorithm.top_k)
    explained = _explain(jobs, scores)
    write_text(run_dir / "explained.json", json.dumps(explained, indent=1) + "\n")
    if len(jobs) > 1:
        _merge_logs(jobs, run_dir / LOG_FILE)
    winner = experiment.pretrain_winner(supernet, top[0]["architecture"])
    write_text(run_dir / "winner.toml", experiment.to_toml(winner))
    _draw(jobs, statistics, context["others"], run_dir)
    if finished is not None:
        return finished
    timing = context["timing"]
    return {
        "best": top[0],
        "top": top,
        "evaluations": sum(job.search.evaluations for job in jobs),
        "iterations": max(job.search.iteration for job in jobs),
        "finished": jobs[0].search.finished,
        "seconds": round(sum(job.log.seconds for job in jobs) + timing["seconds"], 3),
        "scoring_seconds": round(timing["scoring_seconds"], 3),
        "layer_evaluations": timing["layer_evaluations"],
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


def _summary(job: "Job") -> dict[str, Any]:
    return {
        "method": job.method,
        "seed": job.seed,
        "best": job.search.top[0].architecture,
        "accuracy": job.search.top[0].fitness,
        "top_mean": job.log.iterations[-1]["top_mean"],
        "evaluations": job.search.evaluations,
        "finished": job.search.finished,
    }


def _top(
    jobs: Sequence["Job"], scores: Mapping[str, Score], top_k: int
) -> list[dict[str, Any]]:
    """The best of all searches; of equal ones the first search's earlier one first."""
    names = dict.fromkeys(c.architecture for job in jobs for c in job.search.top)
    ranked = sorted(names, key=lambda name: -scores[name].accuracy)[:top_k]
    return [
        {
            "architecture": name,
            "accuracy": scores[name].accuracy,
            "loss": scores[name].loss,
            "standard_error": scores[name].standard_error,
        }
        for name in ranked
    ]


def _fronts(
    options: SearchExperiment,
    supernet: "SupernetExperiment",
    scores: Mapping[str, Score],
    run_dir: Path,
) -> dict[str, list[Front]]:
    """The Pareto fronts over what was scored on the whole held-out set."""
    accuracies = {
        name: score.accuracy for name, score in scores.items() if not score.eliminated
    }
    names = _COSTS
    if options.space.latency_table:
        names = (*_COSTS, "latency_ms")
    fronts = {}
    for name in names:
        cost = make_cost(name, options.space, supernet, options.data.directory)
        front = pareto_front(accuracies, cost.value)
        write_front(front, name, run_dir / f"pareto_{name}.tsv")
        fronts[name] = [
            {"architecture": p.architecture, "accuracy": p.accuracy, "cost": p.cost}
            for p in front
        ]
        draw_front(
            [(cost.value(c), accuracy) for c, accuracy in accuracies.items()],
            [(p.cost, p.accuracy) for p in front],
            name,
            run_dir / "figures" / f"pareto_{name}.png",
        )
    return fronts


def _explain(jobs: Sequence["Job"], scores: Mapping[str, Score]) -> dict[str, Any]:
    """The regression, and the string that it takes for the best within the space."""
    space = jobs[0].search.space
    accuracies = {name: score.accuracy for name, score in scores.items()}
    weights = {name: float(score.masked_tokens) for name, score in scores.items()}
    explained = explain(accuracies, space.letters, weights)
    if "undefined" in explained:
        return explained
    model = fit(accuracies, space.letters, weights)
    best = model.best(space)
    measured = scores.get(best)
    return {
        **explained,
        "best": {
            "architecture": best,
            "predicted_accuracy": model.predict(best),
            "accuracy": None if measured is None else measured.accuracy,
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
    others: Mapping[str, Sequence[Mapping[str, Any]]],
    run_dir: Path,
) -> None:
    curves = {
        (job.method if len(jobs) == 1 else f"{job.method}, seed {job.seed}"): (
            job.log.iterations
        )
        for job in jobs
        if job.log.iterations
    }
    draw_progress({**curves, **others}, run_dir / "search.png")
    figures = run_dir / "figures"
    letters = jobs[0].search.space.letters
    for method, found in statistics.items():
        alone = len(statistics) == 1
        name = "letters.png" if alone else f"letters_{method}.png"
        draw_letters(found["counts"], found["candidates"], letters, figures / name)
    best = max(
        (job.search.top[0] for job in jobs if job.search.top), key=lambda c: c.fitness
    )
    title = f"{best.architecture} ({100 * best.fitness:.2f}%)"
    draw_architecture(Architecture(best.architecture), title, figures / "winner.png")
