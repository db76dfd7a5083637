"""Sends all requests to brokers, through connections guarded by an allow-list of api keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from breakglass.services import patience
from breakglass.services.clock import NOTICE_SECONDS, WAITS
from breakglass.services.connection.endpoint import Endpoint, KnownAddresses
from breakglass.services.errors import (
    ConnectFailed,
    MalformedMessage,
    OutcomeUnknown,
    OutOfTime,
    ReadOnly,
    TimedOut,
    Unreachable,
)
from breakglass.services.kafka.wire.connection import (
    BrokerConnection,
    FinalizedFeatures,
    Opening,
    Security,
    first_to_answer,
    session_closing,
)
from breakglass.services.kafka.wire.deadline import NEVER, Deadline
from breakglass.services.snapshot import Broker

ANY_BROKER = -1
"""The broker that answered the bootstrap."""


class Sender:
    """Sends requests whose api key is in *allowed*; everything else is refused unsent.

    One connection for each (broker, lane); calls on it queue. A lane is a connection of
    its own for requests that may hang, so that they never delay the others. No request is
    sent twice: what to do about a failure is the caller's decision.
    """

    def __init__(
        self,
        bootstrap: tuple[Endpoint, ...],
        security: Security,
        allowed: frozenset[int],
        *,
        client_id: str = "breakglass",
        broker_addresses: Mapping[int, Endpoint] | None = None,
        connect_seconds: float = patience.CONNECT,
        known: KnownAddresses | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._known = known or KnownAddresses(bootstrap)
        self._security = security
        self._allowed = allowed
        self._client_id = client_id
        self._connect_seconds = connect_seconds
        self._overrides = dict(broker_addresses or {})
        self._addresses: dict[int, Endpoint] = dict(self._overrides)
        self._slots: dict[tuple[int, str], _Slot] = {}
        self._opening = Opening()
        self._lock = threading.Lock()
        self._closed = False
        self._last_answer = NEVER

    @property
    def closed(self) -> bool:
        """Nothing is sent any more, not even by a connection that was just being opened."""
        return self._closed

    @property
    def allowed(self) -> frozenset[int]:
        """The api keys that this sender may send."""
        return self._allowed

    def name(self, broker: int) -> str:
        """How messages name *broker*: one whose id is not known by where it was reached."""
        at = self._addresses.get(ANY_BROKER)
        if broker != ANY_BROKER:
            return f"b{broker}"
        return "the bootstrap broker" if at is None else f"the broker at {at}"

    @property
    def cluster_id(self) -> str:
        """The cluster that this session has read; empty before it has read any."""
        return self._known.learned

    def learn(self, brokers: Sequence[Broker], cluster_id: str = "") -> None:
        """Remember where *brokers* listen; addresses given by the operator win.

        Of the cluster of that id, all clients of the session use what is learned.
        """
        for broker in brokers:
            address = Endpoint(broker.host, broker.port)
            self._addresses[broker.id] = self._reached_at(broker.id, address)
        if cluster_id:
            self._known.learn(cluster_id, brokers)

    def misled(self, cluster_id: str) -> bool:
        """Whether the broker that answers, of *cluster_id*, is of another cluster than is meant.

        So it is where an address that was not given, but known, belongs to another cluster by now:
        it is forgotten, and the next call asks at another one.
        """
        with self._lock:
            at = self._addresses.get(ANY_BROKER)
            if at is None or at in self._bootstrap or not self._known.is_misled(cluster_id):
                return False
            self._known.forget(at)
            del self._addresses[ANY_BROKER]
            slots = [slot for (asked, _), slot in self._slots.items() if asked == ANY_BROKER]
        for slot in slots:
            slot.renew()
        return True

    def override(self, addresses: Mapping[int, Endpoint]) -> None:
        """Reach brokers at *addresses* from now on, unless the operator gave one for them."""
        for broker, address in addresses.items():
            if broker not in self._overrides:
                self._overrides[broker] = self._addresses[broker] = address

    def finish_by(self, deadline: Deadline) -> None:
        """Wait for no answer past *deadline*, whatever calls allow, and send nothing after it.

        The time of one command, however many questions it asks (S50).
        """
        self._last_answer = deadline

    def _bounded(self, broker: int, deadline: Deadline) -> Deadline:
        last = self._last_answer
        if last.passed:
            raise OutOfTime(
                f"{self.name(broker)} was not asked, because the time of this command was up: "
                "allow more with --within",
                "no time was left to ask it",
            )
        return deadline if deadline.remaining() <= last.remaining() else last

    def stand_in(self, broker: int) -> None:
        """Let *broker*, whose address is known, be `ANY_BROKER` from now on.

        Calls under way end first.
        """
        with self._lock:
            self._addresses[ANY_BROKER] = self._addresses[broker]
            slots = [slot for (asked, _), slot in self._slots.items() if asked == ANY_BROKER]
        for slot in slots:
            slot.renew()

    def offers(self, broker: int, api_key: int, deadline: Deadline) -> tuple[int, int] | None:
        """The versions of *api_key* that *broker* advertises, or None.

        Raises Unreachable: the broker does not answer.
        """
        deadline = self._bounded(broker, deadline)
        with self._slot(broker, "").using(self, deadline) as connection:
            return connection.api_versions.get(api_key)

    def prove(self, broker: int, deadline: Deadline) -> None:
        """Send a harmless request to *broker*, so that a dead connection is noticed now.

        Only then does a missing answer to the next request mean that its outcome is unknown.

        Raises Unreachable: the broker does not answer; nothing that changes the cluster was sent.
        """
        deadline = self._bounded(broker, deadline)
        with self._slot(broker, "").using(self, deadline) as connection:
            connection.prove(deadline)

    def finalized(self, broker: int, deadline: Deadline) -> FinalizedFeatures:
        """The features that are finalized by what *broker* knows now, as `prove` asks it.

        Raises Unreachable: the broker does not answer.
        """
        deadline = self._bounded(broker, deadline)
        with self._slot(broker, "").using(self, deadline) as connection:
            connection.prove(deadline)
            return connection.finalized

    def call(
        self,
        broker: int,
        request: Any,
        response_class: Any,
        deadline: Deadline,
        *,
        lane: str = "",
        max_version: int | None = None,
    ) -> Any:
        """Send *request* once to *broker* and return its answer.

        Raises:
            ReadOnly: the api key is not in the allow-list; nothing was sent.
            Unreachable: no connection, or no answer before *deadline*.
            UnsupportedByCluster: the broker lacks the api.
            MalformedMessage: the request was sent, and its answer cannot be read.
        """
        if request.API_KEY not in self._allowed:
            raise ReadOnly(
                f"{request.name} changes the cluster and this session is read-only: "
                "start again with --write"
            )
        deadline = self._bounded(broker, deadline)
        with self._slot(broker, lane).using(self, deadline) as connection:
            return connection.call(request, response_class, deadline, max_version=max_version)

    def change(
        self,
        broker: int,
        request: Any,
        response_class: Any,
        deadline: Deadline,
        doing: str,
        then: str,
        *,
        max_version: int | None = None,
    ) -> Any:
        """Send *request*, which changes the cluster, once, over a connection that just answered.

        *doing* says what the request does, *then* what the operator does if no answer comes.

        Raises:
            Unreachable: the broker does not answer; nothing was sent.
            OutcomeUnknown: no readable answer; the change may or may not have happened.
            ReadOnly, UnsupportedByCluster: as `call`.
        """
        self.prove(broker, deadline)
        try:
            return self.call(broker, request, response_class, deadline, max_version=max_version)
        except (Unreachable, MalformedMessage) as error:
            reason = error.reason if isinstance(error, Unreachable) else "it cannot be read"
            raise OutcomeUnknown(f"no answer while {doing} ({reason}): {then}") from error

    def close(self) -> None:
        """Close every connection, ending waits in other threads at once."""
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
        self._opening.end()
        for slot in slots:
            slot.close()

    def open_connection(self, broker: int, deadline: Deadline) -> BrokerConnection:
        """A new connection to *broker*, outside every lane.

        Raises ConnectFailed: also when no address of the broker is known.
        """
        if self._closed:
            raise session_closing()
        if broker == ANY_BROKER:
            # The connection of the last bootstrap while it works, else that of a new race.
            answered = self._addresses.get(ANY_BROKER)
            if answered is not None:
                try:
                    return self._connect(answered, deadline.sooner(patience.KNOWN_BROKER))
                except Unreachable:
                    self._addresses.pop(ANY_BROKER, None)
            winner, connection = first_to_answer(
                self._bootstrap, self._connect, deadline, self._others
            )
            self._addresses[ANY_BROKER] = winner
            return connection
        address = self._addresses.get(broker)
        if address is None:
            raise ConnectFailed(
                f"b{broker} has no known address: give one with --broker-address "
                f"{broker}=HOST:PORT",
                "no address known",
            )
        return self._connect(address, deadline)

    def _others(self) -> Iterator[Endpoint]:
        """Where else the cluster may answer: what this sender knows of brokers, and the session."""
        learned = [self._reached_at(id, address) for id, address in self._known.others().items()]
        own = [at for broker, at in self._addresses.copy().items() if broker != ANY_BROKER]
        return (at for at in (*learned, *own) if not self._known.misleads(at))

    def _reached_at(self, broker: int, advertised: Endpoint) -> Endpoint:
        """Where *broker* is reached: at an address of the operator's own, if there is one."""
        override = self._overrides.get(broker)
        return advertised if override is None else override.standing_for(advertised.host)

    def _connect(self, address: Endpoint, deadline: Deadline) -> BrokerConnection:
        limit = deadline.sooner(self._connect_seconds)
        with self._opening.watch() as begun:
            return BrokerConnection(address, self._security, self._client_id, limit, begun)

    def _slot(self, broker: int, lane: str) -> _Slot:
        with self._lock:
            return self._slots.setdefault((broker, lane), _Slot(broker))


