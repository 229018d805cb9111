"""The REST client for programs that await: see `rest_client`."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from .options import AsyncClosing, ClientOptions, Json
from .rest_messages import Call, RestMessages, read, rows_of
from .retry import ClientError, TemporaryError, batches


class AsyncRestClient(AsyncClosing):
    """Asks a model over REST as `RestClient` does, without blocking.

    Many tasks may share one client.

    Args:
        url: ``http://host:port`` or ``https://...``.
        model: the model's name.
        **options: those of `ClientOptions`.

    Raises:
        ValueError: for a URL that is none, or both a version and a label.
    """

    def __init__(self, url: str, model: str, **options: Any) -> None:
        self._options = ClientOptions(model, **options)
        self._messages = RestMessages(url, self._options)
        self._client = httpx2.AsyncClient(verify=_context(self._options), timeout=None)

    async def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance; see `RestClient.predict`."""
        return await self._in_batches("predict", "instances", instances, "predictions")

    async def classify(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns ``[label, score]`` lists; see `RestClient.classify`."""
        return await self._in_batches("classify", "examples", examples, "results")

    async def status(self) -> list[Json]:
        """Returns the state of the model's versions, the newest first."""
        answer = await self._run(self._messages.status)
        statuses: list[Json] = answer["model_version_status"]
        return statuses

    async def metadata(self) -> Json:
        """Returns the signatures; it fails unless the model can answer requests."""
        return await self._run(self._messages.metadata)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _in_batches(
        self, verb: str, key: str, items: Sequence[Any], answer_key: str
    ) -> list[Any]:
        results: list[Any] = []
        for batch in batches(items, self._options.max_batch):
            call = self._messages.call(verb, key, batch)
            answer = await self._run(call)
            results.extend(rows_of(call, answer, answer_key, len(batch)))
        return results

    async def _run(self, call: Call) -> Json:
        return await self._options.retry.run_async(
            lambda left_s: self._once(call, left_s), str(call), self._options.timeout_s
        )

    async def _once(self, call: Call, timeout_s: float) -> Json:
        try:
            # httpx2 times each step of a request; the deadline is for all of it.
            async with asyncio.timeout(timeout_s):
                response = await self._client.request(
                    call.method, call.url, json=call.body
                )
        except TimeoutError as error:
            raise TemporaryError(f"no answer in {timeout_s:.1f} s") from error
        except httpx2.TransportError as error:
            raise TemporaryError(f"{type(error).__name__}: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ClientError(f"{call}: {error}") from error
        return read(
            call,
            response.status_code,
            response.reason_phrase,
            response.headers,
            response.content,
        )


def _context(options: ClientOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=None if options.ca is None else str(options.ca)
    )
    if options.client_certificate is not None:
        context.load_cert_chain(*map(str, options.client_certificate))
    return context
