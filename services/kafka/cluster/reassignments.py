"""Reads the reassignments under way, so that no election interferes with them (R12)."""

from __future__ import annotations

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, TimedOut
from breakglass.services.kafka.wire.broker_errors import cluster_error, unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import Reassignment, TopicPartition, Unknown

UNANSWERED = Unknown("the controllers did not answer in time")


def read_reassignments(
    sender: Sender, deadline: Deadline
) -> dict[TopicPartition, Reassignment] | Unknown:
    """Every reassignment under way, or why they are not known."""
    from breakglass.services.kafka.wire.messages.reading import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )

    limit = deadline.sooner(patience.CONTROLLER)
    request = ListPartitionReassignmentsRequest(
        timeout_ms=int(limit.remaining() * 1000), topics=None
    )
    try:
        answer = sender.call(
            ANY_BROKER, request, ListPartitionReassignmentsResponse, limit, lane="reassignments"
        )
        if answer.error_code:
            raise cluster_error(
                answer.error_code,
                "listing reassignments",
                "DESCRIBE on CLUSTER",
                answer.error_message,
            )
    except TimedOut:
        # A broker forwards this request, and goes on answering all that needs no controller.
        return UNANSWERED
    except BreakglassError as error:
        return unread(error)
    return {
        TopicPartition(topic.name, partition.partition_index): Reassignment(
            tuple(partition.adding_replicas), tuple(partition.removing_replicas)
        )
        for topic in answer.topics
        for partition in topic.partitions
    }
