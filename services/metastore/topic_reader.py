"""Reads a command topic from its beginning: committed commands, in their order, batch by batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from breakglass.services.errors import (
    AuthenticationFailed,
    ClusterError,
    NotAuthorized,
    NotNow,
    Unreachable,
)
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.topic_state import PARTITION

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
BATCH = 10_000
"""Commands that are taken at once: one sync of the backup for all of them."""
RESOLVE_SECONDS = 15.0

TRANSIENT = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})
"""What librdkafka goes on trying by itself."""
REFUSED = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"})
PASSING = frozenset(
    {
        "_UNKNOWN_PARTITION",
        "_LEADER_NOT_AVAILABLE",
        "_WAIT_COORD",
        "_MAX_POLL_EXCEEDED",
        "_LOG_TRUNCATION",
        "UNKNOWN_TOPIC_OR_PART",
        "NOT_LEADER_FOR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "BROKER_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "OFFSET_NOT_AVAILABLE",
    }
)
"""What is over once another leader is known, or the topic is there."""


class LogCut(ClusterError):
    """The next offset is not in the log any more: it was deleted, or the topic is another."""

    passes = True


@dataclass(frozen=True, slots=True)
class PolledCommands:
    """What one `poll` got."""

    records: Sequence[CommandRecord]
    at_end: bool
    """Everything that was committed when it was asked for has been read."""
    next_offset: int
    """Where reading goes on, behind transaction markers and aborted commands too."""
    leader_epoch: int = -1
    """The newest in which any of the records was written; -1 where the log has none."""


class TopicReader:
    """A consumer in no group, which commits nothing."""

    def __init__(self, connection: Mapping[str, Any], topic: str, start: int | None = None) -> None:
        """*connection* is confluent-kafka's; *start* the first offset, or where the log begins."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self._topic = topic
        settings = {
            "group.id": "breakglass-metastore",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "allow.auto.create.topics": False,
        }
        self._consumer: Consumer = Consumer({**connection, **settings}, logger=LOG)
        at = OFFSET_BEGINNING if start is None else start
        self._consumer.assign([TopicPartition(topic, PARTITION, at)])
        self._next = start or 0
        self._failing_since: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def poll(self, seconds: float, most: int = BATCH) -> PolledCommands:
        """What came within *seconds*, at most *most* commands.

        Raises:
            LogCut: the log does not have the next offset any more.
            NotAuthorized: READ on the topic is missing.
            Unreachable: the brokers do not answer.
            ClusterError: any other error.
        """
        records, at_end, epoch = [], False, -1
        for message in self._consumer.consume(most, seconds):
            error = message.error()
            if error is None:
                records.append(_record(message))
                epoch = max(epoch, _leader_epoch(message))
                at_end = False
            elif error.name() == "_PARTITION_EOF":
                at_end = True
                self._next = max(self._next, message.offset() or 0)
            else:
                self._failed(error)
        if records:
            self._next = max(self._next, records[-1].offset + 1)
        if records or at_end:
            self._failing_since = None
        return PolledCommands(tuple(records), at_end, self._next, epoch)

    def position(self) -> int:
        """Where reading goes on: behind markers and aborted commands, as soon as it passed them.

        librdkafka knows none before it polled (M9).
        """
        from confluent_kafka import TopicPartition

        (told,) = self._consumer.position([TopicPartition(self._topic, PARTITION)])
        return max(self._next, told.offset)

    def _failed(self, error: KafkaError) -> None:
        name = error.name()
        if name == "GROUP_AUTHORIZATION_FAILED":
            # The client looks for the coordinator of its group, which it never joins.
            return
        if name == "_AUTO_OFFSET_RESET":
            raise LogCut(
                f"topic {self._topic} does not have offset {self._next:,} any more: it was cut or "
                "created again, so it has to be read from its beginning"
            )
        if name == "TOPIC_AUTHORIZATION_FAILED":
            needs = f"READ on topic {self._topic}"
            raise NotAuthorized(f"reading the command topic is not allowed: grant {needs}", needs)
        if name in REFUSED:
            raise AuthenticationFailed(
                f"topic {self._topic} cannot be read ({error.str()}): check the credentials"
            )
        if name in TRANSIENT:
            self._fail_in_time(error)
            return
        kind = NotNow if error.retriable() or name in PASSING else ClusterError
        raise kind(f"topic {self._topic} cannot be read ({error.str()}): try again")

    def _fail_in_time(self, error: KafkaError) -> None:
        """Wait for what librdkafka tries again by itself, though not for ever."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > RESOLVE_SECONDS:
            raise Unreachable(f"topic {self._topic} cannot be read ({error.str()}): try again")


def _leader_epoch(message: Message) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch


def _record(message: Message) -> CommandRecord:
    kind, timestamp = message.timestamp()
    headers: Any = message.headers()
    key: Any = message.key()
    return CommandRecord(
        message.offset() or 0,
        key,
        message.value(),
        timestamp if kind else None,
        tuple(headers) if headers else (),
    )
