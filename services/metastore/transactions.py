"""Writes transactions under one transactional id, with errors that say what is known.

Only in armed sessions. The producer fences the former producer with the id (`init`), and the next
producer fences it: no record that it had not committed ever becomes visible.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    NotAuthorized,
    OutcomeUnknown,
    TimedOut,
)
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.topic import PARTITION

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
TRANSACTION_MS = 900_000
"""The greatest timeout that brokers allow by default (transaction.max.timeout.ms)."""

FENCED = frozenset(
    {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"}
)
BUSY = frozenset(
    {
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "_ALL_BROKERS_DOWN",
        "_TIMED_OUT",
        "_TRANSPORT",
    }
)

GIVEN_UP = frozenset({"_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL", "_STATE"})
"""The client's error for records of a failed transaction; mostly the producer was fenced."""


class Fenced(ClusterError):
    """Another producer took the transactional id: uncommitted records are lost."""


class TransactionFailed(ClusterError):
    """The transaction can only be aborted; none of its records become visible."""


class Transactions:
    """A transactional producer."""

    def __init__(
        self,
        connection: Mapping[str, Any],
        transactional_id: str,
        *,
        timeout_ms: int = TRANSACTION_MS,
        seconds: float = patience.COMMAND,
    ) -> None:
        """*connection* contains confluent-kafka's settings; *seconds* is the time for each step."""
        from confluent_kafka import Producer

        self.id = transactional_id
        self._seconds = seconds
        self._offsets: dict[int, int] = {}
        self._error: KafkaError | None = None
        settings = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": min(timeout_ms, int(seconds * 1000)),
            "socket.timeout.ms": min(int(connection.get("socket.timeout.ms", 60_000)), timeout_ms),
            "acks": "all",
            "linger.ms": 0,
            "message.max.bytes": 1_000_000_000,
            "allow.auto.create.topics": False,
        }
        self._producer: Producer = Producer({**connection, **settings}, logger=LOG)

    def init(self) -> None:
        """Take the id from its former producer, whose open transaction is aborted.

        Raises:
            NotAuthorized: WRITE on the transactional id is missing.
            TimedOut: the coordinator was not ready in time; try again.
            Fenced, ClusterError.
        """
        self._run("taking the id", lambda: self._producer.init_transactions(self._seconds))

    def begin(self) -> None:
        """Begin a transaction. Raises: Fenced, ClusterError."""
        self._run("beginning", self._producer.begin_transaction)

    def send(self, topic: str, records: Sequence[CommandRecord]) -> list[int]:
        """Write *records* and wait for all of them; returns their offsets.

        Raises:
            Fenced, NotAuthorized, TimedOut, ClusterError: the transaction can only be aborted
                (`abort`).
        """
        self._offsets.clear()
        self._error = None
        self._run("writing", lambda: self._send(topic, records), self._behind)
        if self._error is not None:
            self._failed("writing", self._behind(self._error))
        return [self._offsets[number] for number in range(len(records))]

    def commit(self) -> None:
        """Commit. Committed records become readable a moment later, not immediately (M2).

        Raises:
            OutcomeUnknown: any error: even after fencing the outcome is unknown (M1). The log shows
                it, once a producer has taken the id and read to the log end.
        """
        from confluent_kafka import KafkaException

        try:
            self._producer.commit_transaction(self._seconds)
        except (KafkaException, SystemError) as error:
            told = _cause(error)
            raise OutcomeUnknown(
                f"whether the transaction of {self.id} was committed is unknown "
                f"({told.str() if told else error}): read the topic to its end to know"
            ) from None

    def commit_again(self) -> bool:
        """Ask the same producer for the outcome of its commit (M1); False: it does not know."""
        try:
            self.commit()
        except OutcomeUnknown:
            return False
        return True

    def abort(self) -> None:
        """Abort the transaction. Raises: Fenced, TimedOut, ClusterError."""
        self._run("aborting", lambda: self._producer.abort_transaction(self._seconds))

    def _send(self, topic: str, records: Sequence[CommandRecord]) -> None:
        for number, one in enumerate(records):
            timestamp: Any = {} if one.timestamp_ms is None else {"timestamp": one.timestamp_ms}

            def delivered(error: KafkaError | None, message: Message, number: int = number) -> None:
                if error is not None:
                    self._error = self._error or error
                else:
                    self._offsets[number] = message.offset() or 0

            headers: Any = list(one.headers)
            while True:
                try:
                    self._producer.produce(
                        topic,
                        key=one.key,
                        value=one.value,
                        partition=PARTITION,
                        headers=headers,
                        on_delivery=delivered,
                        **timestamp,
                    )
                except BufferError:
                    self._producer.poll(0.1)
                else:
                    break
        if self._producer.flush(self._seconds) and self._error is None:
            raise TimedOut(f"{topic} took too few records in {self._seconds:.0f} s: try again")

    def _run(
        self,
        doing: str,
        act: Callable[[], object],
        behind: Callable[[KafkaError], KafkaError] = lambda error: error,
    ) -> None:
        from confluent_kafka import KafkaException

        try:
            act()
        except (KafkaException, SystemError) as error:
            told = _cause(error) or self._error
            if told is None:
                raise ClusterError(f"{doing} for {self.id} failed ({error}): try again") from None
            self._failed(doing, behind(told))

    def _behind(self, error: KafkaError) -> KafkaError:
        """Why the transaction failed, if *error* only says that it failed.

        The client refuses to commit a transaction with failed records, and then names the cause.
        """
        from confluent_kafka import KafkaException

        if error.name() not in GIVEN_UP:
            return error
        try:
            self._producer.commit_transaction(self._seconds)
        except (KafkaException, SystemError) as refused:
            return _cause(refused) or error
        return error

    def _failed(self, doing: str, error: KafkaError) -> NoReturn:
        raise _translated(doing, self.id, error)


def _cause(error: BaseException) -> KafkaError | None:
    """The KafkaError in an exception; a Python callback wraps it in a SystemError (M10)."""
    from confluent_kafka import KafkaError

    for exception in (error, error.__cause__, error.__context__):
        if exception is not None and exception.args and isinstance(exception.args[0], KafkaError):
            return exception.args[0]
    return None


def _translated(doing: str, transactional_id: str, error: KafkaError) -> BreakglassError:
    name, text = error.name(), error.str()
    if name in FENCED:
        return Fenced(
            f"another writer took the transactional id {transactional_id} while {doing}: nothing "
            "of this transaction will be seen; a server of the service is running"
        )
    if name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
        needs = f"WRITE on transactional id {transactional_id}"
        return NotAuthorized(f"{doing} is not allowed: grant {needs}", needs)
    if name in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
        needs = "WRITE on the command topic"
        return NotAuthorized(f"{doing} is not allowed: grant {needs}", needs)
    if name in BUSY:
        return TimedOut(f"{doing} for {transactional_id} got no answer in time ({text}): try again")
    if name in GIVEN_UP:
        return TransactionFailed(
            f"{doing} for {transactional_id} was given up ({text}): another writer took the id, or "
            "brokers did not answer; nothing of this transaction will be seen"
        )
    if error.txn_requires_abort():
        return TransactionFailed(f"{doing} for {transactional_id} failed ({text}): try again")
    return ClusterError(f"{doing} for {transactional_id} failed ({text}): see the broker's log")
