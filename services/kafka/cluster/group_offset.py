"""The offset that one group has committed for one partition, asked of its coordinator."""

from __future__ import annotations

from typing import Any

from breakglass.services.errors import TimedOut
from breakglass.services.kafka.cluster.coordinators import find_coordinator
from breakglass.services.kafka.wire.broker_errors import cluster_error, describe_error, retriable
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition

NAMED_VERSION = 9
"""The last version that names topics instead of their ids."""
NONE = -1


def committed_offset(
    sender: Sender, group: str, partition: TopicPartition, deadline: Deadline
) -> int | None:
    """The offset of *group*, whatever transaction is pending; None where it has none.

    Raises:
        NotAuthorized: DESCRIBE on the group is missing.
        Unreachable: its coordinator does not answer before *deadline*, or is not ready.
    """
    return until(deadline, lambda: _ask(sender, group, partition, deadline))


def _ask(sender: Sender, group: str, partition: TopicPartition, deadline: Deadline) -> int | None:
    from kafka.protocol.consumer import OffsetFetchResponse

    coordinator = find_coordinator(sender, group, deadline)
    answer = sender.call(
        coordinator,
        _request(group, partition),
        OffsetFetchResponse,
        deadline,
        max_version=NAMED_VERSION,
    )
    told = answer.groups[0] if answer.groups else answer
    place = told.topics[0].partitions[0] if told.topics else None
    code = told.error_code or (place.error_code if place else 0)
    if code and retriable(code):
        raise TimedOut(
            f"the coordinator of {group} is not ready ({describe_error(code)}): try again"
        )
    if code:
        raise cluster_error(code, f"reading group {group}", f"READ on group {group}")
    return None if place is None or place.committed_offset == NONE else int(place.committed_offset)


def _request(group: str, partition: TopicPartition) -> Any:
    """One group by itself up to version 7, among others from 8 on."""
    from kafka.protocol.consumer import OffsetFetchRequest

    wanted = OffsetFetchRequest.OffsetFetchRequestGroup
    number = [partition.partition]
    alone = OffsetFetchRequest.OffsetFetchRequestTopic(
        name=partition.topic, partition_indexes=number
    )
    among = wanted.OffsetFetchRequestTopics(name=partition.topic, partition_indexes=number)
    return OffsetFetchRequest(
        group_id=group,
        topics=[alone],
        groups=[wanted(group_id=group, topics=[among], member_id=None, member_epoch=-1)],
        require_stable=False,
    )
