"""The tasks and their protocol: the paper's Table 6."""

import json

import pytest

from common.command_line import UsageError
from tests.paths import require_shared
from training.finetuning import tasks


def test_epochs_orders_and_metrics_are_those_of_the_paper() -> None:
    paper = json.loads(require_shared("paper/hyperparameters.json").read_text())
    epochs = paper["finetuning"]["epochs"]
    for name, task in tasks.GLUE.items():
        assert task.epochs == epochs.get(name, epochs["default"]), name
        assert task.both_orders is (name in ("mrpc", "sts"))
    assert {t.epochs for t in tasks.SQUAD.values()} == {epochs["squad"]}
    metrics = {name: task.metric for name, task in tasks.GLUE.items()}
    assert metrics.pop("cola") == "mcc"
    assert metrics.pop("sts") == "spearman"
    assert set(metrics.values()) == {"accuracy"}
    assert tasks.find("tsv", "multi_label").metric == "micro_f1"
    with pytest.raises(UsageError, match="--task imdb: expected one of cola"):
        tasks.find("imdb")
