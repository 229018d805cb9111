"""A REST client for the TensorFlow Serving API, embedded or stock."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import requests

from serving.retry import ClientError, Retry, TemporaryError, batches

# Answers after which another try makes sense: too many requests, unavailable.
_TEMPORARY = (429, 503)


class RestClient:
    """Asks a model over REST, over connections that are kept open.

    Long inputs are sent in several requests. Busy servers (429, 503) and broken
    connections are tried again as `retry` says. Use one client for each thread.

    Args:
        url: ``http://host:port`` or ``https://...``.
        model: the model's name.
        version: its version; by default the newest.
        label: a version's label, instead of its number.
        signature: the signature to ask; by default ``serving_default``.
        max_batch: instances in one request at most; keep it at or under the
            server's ``max_batch_size``.
        retry: how often and when to try again.
        timeout_s: how long a request may take with all its tries, in seconds.

    Raises:
        ValueError: for a URL that is none, or both a version and a label.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str | None = None,
        max_batch: int = 32,
        retry: Retry = Retry(),  # noqa: B008  it is immutable
        timeout_s: float = 30.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(
                "url must begin with http://, https:// or grpc://. "
                f"Received: url={url!r}"
            )
        if version is not None and label is not None:
            raise ValueError(
                f"version and label exclude each other. Received: {version=}, {label=}"
            )
        self._model_url = f"{url.rstrip('/')}/v1/models/{quote(model, safe='')}"
        self._version_url = self._model_url
        if version is not None:
            self._version_url += f"/versions/{version}"
        if label is not None:
            self._version_url += f"/labels/{quote(label, safe='')}"
        self._signature = signature
        self._max_batch = max_batch
        self._retry = retry
        self._timeout_s = timeout_s
        self._session = requests.Session()

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

    def status(self) -> list[dict[str, Any]]:
        """Returns the state of the model's versions, the newest first."""
        answer = self._request("GET", self._model_url, None)
        statuses: list[dict[str, Any]] = answer["model_version_status"]
        return statuses

    def metadata(self) -> dict[str, Any]:
        """Returns the signatures; it fails unless the model can answer requests."""
        return self._request("GET", f"{self._version_url}/metadata", None)

    def wait_until_ready(self, timeout_s: float) -> None:
        """Waits until the model can answer requests.

        Raises:
            ClientError: if it cannot after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._once(
                    "GET", f"{self._version_url}/metadata", None, self._timeout_s
                )
            except (ClientError, TemporaryError) as error:
                if time.monotonic() >= deadline:
                    raise ClientError(
                        f"{self._version_url}: not ready after {timeout_s:g} s: {error}"
                    ) from error
                time.sleep(0.05)
            else:
                return

    def close(self) -> None:
        """Closes the connections."""
        self._session.close()

    def __enter__(self) -> Self:
        """Returns the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connections."""
        self.close()

    def _in_batches(
        self, verb: str, key: str, items: Sequence[Any], answer_key: str
    ) -> list[Any]:
        url = f"{self._version_url}:{verb}"
        results: list[Any] = []
        for batch in batches(items, self._max_batch):
            body: dict[str, Any] = {key: list(batch)}
            if self._signature is not None:
                body["signature_name"] = self._signature
            rows = self._request("POST", url, body).get(answer_key)
            if not isinstance(rows, list) or len(rows) != len(batch):
                raise ClientError(
                    f"POST {url}: expected {answer_key!r} with {len(batch)} rows. "
                    f"Received: {str(rows)[:200]}"
                )
            results.extend(rows)
        return results

    def _request(self, method: str, url: str, body: Any) -> dict[str, Any]:
        return self._retry.run(
            lambda left_s: self._once(method, url, body, left_s),
            f"{method} {url}",
            self._timeout_s,
        )

    def _once(
        self, method: str, url: str, body: Any, timeout_s: float
    ) -> dict[str, Any]:
        try:
            response = self._session.request(method, url, json=body, timeout=timeout_s)
        except (requests.ConnectionError, requests.Timeout) as error:
            raise TemporaryError(f"{type(error).__name__}: {error}") from error
        except requests.RequestException as error:
            raise ClientError(f"{method} {url}: {error}") from error
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.ok and isinstance(answer, dict):
            return answer
        message = response.text[:500]
        if isinstance(answer, dict) and "error" in answer:
            message = str(answer["error"])
        reason = f"{response.status_code} {response.reason}: {message}"
        if response.status_code in _TEMPORARY:
            raise TemporaryError(
                reason, response.status_code, _retry_after(response.headers)
            )
        raise ClientError(f"{method} {url}: {reason}", response.status_code)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:  # absent, or a date
        return None
