"""The client that changes leaders: it reorders assignments and holds elections.

Every request is sent once and names its partitions: an empty list is refused here, and a
null list, which Kafka takes for "every partition of the cluster", cannot be written (R23).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from breakglass.services.errors import UsageError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import (
    ELECTION_NOT_NEEDED,
    NETWORK_EXCEPTION,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    by_topic,
    cluster_error,
    describe_error,
    retriable,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import (
    DESIGNATED_SINCE,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    designated_election,
)
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition

PARTITIONS_A_REQUEST = 1000
"""KIP-966: a broker serves only the first 1,000 partitions of a request."""


UNSETTLED = frozenset({UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NETWORK_EXCEPTION})
"""A broker's errors when it lost, or could not read, the controller's answer
(ForwardingManager.scala): the controller may have made the change, or may still make it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the controller answered for one partition."""

    code: int
    message: str = ""
    whole: bool = False
    """The error was of the whole request, so no single partition is its cause."""

    @property
    def accepted(self) -> bool:
        return self.code == 0

    @property
    def already_online(self) -> bool:
        """The partition has a leader: there was nothing to elect."""
        return self.code == ELECTION_NOT_NEEDED

    @property
    def unsettled(self) -> bool:
        """The change may or may not have happened: the brokers have to be asked."""
        return self.code in UNSETTLED

    @property
    def transient(self) -> bool:
        """The change did not happen, and a retry may succeed."""
        return not self.unsettled and retriable(self.code)

    def __str__(self) -> str:
        if self.accepted:
            return "accepted"
        return self.message if self == LEFT_OUT else describe_error(self.code, self.message or None)


LEFT_OUT = Reply(UNKNOWN_SERVER_ERROR, "the controller left this partition out of its answer")


ALTER = "ALTER on CLUSTER"
"""The ACL of reorders and elections (R22); KIP-1275 needs another for designated elections."""


class ElectionClient:
    """Sends elections through a sender that allows them; constructed only in armed sessions.

    Every method raises Unreachable when no broker could be connected to: nothing was sent.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def reading(self) -> ReadClient:
        """A reader on the same connections: what it sees is the cluster that is changed."""
        return ReadClient(self._sender)

    def reorder(
        self,
        assignments: Mapping[TopicPartition, tuple[int, ...]],
        deadline: Deadline,
        *,
        growing: bool = False,
    ) -> dict[TopicPartition, Reply]:
        """Write each partition's assignment in a new order of the same brokers, or *growing*.

        Raises:
            OutcomeUnknown: no answer; the orders may or may not have been written.
            ClusterError: refused as a whole; nothing was written.
        """
        from kafka.protocol.admin import (
            AlterPartitionReassignmentsRequest,
            AlterPartitionReassignmentsResponse,
        )

        _check_size(assignments)
        topic_class = AlterPartitionReassignmentsRequest.ReassignableTopic
        partition_class = topic_class.ReassignablePartition

        def topic(name: str, held: list[TopicPartition]) -> Any:
            return topic_class(
                name=name,
                partitions=[
                    partition_class(
                        partition_index=partition.partition, replicas=list(assignments[partition])
                    )
                    for partition in held
                ],
            )

        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_milliseconds(deadline),
            allow_replication_factor_change=growing,
            topics=by_topic(assignments, topic),
        )
        doing = "adding replicas" if growing else "reordering assignments"
        answer = self._send(request, AlterPartitionReassignmentsResponse, doing, deadline)
        whole = _whole(answer.error_code, doing, ALTER, answer.error_message or "")
        replies = {
            TopicPartition(response.name, held.partition_index): Reply(
                held.error_code, held.error_message or ""
            )
            for response in answer.responses or ()
            for held in response.partitions or ()
        }
        return {
            assignment: whole or replies.get(assignment, LEFT_OUT) for assignment in assignments
        }

    def elect(
        self, election: ElectionType, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Reply]:
        """Hold a preferred or unclean election of *partitions*, by stock Kafka's ElectLeaders.

        The answer precedes the brokers' metadata by 10 to 100 ms.

        Raises:
            OutcomeUnknown: no answer; elections may or may not have been held.
            ClusterError: refused as a whole; no election was held.
        """
        wanted = list(partitions)
        _check_size(wanted)
        topic_class = ElectLeadersRequest.TopicPartitions

        def topic(name: str, held: list[TopicPartition]) -> Any:
            return topic_class(topic=name, partitions=[partition.partition for partition in held])

        request = ElectLeadersRequest(
            election_type=int(election),
            topic_partitions=by_topic(wanted, topic),
            timeout_ms=_milliseconds(deadline),
        )
        return self._hold(request, wanted, deadline, ALTER, max_version=DESIGNATED_SINCE - 1)

    def designate(
        self, leaders: Mapping[TopicPartition, int], deadline: Deadline
    ) -> dict[TopicPartition, Reply]:
        """Elect exactly *leaders* (broker ids), by ElectLeaders v3 (KIP-1275).

        Raises:
            OutcomeUnknown: no answer; elections may or may not have been held.
            UnsupportedByCluster: the cluster elects no designated leaders; no election was held.
        """
        _check_size(leaders)
        request = designated_election(leaders, _milliseconds(deadline))
        return self._hold(request, leaders, deadline, "CLUSTER_ACTION on CLUSTER")

    def _hold(
        self,
        request: Any,
        wanted: Iterable[TopicPartition],
        deadline: Deadline,
        needs: str,
        max_version: int | None = None,
    ) -> dict[TopicPartition, Reply]:
        doing = "electing leaders"
        answer = self._send(request, ElectLeadersResponse, doing, deadline, max_version)
        whole = _whole(answer.error_code, doing, needs)
        replies = {
            TopicPartition(result.topic, held.partition_id): Reply(
                held.error_code, held.error_message or ""
            )
            for result in answer.replica_election_results or ()
            for held in result.partition_result or ()
        }
        return {partition: whole or replies.get(partition, LEFT_OUT) for partition in wanted}

    def _send(
        self,
        request: Any,
        response_class: Any,
        doing: str,
        deadline: Deadline,
        max_version: int | None = None,
    ) -> Any:
        return self._sender.change(
            ANY_BROKER,
            request,
            response_class,
            deadline,
            doing,
            "it may or may not have happened, and may still within a minute; run "
            "`breakglass triage` then to see who leads",
            max_version=max_version,
        )


def _whole(code: int, doing: str, needs: str, message: str = "") -> Reply | None:
    """The reply to each partition if the answer has a top-level error; None without an error.

    A broker that the controller does not answer returns REQUEST_TIMED_OUT at the top level
    (ForwardingManager.scala).

    Raises ClusterError: the error is not transient.
    """
    if not code:
        return None
    if not retriable(code) and code not in UNSETTLED:
        raise cluster_error(code, doing, needs, message)
    return Reply(code, message, whole=True)


def _check_size(partitions: Iterable[TopicPartition] | Mapping[TopicPartition, Any]) -> None:
    count = len(list(partitions))
    if not 1 <= count <= PARTITIONS_A_REQUEST:
        raise UsageError(
            f"a request of {count} partitions cannot be sent: name 1 to {PARTITIONS_A_REQUEST}"
        )


def _milliseconds(deadline: Deadline) -> int:
    return max(1, int(deadline.remaining() * 1000))
