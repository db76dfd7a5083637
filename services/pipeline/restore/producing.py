"""Produces the stored records of one partition exactly once and in order.

Each transaction has some thousands of records and the restore progress: the next stored offset,
committed for a group that belongs to this restore. A new attempt first fences the earlier attempt,
and only then reads its progress (B6). The offset log announces each transaction before its commit,
so the map from old to new offsets survives every kill.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from breakglass.services import patience
from breakglass.services.errors import NotAuthorized, PipelineError, TimedOut, TopicRecreated
from breakglass.services.kafka.cluster.group_offsets import committed_offset
from breakglass.services.kafka.producing.transaction import refusal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    list_offsets,
)
from breakglass.services.kafka.wire.broker_errors import GROUP_AUTHORIZATION_FAILED
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.restore.offset_map import (
    Announced,
    CommittedRun,
    OffsetLog,
    runs_of,
)
from breakglass.services.pipeline.restore.task import (
    ForeignRecords,
    PartitionRestored,
    PartitionTask,
    declared_of,
)
from breakglass.services.pipeline.stored_segments import Longs, RecordRun


class ClusterProgress:
    """The progress of earlier attempts, by the committed offset of the group and the topic."""

    def __init__(self, client: ReadClient, task: PartitionTask) -> None:
        self._client = client
        self._task = task
        self._partition = TopicPartition(task.topic, task.partition)

    def reached(self) -> int | None:
        """The next stored offset; None if the group does not exist, or has expired.

        The earlier attempt is fenced, and its transaction has ended. An offset that is still
        pending stays pending, so waiting for it, as a committed read does, would not help.
        """
        sender, group, deadline = (
            self._client.sender,
            self._task.group,
            Deadline.after(patience.JOB),
        )
        try:
            return committed_offset(sender, group, self._partition, deadline)
        except NotAuthorized:
            # The ACL that commits for the group also reads it.
            raise refusal(GROUP_AUTHORIZATION_FAILED, self._task.where) from None

    def readable(self, announced: Announced) -> bool:
        """Whether the first record of *announced* is committed.

        Raises:
            PipelineError: a transaction of another producer is open before it.
            TopicRecreated: the topic was deleted.
            Unreachable: the partition has no leader, or no broker answers.
        """
        wanted = announced.runs[0].new_offset
        deadline = Deadline.after(patience.JOB)
        state = until(deadline, lambda: self._state(deadline))
        assert state.leader is not None
        if self._stable_end(state, deadline) <= wanted:
            raise PipelineError(
                f"{self._task.where} has an open transaction before offset {wanted}, so the "
                "progress of the restore cannot be read: end that transaction, then try again."
            )
        log = CommittedLog(self._client.sender, state.leader, self._partition)
        return next(log.records(wanted, wanted + 1), None) is not None

    def _state(self, deadline: Deadline) -> PartitionState:
        self._client.describe(deadline)
        for state in self._client.partitions([self._task.topic], deadline):
            if state.partition == self._partition:
                if state.leader is None:
                    raise TimedOut(f"{self._task.where} has no leader: try again.", "no leader")
                return state
        raise TopicRecreated(f"{self._task.where} was deleted during its restore: restore it again")

    def _stable_end(self, state: PartitionState, deadline: Deadline) -> int:
        assert state.leader is not None
        end = list_offsets(
            self._client.sender,
            state.leader,
            [self._partition],
            LATEST,
            deadline,
            replica_id=LEADER_ONLY,
            leader_epochs={self._partition: state.leader_epoch},
            isolation_level=READ_COMMITTED,
        ).get(self._partition)
        if not isinstance(end, ListedOffset):
            raise PipelineError(f"the end of {self._task.where} cannot be read: try again.")
        return end.offset


FIRST_BYTES = 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024
"""The largest transaction in bytes; transactions grow while the brokers are fast."""
QUICK_SECONDS, SLOW_SECONDS = 2.0, 10.0
FACTOR = 4


class Client(Protocol):
    """A producer under the task's transactional id."""

    def begin(self) -> None: ...

    def send(self, run: RecordRun) -> Longs:
        """Send the records of *run*; return their stored timestamp types."""

    def flush(self) -> Longs:
        """Wait for all records; return the new offset of each.

        Raises:
            BreakglassError: a record was not acknowledged.
        """

    def commit(self, next_offset: int) -> None:
        """Commit the records and the progress; without transactions, do nothing."""


