"""The list of operations a served graph may hold (X05)."""

from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from export.graph_ops import OperationError, check_operations, operations
from tests.export.models import Artefacts


class Trimming(tf.Module):
    """A graph with an operation that images before 2.20 lack."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        words = tf_text.WhitespaceTokenizer().tokenize(text)
        trimmed = tf_text.RoundRobinTrimmer(5).trim([words, words])
        return {"words": trimmed[0].to_tensor()}


@pytest.mark.export
def test_the_exported_graph_holds_only_listed_operations(artefacts: Artefacts) -> None:
    names = operations(artefacts.saved_model() / "1")
    assert check_operations(names) == "2.17"
    assert "TFText>RoundRobinTrim" not in names
    # From the function library, where signatures keep their nodes.
    assert "MatMul" in names


def test_operations_inside_functions_are_found(tmp_path: Path) -> None:
    module = Trimming()
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    names = operations(tmp_path)
    assert "TFText>RoundRobinTrim" in names
    with pytest.raises(OperationError, match="TFText>RoundRobinTrim"):
        check_operations(names)


def test_an_unlisted_operation_is_named_and_may_be_allowed() -> None:
    names = ["MatMul", "BrandNewOp", "AnotherOne"]
    with pytest.raises(OperationError, match="AnotherOne, BrandNewOp"):
        check_operations(names)
    assert check_operations(names, ["BrandNewOp", "AnotherOne"]) == "2.17"
