"""Requests that went by a proxy, kept for the tests that ask for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from breakglass.services.kafka.wire.passing import request_body

KEPT_BODY_BYTES = 1024 * 1024
"""Larger requests (produced records) are recorded without their body."""


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request that went by."""

    api_key: int
    api_version: int
    client_id: str | None
    at: float
    """time.monotonic() when it was read."""
    rest: bytes = field(repr=False, compare=False)
    """What follows the client id; empty for a request too large to keep."""

    def decode(self, request_class: Any) -> Any:
        """The request as a message of *request_class*.

        Raises:
            MalformedMessage: it is not one, or it was too large to keep.
        """
        return request_body(request_class, self.api_version, self.rest)
