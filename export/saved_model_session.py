"""Running a SavedModel the way TensorFlow Serving does.

`tf.saved_model.load` accepts exports that a server cannot load, so nothing here uses
it: a session with a graph of its own restores the variables by name.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of graphs that take text

from common.command_line import CommandError
from export.quiet_runtime import without_notes
from export.signatures import Signature

Array = npt.NDArray[Any]

# Signatures of the graph's own.
_PRIVATE = ("__saved_model_init_op", "__saved_model_train_op")


class SavedModelSession:
    """A loaded version; use it in a `with` statement.

    Args:
        path: the version's folder.

    Raises:
        CommandError: if a server could not load it.
    """

    def __init__(self, path: Path) -> None:
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph)
        try:
            with graph.as_default(), _without_advice(), without_notes():
                meta_graph = tf.compat.v1.saved_model.loader.load(
                    self._session, [tf.saved_model.SERVING], str(path)
                )
        except Exception as error:
            self._session.close()
            raise CommandError(f"{path}: cannot be loaded in a session: {error}") from (
                error
            )
        self.definitions: dict[str, Any] = {
            name: definition
            for name, definition in meta_graph.signature_def.items()
            if name not in _PRIVATE
        }
        self._callables: dict[str, tuple[list[str], Any]] = {}

    def input_names(self, signature: str) -> list[str]:
        """Returns the names of a signature's inputs; none where there is no such."""
        return sorted(getattr(self.definitions.get(signature), "inputs", ()))

    def output_names(self, signature: str) -> list[str]:
        """Returns the names of a signature's outputs; none where there is no such."""
        return sorted(getattr(self.definitions.get(signature), "outputs", ()))

    def run(self, signature: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Computes the outputs of a signature.

        Args:
            signature: its name.
            inputs: an array for each input; strings as object arrays of bytes.

        Returns:
            The outputs by name.
        """
        definition = self.definitions[signature]
        if signature not in self._callables:
            names = sorted(definition.inputs)
            self._callables[signature] = (
                names,
                self._session.make_callable(
                    {key: info.name for key, info in definition.outputs.items()},
                    feed_list=[definition.inputs[name].name for name in names],
                ),
            )
        names, function = self._callables[signature]
        outputs = function(*(inputs[name] for name in names))
        return {name: np.asarray(value) for name, value in outputs.items()}

    def check_signatures(self, table: Mapping[str, Signature]) -> None:
        """Compares names, types and shapes with the table.

        Raises:
            CommandError: if they differ.
        """
        expected = {
            name: (_described(signature.inputs), _described(signature.outputs))
            for name, signature in table.items()
        }
        received = {
            name: (_stored(definition.inputs), _stored(definition.outputs))
            for name, definition in self.definitions.items()
        }
        if received != expected:
            raise CommandError(
                f"the SavedModel's signatures: expected {expected}. "
                f"Received: {received}"
            )

    def __enter__(self) -> Self:
        """Returns the session itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Frees the model."""
        self._callables.clear()
        self._session.close()


@contextmanager
def _without_advice() -> Iterator[None]:
    """Hides the advice to use `tf.saved_model.load`, which is what must not be used."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)


def _described(tensors: Any) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    return {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors}


def _stored(tensors: Any) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    return {
        name: (
            tf.as_dtype(info.dtype).name,
            tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim),
        )
        for name, info in tensors.items()
    }
