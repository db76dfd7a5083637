"""How far earlier attempts of a restore came, as the cluster knows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from services.errors import NotAuthorized, PipelineError
from services.kafka.cluster.group_offset import committed_offset
from services.kafka.producing.refusals import refusal
from services.kafka.read_client import ReadClient
from services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    list_offsets,
)
from services.kafka.wire.broker_errors import GROUP_AUTHORIZATION_FAILED
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.retry import until
from services.model import PartitionState, TopicPartition
from services.pipeline.committed_log import CommittedLog
from services.pipeline.restore.offset_log import Announced, OffsetLog, runs_of
from services.pipeline.restore.offset_map import CommittedRun
from services.pipeline.restore.task import (
    ForeignRecords,
    PartitionRestored,
    PartitionTask,
    declared_of,
)
from services.pipeline.stored_segments import Longs, RecordRun

ASK_SECONDS = 60.0


class ClusterProgress:
    """What a group's committed offset and the topic itself tell."""

    def __init__(self, client: ReadClient, task: PartitionTask) -> None:
        self._client = client
        self._task = task
        self._partition = TopicPartition(task.topic, task.partition)

    def reached(self) -> int | None:
        """The next stored offset; None where the group is not there, or no more.

        Whoever was at it before is fenced, and its transaction decided. An offset that is pending
        all the same stays so: to wait for it, as a reader of committed records does, is in vain.
        """
        sender, group, deadline = self._client.sender, self._task.group, Deadline.after(ASK_SECONDS)
        try:
            return committed_offset(sender, group, self._partition, deadline)
        except NotAuthorized:
            # What committing for the group needs lets it be read, too.
            raise refusal(GROUP_AUTHORIZATION_FAILED, self._task.where) from None

    def readable(self, one: Announced) -> bool:
        """Whether the first record of *one* can be read as committed.

        Raises:
            PipelineError: a transaction of somebody else is open before it.
        """
        wanted = one.runs[0].new_offset
        deadline = Deadline.after(ASK_SECONDS)
        state = until(deadline, lambda: self._state(deadline))
        assert state.leader is not None
        if self._stable_end(state, deadline) <= wanted:
            raise PipelineError(
                f"{self._task.where} has an open transaction before offset {wanted}, so how far "
                "the restore came cannot be read: end that transaction, then try again."
            )
        log = CommittedLog(self._client.sender, state.leader, self._partition)
        return next(log.records(wanted, wanted + 1), None) is not None

    def _state(self, deadline: Deadline) -> PartitionState:
        self._client.describe(deadline)
        for state in self._client.partitions([self._task.topic], deadline):
            if state.partition == self._partition and state.leader is not None:
                return state
        raise PipelineError(f"{self._task.where} has no leader: try again.")

    def _stable_end(self, state: PartitionState, deadline: Deadline) -> int:
        assert state.leader is not None
        told = list_offsets(
            self._client.sender,
            state.leader,
            [self._partition],
            LATEST,
            deadline,
            replica_id=LEADER_ONLY,
            leader_epochs={self._partition: state.leader_epoch},
            isolation_level=READ_COMMITTED,
        ).get(self._partition)
        if not isinstance(told, ListedOffset):
            raise PipelineError(f"the end of {self._task.where} cannot be read: try again.")
        return told.offset


FIRST_BYTES = 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024
"""Of one transaction; the first ones are small, and grow while the brokers are quick."""
QUICK_SECONDS, SLOW_SECONDS = 2.0, 10.0
FACTOR = 4


class Client(Protocol):
    """A producer under the task's transactional id."""

    def begin(self) -> None: ...

    def send(self, run: RecordRun) -> Longs:
        """Send the records of *run*; returns the timestamp types that they were stored with."""

    def flush(self) -> Longs:
        """Wait for all of them; the new offset of each.

        Raises:
            BreakglassError: not all of them were taken.
        """

    def commit(self, next_offset: int) -> None:
        """Commit them and how far the restore is; without transactions, nothing."""


class RestoreProgress(Protocol):
    """What the cluster knows of an earlier attempt."""

    def reached(self) -> int | None:
        """The next stored offset; None where nothing is known any more."""

    def readable(self, one: Announced) -> bool:
        """Whether the topic has the records of *one*, committed."""


@dataclass(slots=True)
class TransactionPace:
    """How much goes into a transaction: as much as takes some seconds."""

    bytes: int = FIRST_BYTES

    def took(self, seconds: float) -> None:
        """Note how long the last one took."""
        if seconds < QUICK_SECONDS:
            self.bytes = min(self.bytes * FACTOR, MOST_BYTES)
        elif seconds > SLOW_SECONDS:
            self.bytes = max(self.bytes // FACTOR, FIRST_BYTES)


class Producing:
    """One attempt. The client has fenced earlier ones by now."""

    def __init__(self, task: PartitionTask, client: Client, progress: RestoreProgress) -> None:
        self._task = task
        self._client = client
        self._progress = progress
        self._log = OffsetLog(task.log_path)
        self._pace = TransactionPace()
        self._restored = PartitionRestored(task.partition)

    def run(self) -> PartitionRestored:
        """Restore from where an earlier attempt came, to the end."""
        for some in self._transactions(self._start()):
            began = time.monotonic()
            self._transaction(some)
            self._pace.took(time.monotonic() - began)
        return self._restored

    def _start(self) -> int:
        """The stored offset to go on with."""
        reached = self._progress.reached() if self._task.transactional else None
        return self._log.settle(reached, self._progress.readable) or 0

    def _transactions(self, start: int) -> Iterator[RecordRun]:
        """Stored records, as many at a time as go into one transaction."""
        for run in self._task.runs(start):
            at = 0
            while at < len(run.offsets):
                room = run.bounds[at] + self._pace.bytes
                fits = int(np.searchsorted(run.bounds, room, side="right")) - 1
                limit = self._task.records_a_transaction
                upto = min(at + limit, max(at + 1, fits), len(run.offsets))
                yield cut(run, at, upto)
                at = upto

    def _transaction(self, some: RecordRun) -> None:
        """Commit *some*."""
        self._client.begin()
        declared = declared_of(self._client.send(some))
        placed = self._client.flush()
        announced = self._log.announce(self._runs(some, placed, declared))
        self._client.commit(announced.next_offset)
        self._log.confirm(announced)
        self._restored.records += len(some.offsets)
        self._restored.bytes += len(some.data)

    def _runs(self, some: RecordRun, placed: Longs, declared: dict[str, int]) -> list[CommittedRun]:
        """What the transaction holds, by where it lies in the topic."""
        if not self._task.alone:
            return _scattered(some, placed, declared)
        count, first = len(placed), int(placed[0])
        if int(placed[-1]) - first != count - 1:
            raise ForeignRecords(
                f"{self._task.where} is being written by somebody else: stop them and delete the "
                "topic, then restore it anew."
            )
        start, end = int(some.offsets[0]), int(some.offsets[-1]) + 1
        return [CommittedRun(start, end, first, count, declared)]


def _scattered(some: RecordRun, placed: Longs, declared: dict[str, int]) -> list[CommittedRun]:
    """The same where others write in between."""
    first, *others = runs_of(some.offsets.tolist(), placed.tolist())
    whole = CommittedRun(
        first.first_offset, first.next_offset, first.new_offset, first.count, declared
    )
    return [whole, *others]


def cut(run: RecordRun, start: int, end: int) -> RecordRun:
    """Records number *start* to *end* of *run*."""
    bounds = run.bounds[start : end + 1]
    return RecordRun(run.offsets[start:end], bounds - bounds[0], run.data[bounds[0] : bounds[-1]])
