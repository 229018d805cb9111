"""From the options of ``search`` to the constraints of its space."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.command_line import UsageError

if TYPE_CHECKING:
    from lvbert_tf.cost import Dimensions
    from lvbert_tf.search.space import Constraint

COSTS = {
    "params": "trainable parameters of the model",
    "backbone_params": "parameters of the layers",
    "paper_params": "parameters of the layers as the paper counts them",
    "flops": "FLOPs of one sequence, forward",
    "latency_ms": "milliseconds, from a table of `latency`",
    "count_c": "number of layers of a letter (count_s, count_f, ... likewise)",
}
"""What a constraint can limit."""

_FORM = re.compile(r"\s*([a-z_]+)\s*<=\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*")


def parse_limit(text: str, option: str = "--constraint") -> tuple[str, float]:
    """Reads ``"NAME<=NUMBER"``.

    Raises:
        UsageError: if it is not of that form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{option} {text}: expected NAME<=NUMBER, for example params<=12e6; "
            f"NAME is one of {', '.join(COSTS)}"
        )
    return match[1], float(match[2])


def make_constraint(
    name: str,
    maximum: float,
    *,
    letters: str,
    dimensions: "Dimensions",
    sequence_length: int,
    latency_table: Mapping[str, Any] | None = None,
) -> "Constraint":
    """Returns the constraint that limits a cost.

    Args:
        name: one of `COSTS`.
        maximum: the largest value allowed.
        letters: the letters of the space.
        dimensions: sizes of the supernet.
        sequence_length: T, for FLOPs.
        latency_table: what `read_latency_table` gave, for `latency_ms`.

    Raises:
        UsageError: if there is no such cost, or no table where one is needed.
    """
    from lvbert_tf import cost
    from lvbert_tf.search.space import Constraint

    first = letters[0]
    counted = name.removeprefix("count_")
    if name.startswith("count_") and len(counted) == 1 and counted in letters:
        return Constraint(name, {a: float(a == counted) for a in letters}, maximum)
    if name in ("params", "backbone_params"):
        costs = {a: float(cost.layer_params(a, dimensions)) for a in letters}
        total = cost.total_params(first, dimensions)
        base = total - costs[first] if name == "params" else 0.0
        return Constraint(name, costs, maximum, base)
    if name == "paper_params":
        base = float(cost.embedding_projection_params(dimensions))
        costs = {a: cost.paper_params(a, dimensions) - base for a in letters}
        return Constraint(name, costs, maximum, base)
    if name == "flops":
        costs = {a: cost.layer_flops(a, dimensions, sequence_length) for a in letters}
        total_flops = cost.model_flops(first, dimensions, sequence_length)
        return Constraint(name, costs, maximum, total_flops - costs[first])
    if name == "latency_ms":
        if latency_table is None:
            raise UsageError(
                "a limit of latency_ms needs --latency-table FILE, which "
                "`python -m training latency --output FILE` measures on this machine"
            )
        milliseconds = latency_table["milliseconds"]
        lacking = [a for a in letters if a not in milliseconds]
        if lacking:
            raise UsageError(
                f"--latency-table: it has no time for letter {lacking[0]!r}, only for "
                f"{', '.join(milliseconds)}"
            )
        width = latency_table.get("hidden_dim", dimensions.hidden_dim)
        if width != dimensions.hidden_dim:
            raise UsageError(
                f"--latency-table: its layers are {width} wide, those of the supernet "
                f"{dimensions.hidden_dim}; measure with "
                f"--set model.hidden_dim={dimensions.hidden_dim}"
            )
        costs = {a: float(milliseconds[a]) for a in letters}
        base = float(latency_table.get("base_milliseconds", 0.0))
        return Constraint(name, costs, maximum, base)
    raise UsageError(
        f"--constraint {name}: unknown cost; expected one of {', '.join(COSTS)}"
    )


def read_latency_table(file: Path) -> dict[str, Any]:
    """Reads what ``latency`` wrote.

    Raises:
        UsageError: if it is no such file.
    """
    try:
        content = json.loads(file.read_text("utf-8"))
        times = [float(value) for value in content["milliseconds"].values()]
        everything = [*times, float(content.get("base_milliseconds", 0.0))]
    except OSError as error:
        raise UsageError(f"--latency-table {file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"--latency-table {file}: expected a table that `latency` wrote: {error}"
        ) from error
    if not times or not all(0 <= value < math.inf for value in everything):
        raise UsageError(
            f"--latency-table {file}: expected times from 0, found {everything}"
        )
    table: dict[str, Any] = content
    return table


def limits_of(
    constraints: Sequence[str],
    max_params: float | None,
    max_latency_ms: float | None,
) -> dict[str, float]:
    """Returns cost to maximum from the options; of two limits the tighter holds."""
    pairs = [parse_limit(text) for text in constraints]
    if max_params is not None:
        pairs.append(("params", max_params))
    if max_latency_ms is not None:
        pairs.append(("latency_ms", max_latency_ms))
    limits: dict[str, float] = {}
    for name, maximum in pairs:
        limits[name] = min(maximum, limits.get(name, maximum))
    return limits
