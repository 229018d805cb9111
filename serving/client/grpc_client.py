"""A gRPC client that needs neither TensorFlow nor Keras: grpcio, protobuf, numpy."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import numpy.typing as npt

from . import grpc_messages as messages
from .grpc_messages import Call
from .options import ClientOptions, Closing, Json
from .retry import batches

Array = npt.NDArray[Any]


class GrpcClient(Closing):
    """Asks a model over gRPC.

    It splits, retries and answers as `RestClient` does.

    Args:
        address: ``host:port``.
        model: the model's name.
        tls: whether to speak TLS (`connect` does for ``grpcs://``).
        **options: those of `ClientOptions`.

    Raises:
        ValueError: for both a version and a label.
    """

    def __init__(
        self, address: str, model: str, *, tls: bool = False, **options: Any
    ) -> None:
        self._options = ClientOptions(model, **options)
        self._address = address
        self._channel = messages.open_channel(grpc, address, self._options, tls)

    def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance, in order.

        Args:
            instances: texts (input ``text``), or objects from input name to text,
                number, or list of numbers, all of one length; numbers are sent as
                int32 or float32.

        Returns:
            For each instance an object from output name to value, or the bare value
            where the signature has one output. Strings are decoded as UTF-8.

        Raises:
            ClientError: if the server refuses, or cannot be reached.
        """
        results: list[Any] = []
        for batch in batches(instances, self._options.max_batch):
            outputs = self.predict_arrays(messages.columns_of(batch))
            results.extend(messages.rows_of(outputs, len(batch), self._address))
        return results

    def predict_arrays(
        self, inputs: Mapping[str, Array], outputs: Sequence[str] = ()
    ) -> dict[str, Array]:
        """Sends arrays in one request and returns arrays.

        Args:
            inputs: an array for each input; strings as object arrays of bytes.
            outputs: the outputs to compute, by default all.

        Raises:
            ClientError: if the server refuses, or cannot be reached.
        """
        call = messages.predict_call(self._options, inputs, outputs)
        return messages.arrays_of(self._run(call))

    def classify(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns for each example a list of ``[label, score]``.

        Args:
            examples: objects from feature name to value or list of values.

        Raises:
            ClientError: if the server refuses, or cannot be reached.
        """
        results: list[Any] = []
        for batch in batches(examples, self._options.max_batch):
            response = self._run(messages.classify_call(self._options, batch))
            results.extend(messages.classes_of(response, len(batch), self._address))
        return results

    def status(self) -> list[Json]:
        """Returns the state of the model's versions, the newest first."""
        return messages.statuses_of(self._run(messages.status_call(self._options)))

    def metadata(self) -> Json:
        """Returns the signatures; it fails unless the model can answer requests."""
        return messages.metadata_of(self._run(messages.metadata_call(self._options)))

    def close(self) -> None:
        """Closes the connections."""
        self._channel.close()

    def _run(self, call: Call) -> Any:
        what = call.named(self._options.model, self._address)
        send = self._channel.unary_unary(
            call.method,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=call.response.FromString,
        )

        def once(left_s: float) -> Any:
            try:
                return send(call.request, timeout=left_s)
            except grpc.RpcError as error:
                raise messages.failure(error, what) from error

        return self._options.retry.run(once, what, self._options.timeout_s)
