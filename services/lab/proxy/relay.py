"""Relays one client's connection through a proxy: it forwards, hangs, delays or spoils requests.

It forwards one request at a time, as a broker serves them.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.wire.passing import (
    Head,
    answer_frame,
    expects_answer,
    parse_head,
    read_frame,
    request_body,
    send_frame,
)
from breakglass.services.lab.layout import Address
from breakglass.services.lab.proxy.frames import KEPT_BODY_BYTES, SeenRequest
from breakglass.services.lab.proxy.rewriting import Rewriting, classes_of, refusal


class Spoiling(Enum):
    """How a request is spoilt."""

    REFUSE = auto()
    """Answered with an error; the broker never sees it."""
    RESET_UNSENT = auto()
    """The connection is reset; the broker never sees it."""
    RESET_UNANSWERED = auto()
    """The broker serves it, then the connection is reset in place of the answer."""
    SWALLOW = auto()
    """The broker serves it, and the answer never comes."""


@dataclass(slots=True)
class SpoilOrder:
    """Spoil the next requests of one api."""

    api_key: int
    spoiling: Spoiling
    left: int
    error_code: int = 0
    whole: bool = False
    """Put the error at the top of the answer instead of in each of its items."""


Distortion = Callable[[Head, bytes], Iterable[bytes]]
"""Makes of a request's header and its answer the bytes to send, a frame's length included."""


class ProxyPolicy:
    """Orders and the gate; shared by every connection of a proxy."""

    def __init__(self) -> None:
        self._flowing = threading.Event()
        self._flowing.set()
        self._ended = threading.Event()
        self._orders: list[SpoilOrder] = []
        self._lock = threading.Lock()
        self.delay_seconds = 0.0
        """Added to every request before it is forwarded."""
        self.distort: Distortion | None = None
        """What is sent in place of each answer."""
        self._released = threading.Event()
        self._held_key: int | None = None

    @property
    def flowing(self) -> bool:
        """False while hung."""
        return self._flowing.is_set()

    def hang(self) -> None:
        """Hold everything that comes, in both directions."""
        self._flowing.clear()

    def hold(self, api_key: int) -> None:
        """Hold every request of *api_key* until `flow`."""
        self._released.clear()
        self._held_key = api_key

    def flow(self) -> None:
        """Forward the requests that are waiting."""
        self._held_key = None
        self._released.set()
        self._flowing.set()

    def end(self) -> None:
        """Let every waiting thread go, for good."""
        self._ended.set()
        self.flow()

    def wait_to_pass(self) -> None:
        """Wait while hung."""
        self._flowing.wait()

    def wait_delay(self, api_key: int) -> None:
        """Wait as long as a request of *api_key* is to be delayed or held."""
        if self.delay_seconds:
            self._ended.wait(self.delay_seconds)
        if api_key == self._held_key:
            self._released.wait()

    def add(self, order: SpoilOrder) -> None:
        """Carry out *order* after those given before for the same api."""
        with self._lock:
            self._orders.append(order)

    def take(self, api_key: int) -> SpoilOrder | None:
        """The order for a request that came just now, used up by one."""
        with self._lock:
            order = next((order for order in self._orders if order.api_key == api_key), None)
            if order is not None:
                order.left -= 1
                if order.left <= 0:
                    self._orders.remove(order)
            return order


CONNECT_SECONDS = 60.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends RST."""
CHUNK = 1 << 16

Service = Callable[[Head, bytes], bytes | None]
"""Answers a request (header, frame) in the broker's place, or None: forward it."""


@dataclass(slots=True)
class Duty:
    """What every connection of one proxy shares."""

    upstream: Address
    policy: ProxyPolicy
    rewriting: Rewriting
    services: Mapping[int, Service]
    """By api key."""
    opaque: bool
    record: Callable[[SeenRequest], None]
    failures: list[str] = field(default_factory=list)


