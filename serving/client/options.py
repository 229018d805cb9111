"""What REST and gRPC clients are told alike, and how they are closed."""

import abc
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .retry import Retry


@dataclass(frozen=True)
class ClientOptions:
    """Which model a client asks, and how.

    Attributes:
        model: the model's name.
        version: its version; by default the newest.
        label: a version's label, instead of its number.
        signature: the signature to ask; by default ``serving_default``.
        max_batch: instances in one request at most; keep it at or under the
            server's ``max_batch_size``.
        retry: how often and when to try again.
        timeout_s: how long a request may take with all its tries, in seconds.
        ca: file of the certificate (PEM) that the server's is checked against; by
            default those that the system trusts.
        client_certificate: files of certificate and key (PEM) that the server asks
            for, if it does.
    """

    model: str
    version: int | None = None
    label: str | None = None
    signature: str | None = None
    max_batch: int = 32
    retry: Retry = Retry()  # noqa: RUF009  it is immutable
    timeout_s: float = 30.0
    ca: str | Path | None = None
    client_certificate: tuple[str | Path, str | Path] | None = None

    def __post_init__(self) -> None:
        """Refuses what excludes each other.

        Raises:
            ValueError: saying what was received.
        """
        if self.version is not None and self.label is not None:
            raise ValueError(
                "version and label exclude each other. "
                f"Received: version={self.version}, label={self.label!r}"
            )
        if not self.timeout_s > 0:
            raise ValueError(
                f"timeout_s must be above 0. Received: timeout_s={self.timeout_s}"
            )


class Closing(abc.ABC):
    """A client that a ``with`` block closes."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the connections."""

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


class AsyncClosing(abc.ABC):
    """A client that an ``async with`` block closes."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Closes the connections."""

    async def __aenter__(self) -> Self:
        """Returns the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connections."""
        await self.close()


Json = dict[str, Any]
