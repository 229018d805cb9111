"""Shows the tokens that a text signature makes of a text, for the demo page.

No signature returns them. The graph's tokenizer is cut out of the signature's function
and run alone, so that what is shown is what the model reads.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import graph_util_impl as graph_util
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

from serving.server.servable import DEFAULT_SIGNATURE, Servable

_TOKENIZER = "FastWordpieceTokenizeWithOffsets"


class TokenView:
    """The tokenizer of a loaded version.

    Args:
        servable: the version.

    Raises:
        LookupError: if its default signature has no tokenizer that is known.
    """

    def __init__(self, servable: Servable) -> None:
        meta_graph = servable.meta_graph
        library = meta_graph.graph_def.library
        function, node = _tokenizing_function(library)
        with tf.Graph().as_default():
            tf.import_graph_def(tf.compat.v1.GraphDef(library=library), name="")
            graph_def, _ = function_def_to_graph_def(function)
        graph_def = graph_util.extract_sub_graph(graph_def, [node])
        graph_def.library.CopyFrom(library)
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(graph_def, name="")
        inputs = {
            operation.name: operation.outputs[0]
            for operation in graph.get_operations()
            if operation.type == "Placeholder"
        }
        texts = [t for t in inputs.values() if t.dtype == tf.string and t.shape != ()]
        models = [t for t in inputs.values() if t.dtype == tf.uint8]
        constants = _constants(meta_graph.graph_def, tf.uint8)
        if len(texts) != 1 or len(models) != 1 or len(constants) != 1:
            raise LookupError(f"{servable.path}: its tokenizer has other inputs")
        self._text = texts[0]
        self._fixed = {models[0]: constants[0]}
        self._tokens = graph.get_operation_by_name(node).outputs[0]
        self._session = tf.compat.v1.Session(graph=graph)

    def tokens(self, text: str) -> list[str]:
        """Returns the tokens of a text, without [CLS] and [SEP], none cut off."""
        values = self._session.run(
            self._tokens, {**self._fixed, self._text: np.array([text.encode()], object)}
        )
        return [value.decode(errors="replace") for value in np.ravel(values)]


def _tokenizing_function(library: Any) -> tuple[Any, str]:
    """Returns the function of the text signature, and its tokenizer's name."""
    for function in library.function:
        arguments = {argument.name for argument in function.signature.input_arg}
        for node in function.node_def:
            if node.op == _TOKENIZER and "text" in arguments:
                return function, node.name
    raise LookupError(f"{DEFAULT_SIGNATURE}: no {_TOKENIZER} in the graph")


def _constants(graph_def: Any, dtype: tf.DType) -> list[Any]:
    """Returns the distinct constants of a type, in the graph or in its functions."""
    nodes = [
        *graph_def.node,
        *(n for f in graph_def.library.function for n in f.node_def),
    ]
    distinct = {}
    for node in nodes:
        if node.op == "Const" and node.attr["dtype"].type == dtype.as_datatype_enum:
            array = tf.make_ndarray(node.attr["value"].tensor)
            distinct[array.tobytes()] = array
    return list(distinct.values())
