"""Running a SavedModel the way TensorFlow Serving does.

`tf.saved_model.load` accepts exports that a server cannot load, so nothing here uses
it: a session with a graph of its own restores the variables by name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of graphs that take text
from tensorflow.core.protobuf import config_pb2

from common.command_line import CommandError

Array = npt.NDArray[Any]

# Signatures of the graph's own, which nobody may run.
_PRIVATE = ("__saved_model_init_op", "__saved_model_train_op")


class SavedModelError(CommandError):
    """A SavedModel that a server cannot load.

    Attributes:
        code: the canonical code of TensorFlow's error; INVALID_ARGUMENT where it is
            another one.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class SavedModelSession:
    """A loaded version; use it in a `with` statement, or `close` it.

    Args:
        path: the version's folder.
        inter_op_threads: operations run at a time; 0: as many as there are cores.
        intra_op_threads: threads for one operation; 0: as many as there are cores.

    Raises:
        SavedModelError: if a server could not load it; the message names the folder.
    """

    def __init__(
        self, path: Path, inter_op_threads: int = 0, intra_op_threads: int = 0
    ) -> None:
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(
            graph=graph,
            config=tf.compat.v1.ConfigProto(
                inter_op_parallelism_threads=inter_op_threads,
                intra_op_parallelism_threads=intra_op_threads,
            ),
        )
        try:
            with graph.as_default(), _without_advice():
                self.meta_graph = tf.compat.v1.saved_model.loader.load(
                    self._session, [tf.saved_model.SERVING], str(path)
                )
        except Exception as error:
            self._session.close()
            raise SavedModelError(
                f"{path}: cannot be loaded in a session: {error}",
                getattr(error, "error_code", tf.errors.INVALID_ARGUMENT),
            ) from error
        self.definitions: dict[str, Any] = {
            name: definition
            for name, definition in sorted(self.meta_graph.signature_def.items())
            if name not in _PRIVATE
        }
        self._callables: dict[tuple[tuple[str, ...], ...], Callable[..., Any]] = {}

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

        Raises:
            tf.errors.OpError: what the graph says.
        """
        definition = self.definitions[signature]
        names = self.input_names(signature)
        outputs = self.output_names(signature)
        values = self.compute(
            [definition.inputs[name].name for name in names],
            [inputs[name] for name in names],
            [definition.outputs[name].name for name in outputs],
        )
        return dict(zip(outputs, values, strict=True))

    def compute(
        self, feeds: Sequence[str], arrays: Sequence[Array], fetches: Sequence[str]
    ) -> list[Array]:
        """Computes tensors of the graph.

        Args:
            feeds: names of the tensors to feed.
            arrays: an array for each; strings as object arrays of bytes.
            fetches: names of the tensors to compute.

        Returns:
            An array for each of `fetches`.

        Raises:
            tf.errors.OpError: what the graph says.
        """
        key = (tuple(feeds), tuple(fetches))
        if key not in self._callables:
            options = config_pb2.CallableOptions(feed=key[0], fetch=key[1])
            # Session.run costs four times as much per call as this, which is what
            # Keras's own legacy backend uses; TensorFlow is pinned.
            self._callables[key] = self._session._make_callable_from_options(options)
        return [np.asarray(value) for value in self._callables[key](*arrays)]

    def close(self) -> None:
        """Frees the model; nothing can be computed any more."""
        self._callables.clear()
        self._session.close()

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
        self.close()


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
