"""Writes statements to the command topic by the transactional protocol, one writer at a time.

The nine steps of the protocol have gaps that this writer closes. A statement is also validated
before any writer is fenced, so that a rejected statement disturbs no other writer. A fenced writer
restarts after a random wait. After a failed commit only the log shows the outcome (M1), so the
writer reads it to its end under the same transactional id before it retries. A statement is done
when the writer's own reader has passed it (M2).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ClusterError,
    NotAuthorized,
    OutcomeUnknown,
    TimedOut,
    Unreachable,
)
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.producer import (
    Fenced,
    PartitionProducer,
    ProducerIdentity,
    TransactionClient,
    TransactionFailed,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.metastore.command import CommandId
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import MARK, CommandLog
from breakglass.services.metastore.log.validator import NothingToDo, Planned, Validator
from breakglass.services.metastore.topic import PARTITION
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.record_batches import MAGIC

TRANSACTION_MS = 10_000
"""How long a killed writer blocks readers, unless another writer takes its place."""
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
SLOW_WAIT = 8.0
"""Longest pause after a slow attempt, in its durations: else writers fence each other forever."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A statement in the log that the writer's own reader has passed."""

    id: CommandId | None
    """None: nothing was to be done."""
    offset: int | None
    query_id: str | None
    attempts: int
    seconds: float
    reason: str = ""
    """Why nothing was to be done."""


@dataclass(slots=True)
class _Attempts:
    """The attempts to write one statement."""

    text: str
    properties: Mapping[str, Any]
    mark: str
    deadline: Deadline
    began: float
    """Seconds, on the monotonic clock."""
    count: int = 0
    planned: Planned | None = None
    uncertain: bool = False
    """A commit with an unknown outcome was sent."""


class CommandWriter:
    """Submits statements; exists only in armed sessions. Not thread-safe."""

    def __init__(self, log: CommandLog, sender: Sender, validator: Validator) -> None:
        self._log = log
        self._sender = sender
        self._validator = validator

    def submit(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        *,
        seconds: float = patience.JOB,
    ) -> Submitted:
        """Write *text* as a command, within *seconds*.

        Raises:
            StatementRejected: the statement is invalid; nothing was written.
            LogDegraded: the log cannot be read to its end; nothing was written.
            OutcomeUnknown: the statement may be in the log: check before retrying.
            Fenced, TimedOut: other writers interfere, or brokers do not answer; nothing was
                written.
            NotAuthorized, ClusterError: the cluster refused; nothing was written.
        """
        began = time.monotonic()
        deadline = Deadline.after(seconds)
        one = _Attempts(text, properties or {}, uuid4().hex, deadline, began)
        self._log.watch_for(one.mark)
        try:
            longest = FIRST_WAIT
            while True:
                one.count += 1
                began = time.monotonic()
                try:
                    return self._attempt(one)
                except (Fenced, TransactionFailed, Unreachable, OutcomeUnknown) as error:
                    if one.deadline.passed:
                        self._give_up(one, error)
                except BreakglassError as error:
                    self._give_up(one, error)
                took = time.monotonic() - began
                time.sleep(min(random.uniform(0, longest), one.deadline.remaining()))
                longest = min(2 * longest, max(LONGEST_WAIT, SLOW_WAIT * min(took, 1.0)))
        finally:
            self._log.forget(one.mark)

    def _give_up(self, one: _Attempts, error: BreakglassError) -> NoReturn:
        if not one.uncertain:
            raise error
        raise OutcomeUnknown(
            f"whether the statement is in topic {self._log.topic} is unknown ({error}): look for a "
            f"command with the header {MARK}={one.mark} before trying again"
        ) from error

    def _attempt(self, one: _Attempts) -> Submitted:
        self._log.catch_up(one.deadline)
        if self._log.found(one.mark) is not None:
            return self._done(one)
        if not one.uncertain:
            told = self._validated(one)
            if isinstance(told, NothingToDo):
                return self._nothing(one, told)
        producer = Transactions(
            self._sender,
            self._log.topic,
            self._log.service_id,
            timeout_ms=TRANSACTION_MS,
            seconds=min(patience.REQUEST, max(one.deadline.remaining(), 1.0)),
        )
        producer.init()
        producer.begin()
        try:
            return self._in_transaction(one, producer)
        except BaseException:
            with suppress(BreakglassError):
                producer.abort()
            raise

    def _in_transaction(self, one: _Attempts, producer: Transactions) -> Submitted:
        """The log can no longer change: a later writer fences this one, so its commit fails."""
        self._log.catch_up(one.deadline)
        if self._log.found(one.mark) is not None:
            producer.abort()
            return self._done(one)
        one.uncertain = False
        planned = self._validated(one)
        if isinstance(planned, NothingToDo):
            producer.abort()
            return self._nothing(one, planned)
        headers = ((MARK, one.mark.encode()),)
        record = CommandRecord(0, planned.id.to_json(), planned.value, None, headers)
        (offset,) = producer.send([record])
        one.planned, one.uncertain = planned, True
        try:
            producer.commit()
        except OutcomeUnknown:
            if not producer.commit_again():
                raise
        self._log.read_to(offset + 1, one.deadline)
        if self._log.found(one.mark) is None:
            raise ClusterError("the commit was confirmed and the command is not in the log")
        return self._done(one)

    def _validated(self, one: _Attempts) -> Planned | NothingToDo:
        snapshot = self._log.metastore.snapshot()
        return self._validator.validate(one.text, snapshot, one.properties)

    def _done(self, one: _Attempts) -> Submitted:
        assert one.planned is not None
        seconds = time.monotonic() - one.began
        offset = self._log.found(one.mark)
        return Submitted(one.planned.id, offset, one.planned.query_id, one.count, seconds)

    def _nothing(self, one: _Attempts, told: NothingToDo) -> Submitted:
        seconds = time.monotonic() - one.began
        return Submitted(None, None, None, one.count, seconds, told.reason)


class TopicsNow:
    """Asks the cluster on each call."""

    def __init__(self, client: ReadClient) -> None:
        self._client = client
        self._known = False

    def __call__(self, topic: str) -> bool | Unknown:
        """Whether *topic* exists; Unknown with the reason if the cluster does not answer."""
        deadline = Deadline.after(patience.BRIEF)
        try:
            if not self._known:
                self._client.describe(deadline)
                self._known = True
            return bool(read_partitions(self._client.sender, deadline, [topic]))
        except BreakglassError as error:
            return Unknown(str(error))


T = TypeVar("T")

OTHERS_TRANSACTION_MS = 900_000
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
        timeout_ms: int = OTHERS_TRANSACTION_MS,
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
