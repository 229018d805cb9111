"""What a REST client sends and how it reads answers, whoever carries them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .options import ClientOptions, Json
from .retry import ClientError, TemporaryError

# Answers after which another try makes sense: too many requests, unavailable.
_TEMPORARY = (429, 503)


@dataclass(frozen=True)
class Call:
    """One request: verb, address and body."""

    method: str
    url: str
    body: Json | None = None

    def __str__(self) -> str:
        """Returns how errors name it."""
        return f"{self.method} {self.url}"


class RestMessages:
    """Writes the requests for one model and reads their answers.

    Args:
        url: ``http://host:port`` or ``https://...``.
        options: which model.

    Raises:
        ValueError: for a URL that is none.
    """

    def __init__(self, url: str, options: ClientOptions) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(
                "url must begin with http://, https://, grpc:// or grpcs://. "
                f"Received: url={url!r}"
            )
        self._signature = options.signature
        model = f"{url.rstrip('/')}/v1/models/{quote(options.model, safe='')}"
        version = model
        if options.version is not None:
            version += f"/versions/{options.version}"
        if options.label is not None:
            version += f"/labels/{quote(options.label, safe='')}"
        self.status = Call("GET", model)
        self.metadata = Call("GET", f"{version}/metadata")
        self._version_url = version

    def call(self, verb: str, key: str, batch: Sequence[Any]) -> Call:
        """Returns the request for some instances or examples."""
        body: Json = {key: list(batch)}
        if self._signature is not None:
            body["signature_name"] = self._signature
        return Call("POST", f"{self._version_url}:{verb}", body)


def rows_of(call: Call, answer: Json, key: str, count: int) -> list[Any]:
    """Returns the rows of an answer.

    Raises:
        ClientError: if they are not `count`.
    """
    rows = answer.get(key)
    if not isinstance(rows, list) or len(rows) != count:
        raise ClientError(
            f"{call}: expected {key!r} with {count} rows. Received: {str(rows)[:200]}"
        )
    return rows


def read(
    call: Call, status: int, reason: str, headers: Mapping[str, str], body: bytes
) -> Json:
    """Reads an answer.

    Raises:
        TemporaryError: if the server is busy.
        ClientError: if it refuses, or the answer is none.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if 200 <= status < 300 and isinstance(answer, dict):
        return answer
    message = body[:500].decode(errors="replace")
    if isinstance(answer, dict) and "error" in answer:
        message = str(answer["error"])
    text = f"{status} {reason}: {message}"
    if status in _TEMPORARY:
        raise TemporaryError(text, status, _retry_after(headers))
    raise ClientError(f"{call}: {text}", status)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:  # absent, or a date
        return None
