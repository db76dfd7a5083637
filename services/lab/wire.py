"""The lab's own way to put one request to one of its nodes, apart from the product's client.

What tests hold the product against must not be read through the product.
"""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Any

from breakglass.services.errors import ConnectFailed, TimedOut, UnsupportedByCluster
from breakglass.services.lab.layout import Address

CLIENT_ID = "breakglass-lab"
CORRELATION_ID = 1


class Conversation:
    """Requests and answers with the node that listens plaintext at *address*, one at a time.

    Raises:
        ConnectFailed: nothing listens, or the connection broke.
        TimedOut: *seconds* passed since the conversation began.
    """

    def __init__(self, address: Address, seconds: float) -> None:
        self._address = address
        self._give_up = time.monotonic() + seconds
        try:
            self._socket = socket.create_connection(address, timeout=seconds)
        except OSError as error:
            raise self._translated(error) from error
        try:
            self._versions = self._ask_versions()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def ask(self, request: Any, response_class: Any) -> Any:
        """The decoded answer, in the highest version that both sides know.

        Raises:
            UnsupportedByCluster: the node does not serve this api.
        """
        offered = self._versions.get(request.API_KEY)
        if offered is None:
            raise UnsupportedByCluster(
                f"{self._address} does not serve {request.name}: use a newer Kafka."
            )
        return self._exchange(request, response_class, min(request.max_version, offered))

    def _ask_versions(self) -> dict[int, int]:
        from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

        answer = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0)
        return {api.api_key: int(api.max_version) for api in answer.api_keys}

    def _exchange(self, request: Any, response_class: Any, version: int) -> Any:
        request.API_VERSION = version
        request.with_header(correlation_id=CORRELATION_ID, client_id=CLIENT_ID)
        try:
            self._limit()
            self._socket.sendall(request.encode(header=True, framed=True))
            (size,) = struct.unpack(">i", self._read(4))
            frame = self._read(size)
        except OSError as error:
            raise self._translated(error) from error
        return response_class.decode(frame, version=version, header=True)

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._limit()
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError("the node closed the connection")
            parts += part
        return bytes(parts)

    def _limit(self) -> None:
        remaining = self._give_up - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining)

    def _translated(self, error: OSError) -> ConnectFailed | TimedOut:
        if isinstance(error, TimeoutError):
            return TimedOut(f"{self._address} did not answer in time: is that node paused?")
        return ConnectFailed(f"{self._address} cannot be spoken to ({error}): start that node.")
