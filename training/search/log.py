"""What a search writes as it goes: its state, and ``search.jsonl``.

After each generation the log gets a line for every candidate and one for the
iteration, then the state is replaced. A search that was killed finds the state of the
last whole generation, and cuts the log back to it: in the end both are what an
uninterrupted search would have written. Nothing in the log depends on the clock.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.command_line import CommandError, UsageError, json_safe
from common.files import write_text
from lvbert_tf.search.evolution import IterationSummary, Search
from training.scoring.score import FITNESS, Score

LOG_FILE = "search.jsonl"
STATE_FILE = "state.json"
_NOTHING_SPENT: dict[str, float] = {
    "seconds": 0.0,
    "scoring_seconds": 0.0,
    "layer_evaluations": 0,
}


class SearchLog:
    """The log and the state in a search's run directory.

    Args:
        directory: where they lie; made when it is needed.
        fitness: what ranks, one of `training.scoring.score.FITNESS`.
    """

    def __init__(self, directory: Path, fitness: str = "loss") -> None:
        self.fitness = fitness
        self.file = directory / LOG_FILE
        self._state_file = directory / STATE_FILE
        self._writes = True
        self.scores: dict[str, Score] = {}
        """Every score so far, by architecture."""
        self.first_generation: list[str] = []
        """The architectures of the first generation."""
        self.iterations: list[dict[str, Any]] = []
        """The lines of the iterations so far."""
        self.spent = dict(_NOTHING_SPENT)
        """`seconds`, `scoring_seconds` and `layer_evaluations` of the generations so
        far, over all processes."""
        self._spent_before = dict(_NOTHING_SPENT)

    def resume(self, search: "Search", *, writes: bool = True) -> bool:
        """Takes the search, the log and the scores back to the last whole generation.

        Args:
            search: new, with the settings of the state.
            writes: whether this process writes the files; of several workers the first
                one does, and the others begin where its state says.

        Returns:
            Whether there was anything to go on from.

        Raises:
            CommandError: if the state is damaged or of another search.
        """
        self._writes = writes
        try:
            content = json.loads(self._state_file.read_text("utf-8"))
            search.load_state_dict(content["search"])
            self._spent_before = {
                name: type(zero)(content["spent"][name])
                for name, zero in _NOTHING_SPENT.items()
            }
            self.spent = dict(self._spent_before)
        except FileNotFoundError:
            self._rewrite([])
            return False
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandError(
                f"{self._state_file}: cannot go on from this state: {error}"
            ) from error
        kept = [
            line
            for line in read_log(self.file)
            if line["iteration"] <= search.iteration
        ]
        self._rewrite(kept)
        for line in kept:
            self._remember(line)
        if len(self.iterations) != search.iteration:
            raise CommandError(
                f"{self.file}: expected {search.iteration} iterations as the state "
                f"has, found {len(self.iterations)}"
            )
        return True

    def append(
        self,
        search: "Search",
        summary: "IterationSummary",
        scores: Sequence[Score],
        origins: Mapping[str, str],
        spent: Mapping[str, float],
    ) -> dict[str, Any]:
        """Writes a generation and the state after it.

        Args:
            search: after `tell`.
            summary: what `tell` returned.
            scores: of the generation, in its order.
            origins: architecture to the operator that made it.
            spent: what this process spent on this search, see `SearchLog.spent`.

        Returns:
            The line of the iteration, with losses as what they are.
        """
        lines: list[dict[str, Any]] = [
            {
                "kind": "candidate",
                "iteration": summary.iteration,
                "origin": origins[score.architecture],
                **asdict(score),
            }
            for score in scores
        ]
        for line in lines:
            self._remember(line)
        sign = -1.0 if self.fitness == "loss" else 1.0
        numbers = asdict(summary)
        iteration = {
            "kind": "iteration",
            "fitness": self.fitness,
            **numbers,
            **{name: sign * numbers[name] for name in ("best", "mean", "top_mean")},
            "top": [
                {
                    "architecture": c.architecture,
                    **{
                        name: getattr(self.scores[c.architecture], name)
                        for name in FITNESS
                    },
                }
                for c in search.top
            ],
        }
        self._remember(iteration)
        lines.append(iteration)
        for name in _NOTHING_SPENT:
            self.spent[name] = self._spent_before[name] + spent.get(name, 0)
        if not self._writes:
            return iteration
        with self.file.open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(json_safe(line)) + "\n" for line in lines)
            stream.flush()
            os.fsync(stream.fileno())
        state = {"search": search.state_dict(), "spent": self.spent}
        write_text(self._state_file, json.dumps(state) + "\n")
        return iteration

    def _rewrite(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if not self._writes:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.file, "".join(json.dumps(line) + "\n" for line in lines))

    def _remember(self, line: Mapping[str, Any]) -> None:
        if line["kind"] == "iteration":
            self.iterations.append(dict(line))
        else:
            figures = {k: line[k] for k in Score.__dataclass_fields__ if k in line}
            self.scores[line["architecture"]] = Score(**figures)
            if line["iteration"] == 1:
                self.first_generation.append(line["architecture"])


def read_log(file: Path) -> list[dict[str, Any]]:
    """Reads the whole lines of a ``search.jsonl``.

    Raises:
        UsageError: if there is no such file, or a line is not of a search.
    """
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"{file}: expected the log of a search: {error.strerror}"
        ) from error
    lines = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            content = json.loads(line)
            content["kind"], content["iteration"]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{file}:{number}: expected a line of a search, found {line[:60]!r}"
            ) from error
        lines.append(content)
    return lines


def other_iterations(
    run_dirs: Sequence[Path], fitness: str
) -> dict[str, list[dict[str, Any]]]:
    """Returns the iteration lines of other searches, by name, for the picture.

    Args:
        run_dirs: of the others.
        fitness: what this search ranks by; one axis cannot show two figures.

    Raises:
        UsageError: if one is no search, has no iteration yet, or ranks by another
            figure.
    """
    logs = {}
    for run_dir in run_dirs:
        lines = [
            line for line in read_log(run_dir / LOG_FILE) if line["kind"] == "iteration"
        ]
        if not lines:
            raise UsageError(f"--compare {run_dir}: its search has no iteration yet")
        theirs = lines[0].get("fitness", "the accuracy of an earlier version")
        if theirs != fitness:
            raise UsageError(
                f"--compare {run_dir}: expected a search by {fitness} as this one, "
                f"found one by {theirs}"
            )
        logs[run_dir.name] = lines
    return logs
