"""A TCP proxy before one broker or controller: cuts, hangs, delays, spoils and lies on demand.

It relays one client's connection, one request at a time, as a broker serves them.

Run as a program, it is the process of one link: ``python -m breakglass.services.lab.proxy FROM TO
KEY,KEY RECORD``. The process forwards until it is killed, but it forwards requests of the api KEYs
only after SIGUSR1. RECORD, the file that names its pid, identifies the process by its command line.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from breakglass.services.errors import BreakglassError, LabError, Unreachable
from breakglass.services.kafka.wire.passing import (
    Head,
    answer_frame,
    expects_answer,
    parse_head,
    read_frame,
    request_body,
    send_frame,
)
from breakglass.services.lab.layout import LOOPBACK, Address, free_ports
from breakglass.services.lab.rewriting import Addresses, Offers, Rewriting, classes_of, refusal

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
        self._held_key = None
        self._released.set()
        self._flowing.set()

    def end(self) -> None:
        """Let every waiting thread go, for good."""
        self._ended.set()
        self.flow()

    def wait_to_pass(self) -> None:
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
        self._thread.start()

    def sever(self) -> None:
        """Break both connections; the thread ends, and does not forward a waiting request."""
        self._severed = True
        for sock in (self._client, self._broker):
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def join(self, seconds: float) -> None:
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
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._client, selectors.EVENT_READ)
            if self._broker is not None:
                waiting.register(self._broker, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in waiting.select()}
        # Between two requests a broker says nothing: it has closed, and so do we.
        if self._broker in ready or self._client not in ready:
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

    def _answer(self, head: Head, frame: bytes, order: SpoilOrder | None) -> bytes | None:
        if order is None:
            return self._ordinary_answer(head, frame)
        if order.spoiling is Spoiling.REFUSE:
            request_class, response_class = classes_of(head.api_key)
            request = request_body(request_class, head.api_version, frame[head.end :])
            error = refusal(request, response_class, order.error_code, whole=order.whole)
            return answer_frame(head, error)
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


BIND_ATTEMPTS = 20
BACKLOG = 128


class Door:
    """Hands each accepted connection to *welcome*, in the accepting thread.

    When shut, the port stays bound without listening: no other process can take the port, and the
    system refuses connections.

    Raises:
        LabError: the port is taken.
    """

    def __init__(
        self, address: tuple[str, int] | None, welcome: Callable[[socket.socket], None]
    ) -> None:
        self._welcome = welcome
        self._socket = _bind(address) if address else _bind_anywhere()
        self.address = Address(*self._socket.getsockname()[:2])
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None

    def open(self) -> None:
        """Listen; without effect on an open door."""
        if self._thread is not None:
            return
        self._socket.listen(BACKLOG)
        self._wake, woken = socket.socketpair()
        self._thread = threading.Thread(
            target=self._accept, args=(self._socket, woken), name=f"door {self.address.port}"
        )
        self._thread.daemon = True
        self._thread.start()

    def shut(self) -> None:
        """Refuse connections from here on, those that nobody accepted yet included."""
        self.close()
        self._socket = _bind(self.address)

    def close(self) -> None:
        """Give the port up."""
        if self._thread is not None and self._wake is not None:
            self._wake.close()
            self._thread.join()
            self._thread = None
        self._socket.close()

    def _accept(self, listener: socket.socket, woken: socket.socket) -> None:
        with woken, selectors.DefaultSelector() as waiting:
            waiting.register(listener, selectors.EVENT_READ)
            waiting.register(woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in waiting.select()}
                if woken in ready:
                    return
                self._welcome(listener.accept()[0])


def _bind(address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise LabError(f"{address[0]}:{address[1]} cannot be bound ({error}): free it.") from error
    return bound


def _bind_anywhere() -> socket.socket:
    """A free port of those that stay free; another process may be choosing at the same time."""
    for _ in range(BIND_ATTEMPTS):
        try:
            return _bind((LOOPBACK, free_ports(1)[0]))
        except LabError:
            continue
    raise LabError("No port could be bound for a proxy: free some.")


JOIN_SECONDS = 120.0
SEEN_SECONDS = 300.0


class Impostor(Protocol):
    """Answers requests of some api keys in the place of the broker."""

    @property
    def offers(self) -> Offers:
        """What ApiVersions says of them."""

    def services(self, upstream: Address, fail: Callable[[str], None]) -> Mapping[int, Service]:
        """The service that answers each api key; *fail* reports what could not be answered."""


class Proxy:
    """A TCP proxy on loopback before one broker or controller; open once constructed.

    Args:
        upstream: Where the broker listens.
        listen: Where to listen; a free port on loopback when None.
        native: What is offered and served in the broker's place.
        addresses: By broker id, the host and port to put into Metadata, DescribeCluster and
            FindCoordinator answers, where brokers do not advertise their proxies
            themselves. Fetch and Produce are then offered only in versions whose answers
            name no addresses. The mapping may be filled later.
        offers: By api key, the versions to advertise in place of the broker's own; None
            hides the api.
        opaque: Copy bytes without a look at them, for TLS; only `cut`, `hang`, `sever` and
            `heal` work then.

    Raises:
        LabError: *listen* is taken.
    """

    def __init__(
        self,
        upstream: tuple[str, int],
        listen: tuple[str, int] | None = None,
        *,
        native: Impostor | None = None,
        addresses: Addresses | None = None,
        offers: Offers | None = None,
        opaque: bool = False,
    ) -> None:
        self._seen: list[SeenRequest] = []
        self._seen_one = threading.Condition()
        self._relays: set[Relay] = set()
        self._lock = threading.Lock()
        self.native = native
        offered = {**(native.offers if native else {}), **(offers or {})}
        target = Address(*upstream)
        self._policy = ProxyPolicy()
        self._duty = Duty(
            upstream=target,
            policy=self._policy,
            rewriting=Rewriting(addresses, offered),
            services=native.services(target, self._fail) if native else {},
            opaque=opaque,
            record=self._record,
        )
        self._door = Door(listen, self._welcome)
        self.address = self._door.address
        self._door.open()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def seen(self) -> list[SeenRequest]:
        """Every request so far, oldest first, including requests delayed, refused or dropped."""
        with self._seen_one:
            return list(self._seen)

    def wait_seen(
        self, api_key: int, count: int = 1, seconds: float = SEEN_SECONDS
    ) -> list[SeenRequest]:
        """Wait until *count* requests of *api_key* came, and return all of them.

        Raises:
            LabError: fewer came within *seconds*.
        """
        give_up = time.monotonic() + seconds
        with self._seen_one:
            while (
                len(found := [request for request in self._seen if request.api_key == api_key])
                < count
            ):
                if not self._seen_one.wait(max(0.0, give_up - time.monotonic())):
                    raise LabError(
                        f"{len(found)} requests of api {api_key} came within {seconds:g} s, "
                        f"not {count}: is the client connected to {self.address}?"
                    )
            return found

    def cut(self) -> None:
        """Break every connection and refuse new ones, until `heal`."""
        self._door.shut()
        self.sever()

    def sever(self) -> None:
        """Break every connection; new ones are welcome."""
        self._sever()

    def hang(self) -> None:
        """Accept and read, but forward and answer nothing, until `heal`."""
        self._policy.hang()

    def delay(self, seconds: float) -> None:
        """Hold each request for *seconds* before it is forwarded; 0 ends that."""
        self._policy.delay_seconds = seconds

    def hold(self, api_key: int) -> None:
        """Hold every request of *api_key* before it is forwarded, until `heal`."""
        self._policy.hold(api_key)

    def distort(self, distortion: Distortion | None) -> None:
        """Send to clients what *distortion* makes of each answer, until another call."""
        self._policy.distort = distortion

    def heal(self) -> None:
        """Undo `cut`, `hang`, `hold` and `delay`, and forward the requests that were waiting."""
        self._policy.delay_seconds = 0.0
        self._policy.flow()
        self._door.open()

    def fail_next(
        self, api_key: int, error_code: int, count: int = 1, *, whole: bool = False
    ) -> None:
        """Answer the next *count* requests of *api_key* with *error_code*, in each item.

        With *whole* the error is at the top of the answer. The broker sees none of them.
        """
        self._policy.add(SpoilOrder(api_key, Spoiling.REFUSE, count, error_code, whole))

    def reset_next(self, api_key: int, count: int = 1, *, served: bool = False) -> None:
        """Reset the connection on the next *count* requests of *api_key*.

        With *served* the broker carries the request out, and only its answer is lost.
        """
        spoiling = Spoiling.RESET_UNANSWERED if served else Spoiling.RESET_UNSENT
        self._policy.add(SpoilOrder(api_key, spoiling, count))

    def swallow_next(self, api_key: int, count: int = 1) -> None:
        """Let the broker carry out the next *count* requests of *api_key*, and answer nothing."""
        self._policy.add(SpoilOrder(api_key, Spoiling.SWALLOW, count))

    @property
    def failures(self) -> list[str]:
        """What could not be understood or translated so far."""
        return list(self._duty.failures)

    def assert_clean(self) -> None:
        """Raise AssertionError if any request or answer could not be understood."""
        if failures := self.failures:
            raise AssertionError("\n".join([f"proxy {self.address}:", *failures]))

    def close(self) -> None:
        """Break every connection, give the port up, and wait for the threads."""
        self._door.close()
        relays = self._sever()
        self._policy.end()
        for relay in relays:
            relay.join(JOIN_SECONDS)

    def _sever(self) -> list[Relay]:
        with self._lock:
            relays = list(self._relays)
        for relay in relays:
            relay.sever()
        return relays

    def _welcome(self, client: socket.socket) -> None:
        relay = Relay(client, self._duty, self._farewell)
        with self._lock:
            self._relays.add(relay)
        relay.start()

    def _farewell(self, relay: Relay) -> None:
        with self._lock:
            self._relays.discard(relay)

    def _record(self, seen: SeenRequest) -> None:
        with self._seen_one:
            self._seen.append(seen)
            self._seen_one.notify_all()

    def _fail(self, reason: str) -> None:
        self._duty.failures.append(reason)


FETCH = 1
FOREVER = 1 << 31
ADDRESS_FREE = (4, 15)
"""From version 16 on a controller's answers say where it listens itself (KIP-853), and the
broker would fetch its metadata there, past the proxy."""


def main(arguments: list[str]) -> None:
    """Listen at the second address for what the first one serves."""
    upstream, listen = (_address(text) for text in arguments[:2])
    withheld = [int(key) for key in arguments[2].split(",") if key]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    if withheld:
        with Proxy(upstream, listen, offers={FETCH: ADDRESS_FREE}) as proxy:
            for key in withheld:
                proxy.reset_next(key, FOREVER)
            signal.sigwait({signal.SIGUSR1})
    with Proxy(upstream, listen, offers={FETCH: ADDRESS_FREE}):
        while True:
            signal.pause()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


if __name__ == "__main__":
    main(sys.argv[1:])
