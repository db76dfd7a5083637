"""Writes transactions under one transactional id, with errors that say what is known.

Only in armed sessions. The producer fences the former producer with the id (`init`), and the next
producer fences it: no record that it had not committed ever becomes visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    NotAuthorized,
    OutcomeUnknown,
    TimedOut,
    Unreachable,
)
from breakglass.services.kafka.producer import (
    Fenced,
    PartitionProducer,
    ProducerIdentity,
    TransactionClient,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.topic import PARTITION
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import MAGIC

T = TypeVar("T")

TRANSACTION_MS = 900_000
"""The greatest timeout that brokers allow by default (transaction.max.timeout.ms)."""
BATCH_BYTES = 1_000_000
"""Just under the default of max.message.bytes; a larger command is a batch of its own."""
SEQUENCES = 2**31


class Transactions:
    """A transactional producer of the commands of one topic."""

    def __init__(
        self,
        sender: Sender,
        topic: str,
        transactional_id: str,
        *,
        timeout_ms: int = TRANSACTION_MS,
        seconds: float = patience.COMMAND,
    ) -> None:
        """*seconds* is the time for each step."""
        self.id = transactional_id
        self._partition = TopicPartition(topic, PARTITION)
        self._seconds = seconds
        where = f"transactional id {transactional_id}"
        self._client = TransactionClient(sender, transactional_id, where, timeout_ms)
        self._writer = PartitionProducer(ReadClient(sender), self._partition, transactional_id)
        self._producer = ProducerIdentity(-1, -1)
        self._sequence = 0
        self._added = False
        """The transaction may have the topic, so that it has to be ended."""

    def init(self) -> None:
        """Take the id from its former producer, whose open transaction is aborted.

        Raises:
            NotAuthorized: WRITE on the transactional id is missing.
            TimedOut: the coordinator was not ready in time; try again.
            Fenced, ClusterError.
        """
        self._producer = self._run("taking the id", self._client.fence)
        self._sequence, self._added = 0, False

    def begin(self) -> None:
        self._added = False

    def send(self, records: Sequence[CommandRecord]) -> list[int]:
        """Write *records* and wait for all of them; returns their offsets.

        Raises:
            Fenced, NotAuthorized, TimedOut, ClusterError: the transaction can only be aborted
                (`abort`).
        """
        return self._run("writing", lambda deadline: self._send(records, deadline))

    def commit(self) -> None:
        """Commit. Committed records become readable a moment later, not immediately (M2).

        Raises:
            OutcomeUnknown: any error: even after fencing the outcome is unknown (M1). The log shows
                it, once a producer has taken the id and read to the log end.
        """
        if not self._added:
            return
        try:
            self._client.end(Deadline.after(self._seconds), commit=True)
        except BreakglassError as error:
            raise OutcomeUnknown(
                f"whether the transaction of {self.id} was committed is unknown ({error}): read "
                "the topic to its end to know"
            ) from error
        self._added = False

    def commit_again(self) -> bool:
        """Ask the coordinator for the outcome of the commit (M1); False: it does not tell."""
        try:
            self.commit()
        except OutcomeUnknown:
            return False
        return True

    def abort(self) -> None:
        """Abort the transaction. Raises: Fenced, TimedOut, ClusterError."""
        if self._added:
            self._run("aborting", lambda deadline: self._client.end(deadline, commit=False))
            self._added = False

    def _send(self, records: Sequence[CommandRecord], deadline: Deadline) -> list[int]:
        if not self._added:
            self._added = True
            self._client.add(self._partition, deadline)
        offsets: list[int] = []
        left = list(records)
        while left:
            batch, count = self._batch(left)
            first = self._writer.write(batch, deadline)
            self._sequence = (self._sequence + count) % SEQUENCES
            offsets += range(first, first + count)
            del left[:count]
        return offsets

    def _batch(self, records: Sequence[CommandRecord]) -> tuple[bytes, int]:
        """A batch of the first of *records*, and how many these are."""
        from kafka.record.default_records import DefaultRecordBatchBuilder

        builder = DefaultRecordBatchBuilder(
            magic=MAGIC,
            compression_type=0,
            is_transactional=True,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            base_sequence=self._sequence,
            batch_size=BATCH_BYTES,
        )
        now = now_ms()
        for number, one in enumerate(records):
            timestamp = now if one.timestamp_ms is None else one.timestamp_ms
            headers = list(one.headers)
            if builder.append(number, timestamp, one.key, one.value, headers) is None:
                return bytes(builder.build()), number
        return bytes(builder.build()), len(records)

    def _run(self, doing: str, act: Callable[[Deadline], T]) -> T:
        try:
            return act(Deadline.after(self._seconds))
        except Fenced:
            raise Fenced(
                f"another writer took the transactional id {self.id} while {doing}: nothing of "
                "this transaction will be seen; a server of the service is running"
            ) from None
        except NotAuthorized as error:
            of_topic = "TOPIC_AUTHORIZATION_FAILED" in str(error)
            needs = f"WRITE on {'the command topic' if of_topic else f'transactional id {self.id}'}"
            raise NotAuthorized(f"{doing} is not allowed: grant {needs}", needs) from None
        except AuthenticationFailed:
            raise
        except Unreachable as error:
            raise TimedOut(
                f"{doing} for {self.id} got no answer in time ({error.reason}): try again",
                error.reason,
            ) from error
