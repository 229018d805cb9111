"""Runs the recorded requests of a version before it is served."""

from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import input_pb2, prediction_log_pb2

from serving.server.inference import Model
from serving.server.limits import Limits
from serving.server.servable import DEFAULT_SIGNATURE, Servable
from serving.server.status import ServingError, invalid_argument
from serving.server.tensor_protos import to_array

WARM_UP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
_MAX_RECORDS = 1000


def warm_up(servable: Servable, limits: Limits) -> int:
    """Runs the warm-up requests that lie beside a model, if any do.

    Args:
        servable: the freshly loaded version.
        limits: what one input may take at most.

    Returns:
        How many requests were run.

    Raises:
        ServingError: if a record is damaged or its request fails. A model whose own
            recorded requests fail must not replace one that works.
    """
    path = servable.path / WARM_UP_FILE
    if not path.is_file():
        return 0
    model = Model(servable, 0, None, limits)
    count = 0
    try:
        for record in _records(path):
            if count == _MAX_RECORDS:
                raise invalid_argument(f"more than {_MAX_RECORDS} records")
            _run(model, prediction_log_pb2.PredictionLog.FromString(record), limits)
            count += 1
    except (ServingError, DecodeError, tf.errors.OpError) as error:
        raise invalid_argument(f"{path}: warm-up record {count}: {error}") from error
    return count


def _records(path: Path) -> Iterator[bytes]:
    for record in tf.data.TFRecordDataset(str(path)):
        yield record.numpy()


def _run(model: Model, log: "prediction_log_pb2.PredictionLog", limits: Limits) -> None:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        signature = model.servable.signatures.get(name)
        if signature is None:
            raise invalid_argument(f"no signature {name}")
        if request.inputs.keys() != signature.inputs.keys():
            raise invalid_argument(
                f"signature {name}: expected the inputs {sorted(signature.inputs)}. "
                f"Received: {sorted(request.inputs)}"
            )
        arrays = {
            key: to_array(key, proto, limits) for key, proto in request.inputs.items()
        }
        model.run(signature, arrays)
    elif kind == "classify_log":
        request = log.classify_log.request
        model.classify(
            request.model_spec.signature_name, serialized_inputs(request.input, limits)
        )
    elif kind == "regress_log":
        request = log.regress_log.request
        model.regress(
            request.model_spec.signature_name, serialized_inputs(request.input, limits)
        )
    else:
        raise invalid_argument(f"{kind or 'an empty record'} cannot be run")


def serialized_inputs(message: input_pb2.Input, limits: Limits) -> list[bytes]:
    """Returns the serialized Examples of a classify or regress request.

    Raises:
        ServingError: INVALID_ARGUMENT where there are none, or too many.
    """
    context = b""
    examples = message.example_list.examples
    if message.WhichOneof("kind") == "example_list_with_context":
        context = message.example_list_with_context.context.SerializeToString()
        examples = message.example_list_with_context.examples
    if not examples:
        raise invalid_argument("Input is empty.")
    limits.check_examples(len(examples), len(context))
    return [context + example.SerializeToString() for example in examples]
