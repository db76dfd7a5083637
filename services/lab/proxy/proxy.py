"""The proxy: a listening socket that can be shut and reopened, its connections and controls."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import LOOPBACK, Address
from breakglass.services.lab.ports import free_ports
from breakglass.services.lab.proxy.frames import SeenRequest
from breakglass.services.lab.proxy.relay import (
    Distortion,
    Duty,
    ProxyPolicy,
    Relay,
    Service,
    Spoiling,
    SpoilOrder,
)
from breakglass.services.lab.proxy.rewriting import Addresses, Offers, Rewriting

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
