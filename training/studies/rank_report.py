"""The figures of ``rank-check`` from the accuracies that it gathered."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.metrics.rank_correlation import (
    all_equal,
    bootstrap_interval,
    grouped_kendall_tau,
    kendall_tau,
    spearman,
)

UNDEFINED = "undefined"


def rank_report(
    letter_sets: Sequence[str],
    inherited: Sequence[float],
    own: Sequence[Sequence[float]],
    second_inherited: Sequence[float] | None,
    baselines: Mapping[str, Sequence[float]],
) -> dict[str, Any]:
    """Compares orders.

    Args:
        letter_sets: the set of letters that each of n architectures was drawn from.
        inherited: fitness with the supernet's weights; more is better.
        own: fitness when trained from scratch, one for each training seed; the first
            one counts, the second tells the noise.
        second_inherited: fitness with the weights of a supernet of another seed.
        baselines: name to a value of each architecture.

    Returns:
        The result of the command, see `training.studies.rank_check.run`.
    """
    reasons: dict[str, str] = {}
    first = [accuracies[0] for accuracies in own]
    main = _compare(inherited, first, letter_sets, "", reasons)
    ceiling: Any
    agreement: Any
    if len(own[0]) > 1:
        again = [accuracies[1] for accuracies in own]
        ceiling = _compare(first, again, letter_sets, "noise_ceiling", reasons)
    else:
        ceiling = _missing("noise_ceiling", "one training seed only", reasons)
    if second_inherited is None:
        agreement = _missing("supernet_agreement", "one supernet only", reasons)
    else:
        agreement = _compare(
            inherited, second_inherited, letter_sets, "supernet_agreement", reasons
        )
    return {
        **main,
        "n": len(letter_sets),
        "baselines": {
            name: _compare(values, first, letter_sets, f"baselines.{name}", reasons)
            for name, values in baselines.items()
        },
        "noise_ceiling": ceiling,
        "supernet_agreement": agreement,
        "undefined": reasons,
    }


def _compare(
    first: Sequence[float],
    second: Sequence[float],
    letter_sets: Sequence[str],
    name: str,
    reasons: dict[str, str],
) -> dict[str, Any]:
    """Both correlations across all, and tau within the sets of letters."""
    prefix = f"{name}." if name else ""

    def said(key: str, value: Any, reason: str) -> Any:
        if value is None:
            reasons[f"{prefix}{key}"] = reason
            return UNDEFINED
        return value

    constant = (
        "all values of one side are equal"
        if all_equal(first) or all_equal(second)
        else "too few different values"
    )
    within: dict[str, Any] = {}
    for letters in dict.fromkeys(letter_sets):
        rows = [i for i, other in enumerate(letter_sets) if other == letters]
        tau = kendall_tau([first[i] for i in rows], [second[i] for i in rows])
        reason = "fewer than two architectures" if len(rows) < 2 else "equal values"
        within[letters] = {
            "kendall_tau": said(f"within.{letters}.kendall_tau", tau, reason),
            "n": len(rows),
        }
    sets = list(dict.fromkeys(letter_sets))
    grouped = grouped_kendall_tau(first, second, [sets.index(s) for s in letter_sets])
    return {
        "kendall_tau": said("kendall_tau", kendall_tau(first, second), constant),
        "spearman": said("spearman", spearman(first, second), constant),
        "interval": said(
            "interval", bootstrap_interval(first, second, kendall_tau), constant
        ),
        "spearman_interval": said(
            "spearman_interval", bootstrap_interval(first, second, spearman), constant
        ),
        "within_letter_sets": said("within_letter_sets", grouped, "equal values"),
        "within": within,
    }


def _missing(name: str, reason: str, reasons: dict[str, str]) -> str:
    reasons[name] = reason
    return UNDEFINED
