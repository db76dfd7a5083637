"""Reads a command topic from its beginning: committed commands, in their order, batch by batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from services.errors import ClusterError, NotAuthorized, Unreachable
from services.metastore.records import CommandRecord
from services.metastore.topic_state import PARTITION

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
BATCH = 10_000
"""Commands that are taken at once: one sync of the backup for all of them."""
RESOLVE_SECONDS = 15.0

TRANSIENT = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})
"""What librdkafka goes on trying by itself."""


class LogCut(ClusterError):
    """The next offset is not in the log any more: it was deleted, or the topic is another."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one `poll` got."""

    records: tuple[CommandRecord, ...]
    at_end: bool
    """Everything that was committed when it was asked for has been read."""
    next_offset: int
    """Where reading goes on, behind transaction markers and aborted commands too."""


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
        self._silent_since = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def poll(self, seconds: float, most: int = BATCH) -> Batch:
        """What came within *seconds*, at most *most* commands.

        Raises:
            LogCut: the log does not have the next offset any more.
            NotAuthorized: READ on the topic is missing.
            Unreachable: the brokers do not answer.
            ClusterError: any other error.
        """
        records, at_end = [], False
        for message in self._consumer.consume(most, seconds):
            error = message.error()
            if error is None:
                records.append(_record(message))
                at_end = False
            elif error.name() == "_PARTITION_EOF":
                at_end = True
                self._next = max(self._next, message.offset() or 0)
            else:
                self._failed(error)
        if records:
            self._next = max(self._next, records[-1].offset + 1)
        if records or at_end:
            self._silent_since = time.monotonic()
        return Batch(tuple(records), at_end, self._next)

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
                "created anew, so it has to be read from its beginning"
            )
        if name == "TOPIC_AUTHORIZATION_FAILED":
            needs = f"READ on topic {self._topic}"
            raise NotAuthorized(f"reading the command topic is not allowed: grant {needs}", needs)
        if name in TRANSIENT:
            if time.monotonic() - self._silent_since > RESOLVE_SECONDS:
                raise Unreachable(f"topic {self._topic} cannot be read ({error.str()}): try again")
            return
        raise ClusterError(f"topic {self._topic} cannot be read ({error.str()}): try again")


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
