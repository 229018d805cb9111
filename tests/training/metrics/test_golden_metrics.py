"""The metrics against the official scorers and scripts."""

import gzip
import json
from typing import Any

import pytest

from tests.paths import golden, require_shared
from training.metrics.classification import (
    accuracy,
    f1_of_class,
    matthews_correlation,
)
from training.metrics.glue_average import AVERAGED, glue_average
from training.metrics.regression import regression_figures
from training.metrics.squad import (
    evaluate_v1,
    evaluate_v2,
    normalized,
    token_f1,
)

pytestmark = pytest.mark.golden


def _cases() -> dict[str, Any]:
    return json.loads(golden("metrics/glue.json").read_text())


def test_classification_equals_the_official_scorers() -> None:
    cases = {k: v for k, v in _cases().items() if "mcc" in v["results"]}
    assert len(cases) == 10
    for name, case in cases.items():
        predicted, labels, results = (
            case["predictions"],
            case["labels"],
            case["results"],
        )
        ours = 100 * accuracy(predicted, labels)
        assert ours == pytest.approx(results["accuracy"]["accuracy"], abs=1e-9), name
        ours = 100 * matthews_correlation(predicted, labels)
        assert ours == pytest.approx(results["mcc"]["mcc"], abs=1e-9), name
        if results.get("true_f1_sklearn") is not None:
            ours = 100 * f1_of_class(predicted, labels, 1)
            assert ours == pytest.approx(results["true_f1_sklearn"], abs=1e-9), name


def test_regression_equals_the_official_scorer_and_says_what_is_undefined() -> None:
    cases = {k: v for k, v in _cases().items() if "regression" in v["results"]}
    assert len(cases) == 5
    for name, case in cases.items():
        official = case["results"]["regression"]
        ours = regression_figures(case["predictions"], case["labels"])
        assert ours["mean_squared_error"] == pytest.approx(official["mse"], abs=1e-4)
        for figure in ("pearson", "spearman"):
            if official[figure] == "nan":
                assert ours[figure] is None, name
                assert "all predictions are equal" in ours["undefined"]
            else:
                expected = pytest.approx(official[figure], abs=1e-4)
                assert 100 * ours[figure] == expected, name


def _answers(dataset: Any) -> dict[str, list[str]]:
    return {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for article in dataset
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }


def test_squad_1_equals_the_official_script() -> None:
    case = json.loads(golden("metrics/squad.json").read_text())["v1"]
    ours = evaluate_v1(_answers(case["dataset"]), case["predictions"])
    for name, value in case["result"].items():
        assert ours[name] == pytest.approx(value, abs=1e-9)
    assert ours["missing"] == 1
    for question in case["per_question"]:
        assert normalized(question["prediction"]) == question["normalized_prediction"]
        for counts, name in ((False, "f1_v1"), (True, "f1_v2")):
            best = max(
                token_f1(question["prediction"], answer, empty_counts=counts)
                for answer in question["answers"]
            )
            assert best == pytest.approx(question[name], abs=1e-9), question["id"]


def test_squad_2_equals_the_official_script_at_every_threshold() -> None:
    case = json.loads(golden("metrics/squad.json").read_text())["v2"]
    answers = _answers(case["dataset"])
    assert len(case["results_by_threshold"]) == 5
    for threshold, official in case["results_by_threshold"].items():
        ours = evaluate_v2(
            answers, case["predictions"], case["na_scores"], float(threshold)
        )
        for name, value in official.items():
            assert ours[name] == pytest.approx(value, abs=1e-9), (threshold, name)


def test_a_published_models_predictions_get_their_official_score() -> None:
    folder = require_shared("data/squad")
    with gzip.open(folder / "dev-v1.1.json.gz") as stream:
        answers = _answers(json.load(stream)["data"])
    with gzip.open(folder / "preds-bert-ensemble-v1.1.json.gz") as stream:
        predictions = json.load(stream)
    ours = evaluate_v1(answers, predictions)
    assert ours["exact_match"] == pytest.approx(86.206, abs=5e-4)
    assert ours["f1"] == pytest.approx(92.196, abs=5e-4)
    assert (ours["total"], ours["missing"]) == (10570, 0)


def test_the_average_is_over_the_eight_tasks_of_the_paper() -> None:
    scores = {task: float(number) for number, task in enumerate(AVERAGED)}
    assert glue_average({**scores, "wnli": 100.0}) == 3.5
    assert glue_average({"cola": 1.0}) is None
    rows = json.loads(require_shared("paper/results.json").read_text())
    for row in rows["glue_dev_table2"]:  # as printed, of figures with one decimal
        ours = glue_average(row["scores"])
        assert ours == pytest.approx(row["scores"]["average"], abs=0.1), row["model"]
