"""A REST client for the TensorFlow Serving API, embedded or stock."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import requests

from .options import ClientOptions, Closing, Json
from .rest_messages import Call, RestMessages, read, rows_of
from .retry import ClientError, TemporaryError, batches


class RestClient(Closing):
    """Asks a model over REST, over connections that are kept open.

    Long inputs are sent in several requests. Busy servers (429, 503) and broken
    connections are tried again as `retry` says. Use one client for each thread.

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
        self._session = requests.Session()
        if self._options.client_certificate is not None:
            certificate, key = self._options.client_certificate
            self._session.cert = (str(certificate), str(key))

    def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Returns a prediction for each instance, in order.

        Args:
            instances: texts, or for signatures with several inputs objects from input
                name to value.

        Returns:
            For each instance an object from output name to value, or the bare value
            where the signature has one output.

        Raises:
            ClientError: if the server refuses, or cannot be reached.
        """
        return self._in_batches("predict", "instances", instances, "predictions")

    def classify(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns for each example a list of ``[label, score]``.

        Args:
            examples: objects from feature name to value or list of values.

        Raises:
            ClientError: if the server refuses, or cannot be reached.
        """
        return self._in_batches("classify", "examples", examples, "results")

    def status(self) -> list[Json]:
        """Returns the state of the model's versions, the newest first."""
        statuses: list[Json] = self._run(self._messages.status)["model_version_status"]
        return statuses

    def metadata(self) -> Json:
        """Returns the signatures; it fails unless the model can answer requests."""
        return self._run(self._messages.metadata)

    def wait_until_ready(self, timeout_s: float) -> None:
        """Waits until the model can answer requests.

        Raises:
            ClientError: if it cannot after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._once(self._messages.metadata, self._options.timeout_s)
            except (ClientError, TemporaryError) as error:
                if time.monotonic() >= deadline:
                    raise ClientError(
                        f"{self._messages.metadata.url}: not ready after "
                        f"{timeout_s:g} s: {error}"
                    ) from error
                time.sleep(0.05)
            else:
                return

    def close(self) -> None:
        """Closes the connections."""
        self._session.close()

    def _in_batches(
        self, verb: str, key: str, items: Sequence[Any], answer_key: str
    ) -> list[Any]:
        results: list[Any] = []
        for batch in batches(items, self._options.max_batch):
            call = self._messages.call(verb, key, batch)
            results.extend(rows_of(call, self._run(call), answer_key, len(batch)))
        return results

    def _run(self, call: Call) -> Json:
        return self._options.retry.run(
            lambda left_s: self._once(call, left_s), str(call), self._options.timeout_s
        )

    def _once(self, call: Call, timeout_s: float) -> Json:
        # With each request: what the session holds yields to the environment.
        verify = None if self._options.ca is None else str(self._options.ca)
        try:
            response = self._session.request(
                call.method,
                call.url,
                json=call.body,
                timeout=timeout_s,
                verify=verify,
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            raise TemporaryError(f"{type(error).__name__}: {error}") from error
        except (requests.RequestException, OSError) as error:
            raise ClientError(f"{call}: {error}") from error
        return read(
            call,
            response.status_code,
            response.reason,
            response.headers,
            response.content,
        )