class RestoreProgress(Protocol):
    """The progress of earlier attempts as the cluster has it."""

    def reached(self) -> int | None:
        """The next stored offset; None if unknown."""

    def readable(self, announced: Announced) -> bool:
        """Whether the records of *announced* are committed in the topic."""


@dataclass(slots=True)
class TransactionPace:
    """The size of a transaction, chosen so that each takes some seconds."""

    bytes: int = FIRST_BYTES

    def took(self, seconds: float) -> None:
        if seconds < QUICK_SECONDS:
            self.bytes = min(self.bytes * FACTOR, MOST_BYTES)
        elif seconds > SLOW_SECONDS:
            self.bytes = max(self.bytes // FACTOR, FIRST_BYTES)


class Producing:
    """One attempt to restore a partition, whose client has fenced earlier attempts."""

    def __init__(self, task: PartitionTask, client: Client, progress: RestoreProgress) -> None:
        self._task = task
        self._client = client
        self._progress = progress
        self._log = OffsetLog(task.log_path)
        self._pace = TransactionPace()
        self._restored = PartitionRestored(task.partition)

    def run(self) -> PartitionRestored:
        """Restore the records after the progress of earlier attempts."""
        # The stored offset to resume from.
        reached = self._progress.reached() if self._task.transactional else None
        for some in self._transactions(self._log.settle(reached, self._progress.readable) or 0):
            began = time.monotonic()
            # Commit some.
            self._client.begin()
            declared = declared_of(self._client.send(some))
            placed = self._client.flush()
            announced = self._log.announce(self._runs(some, placed, declared))
            self._client.commit(announced.next_offset)
            self._log.confirm(announced)
            self._restored.records += len(some.offsets)
            self._restored.bytes += len(some.data)
            self._pace.took(time.monotonic() - began)
        return self._restored

    def _transactions(self, start: int) -> Iterator[RecordRun]:
        # There may be as many runs as records, and a transaction takes longer than a record.
        held: list[RecordRun] = []
        for run in self._task.runs(start):
            at = 0
            while at < len(run.offsets):
                room = run.bounds[at] + self._pace.bytes - sum(len(one.data) for one in held)
                fits = int(np.searchsorted(run.bounds, room, side="right")) - 1
                limit = self._task.records_a_transaction - sum(len(one.offsets) for one in held)
                upto = min(at + limit, max(at if held else at + 1, fits), len(run.offsets))
                held += [cut(run, at, upto)] if at < upto else []
                at = upto
                if at < len(run.offsets):
                    yield joined(held)
                    held = []
        if held:
            yield joined(held)

    def _runs(self, some: RecordRun, placed: Longs, declared: dict[str, int]) -> list[CommittedRun]:
        if not self._task.alone:
            # Other producers write in between.
            begun, *others = runs_of(some.offsets.tolist(), placed.tolist())
            return [replace(begun, declared=declared), *others]
        count, first = len(placed), int(placed[0])
        if int(placed[-1]) - first != count - 1:
            raise ForeignRecords(
                f"{self._task.where} has another writer: stop it and delete the topic, then "
                "restore it again."
            )
        start, end = int(some.offsets[0]), int(some.offsets[-1]) + 1
        return [CommittedRun(start, end, first, count, declared)]


def joined(some: Sequence[RecordRun]) -> RecordRun:
    """The records of *some* as one run."""
    if len(some) == 1:
        return some[0]
    sizes = np.concatenate([np.diff(run.bounds) for run in some])
    return RecordRun(
        np.concatenate([run.offsets for run in some]),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
        np.concatenate([run.data for run in some]),
    )


def cut(run: RecordRun, start: int, end: int) -> RecordRun:
    """Records number *start* to *end* of *run*."""
    bounds = run.bounds[start : end + 1]
    return RecordRun(run.offsets[start:end], bounds - bounds[0], run.data[bounds[0] : bounds[-1]])
