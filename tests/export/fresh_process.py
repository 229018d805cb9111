"""Runs a SavedModel in a process that has TensorFlow and TensorFlow Text only.

Usage: python fresh_process.py VERSION_FOLDER TEXT...

Scalars and matrices of text kill a process whose graph does not guard its tokenizer:
that they are fed here, at the level of the C session, keeps the tests alive.
"""

import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops
from tensorflow.core.protobuf import config_pb2


def main(folder: str, texts: list[str]) -> dict[str, object]:
    """Returns the answers, and what odd shapes are answered with."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], folder)

        def ask(signature: str, array: object) -> list[np.ndarray]:
            definition = meta_graph.signature_def[signature]
            (feed,) = (info.name for info in definition.inputs.values())
            fetches = [info.name for _, info in sorted(definition.outputs.items())]
            options = config_pb2.CallableOptions(feed=[feed], fetch=fetches)
            return session._make_callable_from_options(options)(
                np.array(array, dtype=object)
            )

        label, scores = ask("serving_default", [text.encode() for text in texts])
        odd = {}
        for signature in ("serving_default", "classify"):
            for name, array in (("scalar", b"a"), ("matrix", [[b"a", b"b"]])):
                try:
                    ask(signature, array)
                    odd[f"{signature} {name}"] = "answered"
                except tf.errors.OpError as error:
                    odd[f"{signature} {name}"] = f"{type(error).__name__}: {error}"
    return {
        "label": [value.decode() for value in label],
        "scores": scores.tolist(),
        "odd": odd,
        "modules": [name for name in ("keras", "lvbert_tf") if name in sys.modules],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
