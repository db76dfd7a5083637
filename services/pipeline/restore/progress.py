"""How far earlier attempts of a restore came, as the cluster knows it."""

from __future__ import annotations

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
from services.pipeline.restore.offset_log import Announced
from services.pipeline.restore.task import PartitionTask

SECONDS = 60.0


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
        sender, group, deadline = self._client.sender, self._task.group, Deadline.after(SECONDS)
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
        deadline = Deadline.after(SECONDS)
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
