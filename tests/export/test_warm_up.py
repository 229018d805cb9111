"""Warm-up requests (X12)."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from common.command_line import UsageError
from common.saved_model_session import SavedModelSession
from export import warm_up
from export.saved_model import WARM_UP_BATCH_SIZES
from export.task import Task
from tests.export.models import Artefacts
from tests.paths import REPOSITORY

pytestmark = pytest.mark.export

TASK = Task(
    labels=("a", "b"),
    regression=False,
    logits=True,
    pairs=True,
    sequence_length=16,
    max_sequence_length=16,
    vocabulary_size=10,
    num_segments=2,
    pad_token_id=0,
    fixed_length=False,
)


def read(path: Path) -> list[prediction_log_pb2.PredictionLog]:
    return [
        prediction_log_pb2.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(path))
    ]


def test_every_signature_at_every_batch_size(artefacts: Artefacts) -> None:
    base = artefacts.saved_model()
    logs = read(base / "1" / warm_up.WARM_UP_FILE)
    assert len(logs) == Artefacts.result(base)["warm_up_records"] <= 1000
    seen = set()
    with SavedModelSession(base / "1") as session:
        for log in logs:
            if log.WhichOneof("log_type") == "classify_log":
                request = log.classify_log.request
                examples = request.input.example_list.examples
                serialized = [example.SerializeToString() for example in examples]
                inputs = {"inputs": np.array(serialized, dtype=object)}
            else:
                request = log.predict_log.request
                inputs = {
                    name: tf.make_ndarray(proto)
                    for name, proto in request.inputs.items()
                }
            name = request.model_spec.signature_name
            assert request.model_spec.name == "plain"
            rows = len(next(iter(inputs.values())))
            seen.add((name, rows))
            # A record that fails would make the server refuse the version.
            assert len(session.run(name, inputs)["scores"]) == rows
    assert seen == {
        (name, rows)
        for name in ("serving_default", "tokens", "classify")
        for rows in (1, 2, 4, 8, 16, 32, 64)
    }


def test_warm_up_and_batching_allow_the_same_sizes(artefacts: Artefacts) -> None:
    """By construction: of the version itself, and of the file that serving ships."""
    base = artefacts.saved_model()
    for path in (
        base / "1" / warm_up.BATCHING_FILE,
        REPOSITORY / "serving" / "deploy" / "batching.config",
    ):
        text = path.read_text(encoding="utf-8")
        sizes = tuple(map(int, re.findall(r"^allowed_batch_sizes: (\d+)$", text, re.M)))
        assert sizes == WARM_UP_BATCH_SIZES
        assert f"max_batch_size {{ value: {sizes[-1]} }}" in text


def test_pairs_have_both_texts(tmp_path: Path) -> None:
    assert warm_up.write_warm_up(tmp_path, "pairs", TASK, [2]) == 6
    requests = [
        log.predict_log.request for log in read(tmp_path / warm_up.WARM_UP_FILE)
    ]
    assert set(requests[0].inputs) == {"text", "text_pair"}


@pytest.mark.parametrize("sizes", [[], [0], [4, -1], range(1, 400)])
def test_batch_sizes_that_will_not_do(tmp_path: Path, sizes: list[int]) -> None:
    with pytest.raises(UsageError, match="--warm-up-batch-sizes"):
        warm_up.write_warm_up(tmp_path, "clf", TASK, sizes)
    assert list(tmp_path.iterdir()) == []


def test_without_the_stubs_asking_for_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "stubs_installed", lambda: False)
    with pytest.raises(UsageError, match="tensorflow-serving-api"):
        warm_up.write_warm_up(tmp_path, "clf", TASK, [1])
