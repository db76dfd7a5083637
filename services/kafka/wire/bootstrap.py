"""Opens the first connection by racing the bootstrap servers, so that a hung one costs no time.

Closing a session also ends the waits of connections that are still being opened.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from breakglass.services import patience
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ConnectFailed,
    NoIdentityProvider,
    SessionClosing,
)
from breakglass.services.kafka.wire.connection import Begun, BrokerConnection
from breakglass.services.kafka.wire.deadline import Deadline

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
    return ConnectFailed(f"no bootstrap server answers: {said}{besides}")


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
