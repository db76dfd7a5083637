"""The first connection: bootstrap servers are raced, so that a hung one costs no time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.errors import AuthenticationFailed, BreakglassError, ConnectFailed
from breakglass.services.kafka.wire.connection import BrokerConnection
from breakglass.services.kafka.wire.deadline import Deadline

HEAD_START_SECONDS = 0.25
"""How long one server may stay silent before the next is tried beside it."""

Connect = Callable[[Endpoint, Deadline], BrokerConnection]
_Outcome = tuple[Endpoint, BrokerConnection | BreakglassError]


def first_to_answer(
    servers: Sequence[Endpoint], connect: Connect, deadline: Deadline
) -> tuple[Endpoint, BrokerConnection]:
    """Connect to *servers* in order, each a head start apart; the first that answers wins.

    Raises:
        AuthenticationFailed: a server rejected the credentials and none took them.
        ConnectFailed: none answered; names what each one said.
    """
    outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
    failures: dict[Endpoint, BreakglassError] = {}
    race = _Race(connect, deadline, outcomes)
    waiting = list(dict.fromkeys(servers))
    entrants = len(waiting)
    while len(failures) < entrants and not deadline.passed:
        if waiting:
            race.start(waiting.pop(0))
        pause = deadline.sooner(HEAD_START_SECONDS) if waiting else deadline
        try:
            server, outcome = outcomes.get(timeout=max(pause.remaining(), 0.001))
        except queue.Empty:
            continue
        if isinstance(outcome, BrokerConnection):
            race.finish()
            return server, outcome
        failures[server] = outcome
    race.finish()
    raise _nobody(servers, failures)


class _Race:
    """Connection attempts in daemon threads; the losers close what they opened."""

    def __init__(
        self, connect: Connect, deadline: Deadline, outcomes: queue.SimpleQueue[_Outcome]
    ) -> None:
        self._connect, self._deadline, self._outcomes = connect, deadline, outcomes
        self._over = threading.Event()

    def start(self, server: Endpoint) -> None:
        threading.Thread(target=self._run, args=(server,), daemon=True).start()

    def finish(self) -> None:
        self._over.set()

    def _run(self, server: Endpoint) -> None:
        try:
            connection = self._connect(server, self._deadline)
        except BreakglassError as error:
            self._outcomes.put((server, error))
            return
        if self._over.is_set():
            connection.close()
        else:
            self._outcomes.put((server, connection))


def _nobody(
    servers: Sequence[Endpoint], failures: dict[Endpoint, BreakglassError]
) -> ConnectFailed | AuthenticationFailed:
    for failure in failures.values():
        if isinstance(failure, AuthenticationFailed):
            return failure
    said = "; ".join(str(failures.get(server, f"{server} is silent")) for server in servers)
    return ConnectFailed(f"no bootstrap server answers: {said}")