class Relay:
    """A thread between *client* and the broker; it ends with either of them."""

    def __init__(self, client: socket.socket, duty: Duty, gone: Callable[[Relay], None]) -> None:
        self._client = client
        self._broker: socket.socket | None = None
        self._duty = duty
        self._gone = gone
        self._severed = False
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def start(self) -> None:
        """Begin to forward."""
        self._thread.start()

    def sever(self) -> None:
        """Break both connections; the thread ends, and does not forward a waiting request."""
        self._severed = True
        for sock in (self._client, self._broker):
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def join(self, seconds: float) -> None:
        """Wait for the thread's end."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            if self._duty.policy.flowing:
                self._reach_broker()
            if self._duty.opaque:
                # Copy bytes both ways without a look at them, until either side closes.
                broker = self._reach_broker()
                with selectors.DefaultSelector() as waiting:
                    waiting.register(self._client, selectors.EVENT_READ, (self._client, broker))
                    waiting.register(broker, selectors.EVENT_READ, (broker, self._client))
                    while all(self._copy(*key.data) for key, _ in waiting.select()):
                        pass
            else:
                while self._serve_next():
                    pass
        except (OSError, Unreachable):
            # Whichever side broke, the reset below informs the other side.
            self._client_reset()
        except (BreakglassError, struct.error) as error:
            self._duty.failures.append(str(error))
            self._client_reset()
        finally:
            self._client.close()
            if self._broker is not None:
                self._broker.close()
            self._gone(self)

    def _reach_broker(self) -> socket.socket:
        if self._broker is None:
            self._broker = socket.create_connection(self._duty.upstream, CONNECT_SECONDS)
            self._broker.settimeout(None)
            for sock in (self._client, self._broker):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._broker

    def _client_reset(self) -> None:
        with contextlib.suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    def _serve_next(self) -> bool:
        """Serve one request; False when a side has closed."""
        if self._client not in self._readable():
            return False
        frame = read_frame(self._client)
        if frame is None:
            return False
        head = parse_head(frame)
        self._duty.record(_seen(head, frame))
        self._duty.policy.wait_to_pass()
        self._duty.policy.wait_delay(head.api_key)
        answer = self._answer(head, frame, self._duty.policy.take(head.api_key))
        self._duty.policy.wait_to_pass()
        if answer is not None and (distort := self._duty.policy.distort):
            for chunk in distort(head, answer):
                self._client.sendall(chunk)
        elif answer is not None:
            send_frame(self._client, answer)
        return True

    def _readable(self) -> set[Any]:
        """The sides that have something to say or have closed; waits for one."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._client, selectors.EVENT_READ)
            if self._broker is not None:
                waiting.register(self._broker, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in waiting.select()}
        # Between two requests a broker says nothing: it has closed, and so do we.
        return ready if self._broker not in ready else set()

    def _answer(self, head: Head, frame: bytes, order: SpoilOrder | None) -> bytes | None:
        if order is None:
            return self._ordinary_answer(head, frame)
        if order.spoiling is Spoiling.REFUSE:
            return _refused(head, frame, order)
        if order.spoiling is Spoiling.RESET_UNSENT:
            raise ConnectionResetError
        self._ordinary_answer(head, frame)
        if order.spoiling is Spoiling.RESET_UNANSWERED:
            raise ConnectionResetError
        return None

    def _ordinary_answer(self, head: Head, frame: bytes) -> bytes | None:
        if self._severed:
            raise ConnectionResetError
        service = self._duty.services.get(head.api_key)
        answer = service(head, frame) if service else None
        return answer if answer is not None else self._forwarded(head, frame)

    def _forwarded(self, head: Head, frame: bytes) -> bytes | None:
        broker = self._reach_broker()
        send_frame(broker, frame)
        if not expects_answer(head, frame):
            return None
        answer = read_frame(broker)
        if answer is None:
            raise ConnectionResetError
        return self._duty.rewriting.apply(head, answer)

    def _copy(self, source: socket.socket, target: socket.socket) -> bool:
        """Hand on what *source* has to say; False when it has closed."""
        self._duty.policy.wait_to_pass()
        chunk = source.recv(CHUNK)
        target.sendall(chunk)
        return bool(chunk)


def _seen(head: Head, frame: bytes) -> SeenRequest:
    rest = frame[head.end :] if len(frame) <= KEPT_BODY_BYTES else b""
    return SeenRequest(head.api_key, head.api_version, head.client_id, time.monotonic(), rest)


def _refused(head: Head, frame: bytes, order: SpoilOrder) -> bytes:
    request_class, response_class = classes_of(head.api_key)
    request = request_body(request_class, head.api_version, frame[head.end :])
    return answer_frame(head, refusal(request, response_class, order.error_code, whole=order.whole))
