"""Blocking connections to brokers: frames, api versions, TLS and SASL, each wait bounded.

Messages are kafka-python's schema classes, and none of its clients is used. So a request is on the
wire only if a caller sent it here, and is never sent twice. The first connection is opened by
racing the bootstrap servers, so that a hung one costs no time; closing a session also ends the
waits of connections that are still being opened.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from breakglass.services import patience
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ConnectFailed,
    MalformedMessage,
    NoIdentityProvider,
    SessionClosing,
    TimedOut,
    Unreachable,
    UnsupportedByCluster,
)
from breakglass.services.kafka.wire.api_keys import FETCH
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.frames import SIZE, Frames, body_of, limit_wait
from breakglass.services.kafka.wire.memory import TooLarge, decoded

API_VERSIONS_VERSION = 3
REAUTHENTICATE_AT = 0.85
"""Share of a SASL session's lifetime (KIP-368) after which the connection is replaced."""
_ENCODING = threading.Lock()
"""kafka-python compiles a schema's encoder on first use; the lock makes threads do it once."""


class Security(Protocol):
    """How a plain socket becomes an authenticated one (services/connection/security.py)."""

    def wrap(self, sock: socket.socket, host: str) -> socket.socket:
        """The socket after its TLS handshake, or as it was where TLS is off."""
        ...

    def sasl(self, host: str, seconds: float) -> tuple[str, Any] | None:
        """Mechanism name and a new `SaslExchange` of *seconds*, or None without SASL."""
        ...


class FinalizedFeatures(NamedTuple):
    """What a node says of the cluster's features in its ApiVersions answer."""

    levels: dict[str, int]
    """By name, as `metadata.version`."""
    offset: int
    """The offset of the metadata record that a broker applied last; -1: the node does not say."""


Begun = Callable[[socket.socket], None]
"""Called with a connection's socket before anything waits on the socket."""


