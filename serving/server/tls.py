"""Certificate and key of a server, checked before a model is loaded."""

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from common.command_line import UsageError


@dataclass(frozen=True)
class Tls:
    """The files of a server that speaks TLS, in PEM.

    Attributes:
        certificate: the server's certificate, and those between it and the root.
        key: its private key, without a password.
        client_ca: clients must show a certificate that this one has signed; None:
            anybody may ask.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def check(self) -> None:
        """Reads the files.

        Raises:
            UsageError: if one of them cannot be used; it names flag and file.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for flag, path in (
            ("--tls-certificate", self.certificate),
            ("--tls-key", self.key),
            ("--tls-client-ca", self.client_ca),
        ):
            if path is not None and not path.is_file():
                raise UsageError(f"{flag}: {path}: expected a file in PEM")
        try:
            # An empty password, so that none is asked for at a terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise UsageError(
                f"--tls-certificate {self.certificate}, --tls-key {self.key}: expected "
                f"a certificate and its key in PEM, without a password: {error}"
            ) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except (ssl.SSLError, OSError) as error:
                raise UsageError(
                    f"--tls-client-ca: {self.client_ca}: expected a certificate in "
                    f"PEM: {error}"
                ) from None


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches an address or a name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