class _Slot:
    """One lane to one broker: a lock, and a connection as long as it works."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self.name = "the bootstrap broker" if broker == ANY_BROKER else f"b{broker}"
        self._lock = threading.Lock()
        self._connection: BrokerConnection | None = None

    def using(self, sender: Sender, deadline: Deadline) -> _Use:
        return _Use(self, sender, deadline)

    def acquire(self, sender: Sender, deadline: Deadline) -> BrokerConnection:
        if not self._lock.acquire(timeout=deadline.remaining()):
            raise TimedOut(f"{self.name} is still busy with an earlier request: try again")
        try:
            # Whether not to reuse it: its session ends, or the broker closed it while it was idle.
            if not self._connection or self._connection.expired or self._connection.abandoned:
                self.close()
                self._connection = sender.open_connection(self._broker, deadline)
            if sender.closed:
                self.close()
                raise session_closing()
            return self._connection
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        if self._connection is not None and self._connection.closed:
            self._connection = None
        self._lock.release()

    def renew(self) -> None:
        """Close the connection once it is not in use; the next call opens another."""
        with self._lock:
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Use:
    """Holds a slot for one call."""

    def __init__(self, slot: _Slot, sender: Sender, deadline: Deadline) -> None:
        self._slot, self._sender, self._deadline = slot, sender, deadline

    def __enter__(self) -> BrokerConnection:
        WAITS.begin(self, lambda: f"{self._slot.name} has not answered for {NOTICE_SECONDS:g} s")
        try:
            return self._slot.acquire(self._sender, self._deadline)
        except BaseException:
            WAITS.end(self)
            raise

    def __exit__(self, *_: object) -> None:
        WAITS.end(self)
        self._slot.release()
