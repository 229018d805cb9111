"""The gRPC client for programs that await: see `grpc_client`."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import numpy.typing as npt

from . import grpc_messages as messages
from .grpc_messages import Call
from .options import AsyncClosing, ClientOptions, Json
from .retry import batches

Array = npt.NDArray[Any]


class AsyncGrpcClient(AsyncClosing):
    """Asks a model over gRPC as `GrpcClient` does, without blocking.

    Many tasks of one event loop may share one client, which is to be made in it.

    Args:
        address: ``host:port``.
        model: the model's name.
        tls: whether to speak TLS (`connect_async` does for ``grpcs://``).
        **options: those of `ClientOptions`.

    Raises:
        ValueError: for both a version and a label.
    """

    def __init__(
        self, address: str, model: str, *, tls: bool = False, **options: Any
    ) -> None:
        self._options = ClientOptions(model, **options)
        self._address = address
        self._channel = messages.open_channel(grpc.aio, address, self._options, tls)

    async def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance; see `GrpcClient.predict`."""
        results: list[Any] = []
        for batch in batches(instances, self._options.max_batch):
            outputs = await self.predict_arrays(messages.columns_of(batch))
            results.extend(messages.rows_of(outputs, len(batch), self._address))
        return results

    async def predict_arrays(
        self, inputs: Mapping[str, Array], outputs: Sequence[str] = ()
    ) -> dict[str, Array]:
        """Sends arrays in one request; see `GrpcClient.predict_arrays`."""
        call = messages.predict_call(self._options, inputs, outputs)
        return messages.arrays_of(await self._run(call))

    async def classify(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns ``[label, score]`` lists; see `GrpcClient.classify`."""
        results: list[Any] = []
        for batch in batches(examples, self._options.max_batch):
            response = await self._run(messages.classify_call(self._options, batch))
            results.extend(messages.classes_of(response, len(batch), self._address))
        return results

    async def status(self) -> list[Json]:
        """Returns the state of the model's versions, the newest first."""
        response = await self._run(messages.status_call(self._options))
        return messages.statuses_of(response)

    async def metadata(self) -> Json:
        """Returns the signatures; it fails unless the model can answer requests."""
        response = await self._run(messages.metadata_call(self._options))
        return messages.metadata_of(response)

    async def close(self) -> None:
        """Closes the connections."""
        await self._channel.close()

    async def _run(self, call: Call) -> Any:
        what = call.named(self._options.model, self._address)
        send = self._channel.unary_unary(
            call.method,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=call.response.FromString,
        )

        async def once(left_s: float) -> Any:
            try:
                return await send(call.request, timeout=left_s)
            except grpc.aio.AioRpcError as error:
                raise messages.failure(error, what) from error

        return await self._options.retry.run_async(once, what, self._options.timeout_s)
