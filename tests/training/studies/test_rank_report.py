"""What `rank-check` says of accuracies, defined or not."""

import json

import pytest

from training.studies.rank_report import rank_report

SETS = ["csf"] * 4 + ["cs"] * 2


def test_orders_that_agree() -> None:
    inherited = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    own = [[10 * a, 10 * a + 1] for a in inherited]
    baselines = {"params": [-a for a in inherited], "count_c": [1.0, 2, 0, 1, 1, 1]}
    result = rank_report(SETS, inherited, own, inherited[::-1], baselines)
    assert result["kendall_tau"] == pytest.approx(1.0)
    assert result["spearman"] == pytest.approx(1.0)
    assert result["interval"] == pytest.approx([1.0, 1.0])
    assert result["n"] == 6
    assert result["within_letter_sets"] == pytest.approx(1.0)
    assert result["within"]["cs"] == {"kendall_tau": pytest.approx(1.0), "n": 2}
    assert result["noise_ceiling"]["kendall_tau"] == pytest.approx(1.0)
    assert result["supernet_agreement"]["kendall_tau"] == pytest.approx(-1.0)
    assert result["baselines"]["params"]["spearman"] == pytest.approx(-1.0)
    assert abs(result["baselines"]["count_c"]["kendall_tau"]) < 1


def test_across_sets_may_hide_what_is_within() -> None:
    """Large differences between letter sets make any supernet look good."""
    inherited = [0.1, 0.2, 0.3, 0.4, 0.9, 0.8]
    own = [[0.4], [0.3], [0.2], [0.1], [0.8], [0.9]]
    result = rank_report(SETS, inherited, own, None, {})
    assert result["kendall_tau"] > 0
    assert result["within_letter_sets"] == pytest.approx(-1.0)


def test_constant_scores_are_undefined_s11() -> None:
    result = rank_report(
        SETS,
        [0.5] * 6,
        [[0.1 * i] for i in range(6)],
        None,
        {"flops": [1.0] * 6},
    )
    for name in ("kendall_tau", "spearman", "interval", "within_letter_sets"):
        assert result[name] == "undefined"
        assert result["undefined"][name]
    assert result["noise_ceiling"] == "undefined"
    assert result["undefined"]["noise_ceiling"] == "one training seed only"
    assert result["supernet_agreement"] == "undefined"
    assert result["baselines"]["flops"]["kendall_tau"] == "undefined"
    text = json.dumps(result, allow_nan=False)  # raises where a NaN is
    assert "NaN" not in text
