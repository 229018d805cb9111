"""Constraints from options: their values equal the real costs, errors are named."""

import json
from pathlib import Path

import pytest

from common.command_line import UsageError
from lvbert_tf import cost
from training.search.constraints import (
    limits_of,
    make_constraint,
    parse_limit,
    read_latency_table,
)

DIMENSIONS = cost.Dimensions.of_size("small", vocabulary_size=8000)
TABLE = {"milliseconds": {"c": 1.5, "s": 1.0, "f": 0.5}, "base_milliseconds": 2.0}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("params", cost.total_params("ccsff", DIMENSIONS)),
        ("backbone_params", cost.backbone_params("ccsff", DIMENSIONS)),
        ("paper_params", cost.paper_params("ccsff", DIMENSIONS)),
        ("flops", cost.model_flops("ccsff", DIMENSIONS, 64)),
        ("latency_ms", 2.0 + 2 * 1.5 + 1.0 + 2 * 0.5),
        ("count_c", 2),
        ("count_s", 1),
    ],
)
def test_values(name: str, expected: float) -> None:
    constraint = make_constraint(
        name,
        1e9,
        letters="csf",
        dimensions=DIMENSIONS,
        sequence_length=64,
        latency_table=TABLE,
    )
    assert constraint.name == name
    assert constraint.value("ccsff") == expected
    assert constraint.value("fscfc") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params<=12e6", ("params", 12e6)),
        (" flops <= 2.5E9 ", ("flops", 2.5e9)),
        ("count_c<=8", ("count_c", 8.0)),
    ],
)
def test_limits(text: str, expected: tuple[str, float]) -> None:
    assert parse_limit(text) == expected


@pytest.mark.parametrize(
    "text",
    ["params", "params=3", "params<=", "params<=x", "params<=-1", "<=3", "a b<=1"],
)
def test_malformed_limits(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME<=NUMBER"):
        parse_limit(text)


def test_the_tighter_limit_holds() -> None:
    assert limits_of(["params<=5", "flops<=7"], 4.0, 3.0) == {
        "params": 4.0,
        "flops": 7.0,
        "latency_ms": 3.0,
    }
    assert limits_of(["params<=5", "params<=6"], None, None) == {"params": 5.0}


def test_errors() -> None:
    def make(name: str, table: object = None) -> None:
        make_constraint(
            name,
            1.0,
            letters="csf",
            dimensions=DIMENSIONS,
            sequence_length=8,
            latency_table=table,  # type: ignore[arg-type]
        )

    with pytest.raises(UsageError, match="unknown cost; expected one of params"):
        make("weight")
    with pytest.raises(UsageError, match="unknown cost"):
        make("count_p")
    with pytest.raises(UsageError, match="needs --latency-table"):
        make("latency_ms")
    with pytest.raises(UsageError, match="no time for letter 'f'"):
        make("latency_ms", {"milliseconds": {"c": 1.0, "s": 1.0}})


def test_latency_tables(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    with pytest.raises(UsageError, match="No such file"):
        read_latency_table(file)
    for content in (
        *("{", "{}", '{"milliseconds": {}}', '{"milliseconds": {"c": -1}}'),
        '{"milliseconds": {"c": NaN}}',
        '{"milliseconds": {"c": 1}, "base_milliseconds": Infinity}',
    ):
        file.write_text(content)
        with pytest.raises(UsageError, match="--latency-table"):
            read_latency_table(file)
    file.write_text(json.dumps(TABLE))
    assert read_latency_table(file) == TABLE
