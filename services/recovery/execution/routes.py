"""Two ways to elect a designated leader: KIP-1275's own request, and what stock brokers offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from services.kafka.deadline import Deadline
from services.kafka.election_client import ElectionClient, Reply
from services.kafka.messages.elect_leaders import ElectionType
from services.model import TopicPartition
from services.recovery.execution.target import Target


class Route(Protocol):
    """Elects the designees of one batch."""

    name: str
    reorders: bool
    """It writes assignments in another order, which are to be put back."""

    def elect(self, batch: Sequence[Target], deadline: Deadline) -> Mapping[TopicPartition, Reply]:
        """One reply for each partition of *batch*.

        Raises:
            OutcomeUnknown: no answer came.
            ClusterError: refused as a whole.
        """
        ...


class StockRoute:
    """Write the whole ranking as the assignment's order, then hold an unclean election.

    KRaft elects the first live replica in assignment order once ISR, ELR and the last known
    leader offer none (PartitionChangeBuilder.electAnyLeader).
    """

    name = "reorder + unclean election"
    reorders = True

    def __init__(self, client: ElectionClient) -> None:
        self._client = client

    def elect(self, batch: Sequence[Target], deadline: Deadline) -> Mapping[TopicPartition, Reply]:
        replies = self._client.reorder({one.partition: one.order for one in batch}, deadline)
        ordered = [partition for partition, reply in replies.items() if reply.accepted]
        if not ordered:
            return replies
        return {**replies, **self._client.elect(ElectionType.UNCLEAN, ordered, deadline)}


class NativeRoute:
    """Name the leader in the election itself (ElectLeaders v3, KIP-1275)."""

    name = "designated election"
    reorders = False

    def __init__(self, client: ElectionClient) -> None:
        self._client = client

    def elect(self, batch: Sequence[Target], deadline: Deadline) -> Mapping[TopicPartition, Reply]:
        return self._client.designate({one.partition: one.designee for one in batch}, deadline)