class BrokerConnection:
    """A connection to one broker. Calls are answered in order; not for use by two threads.

    Raises:
        ConnectFailed: refused, reset, no such host, TLS refused.
        AuthenticationFailed: the broker rejected the credentials.
        TimedOut: no connection before *deadline*.
    """

    def __init__(
        self,
        address: Endpoint,
        security: Security,
        client_id: str,
        deadline: Deadline,
        begun: Begun = lambda _: None,
    ) -> None:
        self._where = str(address)
        self._client_id = client_id
        self._correlation = itertools.count(1)
        self._expires_at: float | None = None
        self._quiet_until = 0.0
        self._frames = Frames()
        self._socket = self._connect(address, security, deadline, begun)
        try:
            self.api_versions = self._ask_api_versions(deadline)
            self._authenticate(security, address.certified_name, deadline)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """The connection broke or was closed: the next request needs a new connection."""
        return self._socket.fileno() < 0

    @property
    def abandoned(self) -> bool:
        """The broker closed the idle connection, or sent bytes that no request asked for."""
        try:
            return bool(select.select([self._socket], [], [], 0)[0])
        except (OSError, ValueError):
            return True

    @property
    def expired(self) -> bool:
        """The SASL session is about to end: open a new connection instead."""
        return self._expires_at is not None and time.monotonic() >= self._expires_at

    def call(
        self,
        request: Any,
        response_class: Any,
        deadline: Deadline,
        *,
        max_version: int | None = None,
    ) -> Any:
        """Send *request* and return the decoded answer.

        The version is the highest that both sides know, capped by *max_version*.

        Raises:
            UnsupportedByCluster: the broker lacks the api or every version of it we speak.
            TimedOut: no answer before *deadline*; the connection is closed, because a late answer
                would be taken for the answer to the next request. It stays open if nothing was
                sent, because the broker's throttle outlasts *deadline*.
            ConnectFailed: the connection broke.
            MalformedMessage: the answer does not fit that api and version.
        """
        version = self._choose_version(request, max_version)
        self._wait_out_throttle(deadline)
        answer = self._exchange(request, response_class, version, deadline)
        throttle_ms = getattr(answer, "throttle_time_ms", 0) or 0
        self._quiet_until = time.monotonic() + throttle_ms / 1000
        return answer

    def prove(self, deadline: Deadline) -> None:
        """Send a harmless request, to prove that the broker answers before the next request.

        Waits out a throttle first.

        Raises Unreachable: the broker does not answer before *deadline*.
        """
        self._wait_out_throttle(deadline)
        self.api_versions = self._ask_api_versions(deadline)

    def close(self) -> None:
        """Close the socket, ending a wait in another thread at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _wait_out_throttle(self, deadline: Deadline) -> None:
        """Send nothing for as long as the last answer asked (KIP-219)."""
        pause = self._quiet_until - time.monotonic()
        if pause <= 0:
            return
        if pause > deadline.remaining():
            raise TimedOut(
                f"{self._where} throttles this user for {pause:.1f} s more: raise its quota or "
                "allow more time"
            )
        # A connection that closes during the wait becomes readable: at its end of file.
        select.select([self._socket], [], [], pause)

    def _connect(
        self, address: Endpoint, security: Security, deadline: Deadline, begun: Begun
    ) -> socket.socket:
        try:
            sock = _connected(address, deadline, begun)
        except (UnicodeError, OverflowError) as error:
            raise ConnectFailed(
                f"{self._where} is no host name and port: correct the address", "no host name"
            ) from error
        except OSError as error:
            raise self._translate(error) from error
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return security.wrap(sock, address.certified_name)
        except (OSError, ssl.SSLError) as error:
            sock.close()
            raise self._translate(error) from error

    def _ask_api_versions(self, deadline: Deadline) -> dict[int, tuple[int, int]]:
        from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

        request = ApiVersionsRequest(client_software_name="breakglass", client_software_version="0")
        answer = self._exchange(request, ApiVersionsResponse, API_VERSIONS_VERSION, deadline)
        if answer.error_code:
            answer = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0, deadline)
        levels = {one.name: one.max_version_level for one in answer.finalized_features or ()}
        self.finalized = FinalizedFeatures(levels, answer.finalized_features_epoch)
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _authenticate(self, security: Security, host: str, deadline: Deadline) -> None:
        sasl = security.sasl(host, deadline.remaining())
        if sasl is None:
            return
        from kafka.protocol.sasl import (
            SaslAuthenticateRequest,
            SaslAuthenticateResponse,
            SaslHandshakeRequest,
            SaslHandshakeResponse,
        )

        name, mechanism = sasl
        shaken = self.call(
            SaslHandshakeRequest(mechanism=name), SaslHandshakeResponse, deadline, max_version=1
        )
        if shaken.error_code:
            offered = mechanism.inert(", ".join(shaken.mechanisms or ())) or "none"
            raise AuthenticationFailed(
                f"{self._where} does not accept SASL mechanism {name} (it offers {offered}): "
                "set sasl.mechanism to one it offers"
            )
        while not mechanism.is_done():
            answer = self.call(
                SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()),
                SaslAuthenticateResponse,
                deadline,
                max_version=2,
            )
            if answer.error_code:
                said = mechanism.inert(answer.error_message or "no reason given")
                raise self._rejected(said)
            mechanism.receive(answer.auth_bytes)
            if (answer.session_lifetime_ms or 0) > 0:
                lifetime = answer.session_lifetime_ms / 1000
                self._expires_at = time.monotonic() + lifetime * REAUTHENTICATE_AT
        if not mechanism.is_authenticated():
            raise self._rejected("the exchange ended without success")

    def _rejected(self, reason: str) -> AuthenticationFailed:
        return AuthenticationFailed(
            f"{self._where} rejected the credentials ({reason}): check sasl.jaas.config"
        )

    def _choose_version(self, request: Any, max_version: int | None) -> int:
        offered = self.api_versions.get(request.API_KEY)
        if offered is None:
            raise UnsupportedByCluster(
                f"the broker at {self._where} does not support "
                f"{request.name.removesuffix('Request')} requests: upgrade its Kafka, or leave out "
                "what needs them"
            )
        ours = request.max_version if max_version is None else max_version
        version = min(ours, offered[1])
        if version < offered[0]:
            raise UnsupportedByCluster(
                f"{self._where} offers {request.name} {offered[0]}-{offered[1]} and we speak "
                f"up to {ours}: use a newer Breakglass"
            )
        return int(version)

    def _exchange(self, request: Any, response_class: Any, version: int, deadline: Deadline) -> Any:
        correlation_id = next(self._correlation)
        request.API_VERSION = version
        request.with_header(correlation_id=correlation_id, client_id=self._client_id)
        try:
            limit_wait(self._socket, deadline)
            with _ENCODING:
                sent = request.encode(header=True, framed=True)
            self._socket.sendall(sent)
            frame = self._frames.read(self._socket, deadline, records=request.API_KEY == FETCH)
        except OSError as error:
            self.close()
            raise self._translate(error) from error
        except TooLarge as error:
            raise self._refused(error) from error
        # Close the connection, and raise ConnectFailed, if frame answers another request.
        if SIZE.unpack_from(frame)[0] != correlation_id:
            self.close()
            raise ConnectFailed(
                f"{self._where} answered out of order: check that it is a Kafka broker"
            )
        return self._decode(response_class, frame, version, deadline)

    def _decode(
        self, response_class: Any, frame: memoryview, version: int, deadline: Deadline
    ) -> Any:
        from breakglass.services.kafka.wire.messages.message import UNREADABLE, why_unreadable

        try:
            body = body_of(frame, response_class, version)
            return decoded(response_class, body, version, deadline)
        except TooLarge as error:
            raise self._refused(error) from error
        except (*UNREADABLE, AssertionError) as error:
            self.close()
            raise MalformedMessage(
                f"{self._where} answered {response_class.name} v{version} with other bytes "
                f"({why_unreadable(error)}): check that it is a Kafka broker"
            ) from error

    def _refused(self, error: TooLarge) -> MalformedMessage:
        """Close the connection; the error of an answer that is too large."""
        self.close()
        return MalformedMessage(
            f"{self._where} sends more than Breakglass takes ({error}): check that it is a Kafka "
            "broker; of a very large cluster, ask for fewer topics"
        )

    def _translate(self, error: OSError) -> ConnectFailed | TimedOut:
        """The one place where socket errors become ours."""
        if isinstance(error, TimeoutError):
            return TimedOut(
                f"{self._where} did not answer in time: it may be hung or cut off from here",
                "timed out",
            )
        reason = error.strerror or str(error) or type(error).__name__
        return ConnectFailed(
            f"{self._where} cannot be reached ({reason}): check that the broker runs and "
            "that this listener and security.protocol are right",
            reason[:1].lower() + reason[1:],
        )


def listens(address: Endpoint, deadline: Deadline) -> bool | None:
    """Whether anything accepts connections at *address*; nothing is sent.

    None: connecting timed out, as with a machine that is off or a process that hangs.
    """
    try:
        _connected(address, deadline, lambda _: None).close()
    except TimeoutError:
        return None
    except (OSError, UnicodeError, OverflowError):
        return False
    return True


def _connected(address: Endpoint, deadline: Deadline, begun: Begun) -> socket.socket:
    """A socket connected to the first IP of *address* that accepts; else the last OSError."""
    refusal = OSError(f"{address.host} has no address")
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, where in found:
        sock = socket.socket(family, kind, protocol)
        try:
            begun(sock)
            sock.settimeout(max(deadline.remaining(), 0.001))
            sock.connect(where)
        except OSError as error:
            sock.close()
            refusal = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    try:
        raise refusal
    finally:
        # The error's traceback refers to this frame: no frame may refer to the error.
        del refusal


Connect = Callable[[Endpoint, Deadline], BrokerConnection]
_Outcome = tuple[Endpoint, BrokerConnection | BreakglassError]


def first_to_answer(
    servers: Sequence[Endpoint],
    connect: Connect,
    deadline: Deadline,
    others: Callable[[], Iterable[Endpoint]] = tuple,
) -> tuple[Endpoint, BrokerConnection]:
    """Connect to *servers* in order, each a head start apart; the first that answers wins.

    *others* are tried after them, and asked for only where none of *servers* answers at once.

    Raises:
        AuthenticationFailed: a server rejected the credentials and no server accepted them.
        NoIdentityProvider: the provider of tokens does not answer, so no server was logged in to.
        ConnectFailed: no server answered; the message names each server's error.
    """
    outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
    failures: dict[Endpoint, BreakglassError] = {}
    race = _Race(connect, deadline, outcomes)
    waiting = list(dict.fromkeys(servers))
    given, entered, all_known = len(waiting), set(waiting), False
    while (waiting or len(failures) < len(entered) or not all_known) and not deadline.passed:
        if waiting:
            race.start(waiting.pop(0))
        elif not all_known:
            all_known = True
            waiting = [server for server in dict.fromkeys(others()) if server not in entered]
            entered.update(waiting)
            continue
        pause = deadline if all_known and not waiting else deadline.sooner(patience.HEAD_START)
        try:
            server, outcome = outcomes.get(timeout=max(pause.remaining(), 0.001))
        except queue.Empty:
            continue
        if isinstance(outcome, BrokerConnection):
            race.finish()
            return server, outcome
        failures[server] = outcome
    # An attempt ends at the deadline by itself, and says what it waited for: a broker, or a token.
    ending = Deadline.after(patience.ENDING)
    while len(failures) < len(entered) - len(waiting) and not ending.passed:
        with contextlib.suppress(queue.Empty):
            server, outcome = outcomes.get(timeout=ending.remaining())
            if isinstance(outcome, BrokerConnection):
                outcome.close()
            else:
                failures[server] = outcome
    race.finish()
    raise _nobody(servers, failures, len(entered) - given)


class _Race:
    """Connection attempts in daemon threads; the losers close what they opened."""

    def __init__(
        self, connect: Connect, deadline: Deadline, outcomes: queue.SimpleQueue[_Outcome]
    ) -> None:
        self._connect, self._deadline, self._outcomes = connect, deadline, outcomes
        self._arriving = threading.Lock()
        self._over = False

    def start(self, server: Endpoint) -> None:
        threading.Thread(target=self._run, args=(server,), daemon=True).start()

    def finish(self) -> None:
        """Close connections that open from now on, and those that opened after the winner's."""
        with self._arriving:
            self._over = True
        while not self._outcomes.empty():
            _, outcome = self._outcomes.get()
            if isinstance(outcome, BrokerConnection):
                outcome.close()

    def _run(self, server: Endpoint) -> None:
        try:
            connection = self._connect(server, self._deadline)
        except BreakglassError as error:
            self._outcomes.put((server, error))
            return
        with self._arriving:
            if not self._over:
                self._outcomes.put((server, connection))
                return
        connection.close()


