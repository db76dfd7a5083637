"""The security of PLAINTEXT listeners: none, and nothing to be imported for it."""

from __future__ import annotations

import socket
from typing import Any


class Plaintext:
    """Leaves a socket as it is, like `ClientSecurity` with neither TLS nor SASL."""

    def wrap(self, sock: socket.socket, host: str) -> socket.socket:  # noqa: ARG002
        """The socket itself."""
        return sock

    def sasl(self, host: str, seconds: float) -> tuple[str, Any] | None:  # noqa: ARG002
        """No login."""
        return None