def _nobody(
    servers: Sequence[Endpoint], failures: dict[Endpoint, BreakglassError], others: int
) -> ConnectFailed | AuthenticationFailed:
    for failure in failures.values():
        if isinstance(failure, AuthenticationFailed | NoIdentityProvider):
            return failure
    said = "; ".join(str(failures.get(server, f"{server} is silent")) for server in servers)
    besides = f"; nor does any of {others:,} other known addresses" if others else ""
    reasons = {one.reason for one in failures.values() if isinstance(one, Unreachable)}
    why = reasons.pop() if len(reasons) == 1 else "does not answer"
    return ConnectFailed(f"no bootstrap server answers: {said}{besides}", why)


def session_closing() -> SessionClosing:
    """The error raised instead of sending a request once a session is closing."""
    return SessionClosing("this session is closing: start the command again", "session closing")


class Opening:
    """The sockets of connections that are still being opened, which no caller has yet."""

    def __init__(self) -> None:
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._over = False

    @contextlib.contextmanager
    def watch(self) -> Iterator[Begun]:
        """A context whose callback a connection calls with its sockets; `end` ends their waits.

        Raises SessionClosing once `end` was called.
        """
        mine: list[socket.socket] = []

        def begun(sock: socket.socket) -> None:
            with self._lock:
                if self._over:
                    raise session_closing()
                # TLS takes over a socket's descriptor: a duplicate still reaches the connection.
                mine.append(sock.dup())
                self._sockets.add(mine[-1])

        try:
            yield begun
        finally:
            with self._lock:
                self._sockets.difference_update(mine)
            for one in mine:
                one.close()

    def end(self) -> None:
        """Abort all connections that are being opened, and refuse new ones."""
        with self._lock:
            self._over = True
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
