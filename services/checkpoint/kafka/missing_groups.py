"""Notices groups that take part in checkpoints of topics, and are not named for one of them.

Restored without its offsets, such a group would begin anew and process everything once more. It is
known by what its members commit beside their offsets, and by what they note when they come to a
checkpoint: whether or not anything is under way just now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from breakglass.services.checkpoint.kafka.control import Control
from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.kafka.log_ends import Logs
from breakglass.services.checkpoint.kafka.owners import read_ids
from breakglass.services.checkpoint.store.documents import Level, TakeDocument
from breakglass.services.errors import Refused, TimedOut
from breakglass.services.kafka.cluster.group_offsets import read_committed
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown


def require_named(
    client: ReadClient, take: TakeDocument, logs: Logs, control_topic: str, deadline: Deadline
) -> None:
    """Return if every group is named that takes part on the checkpoint's topics (H10).

    A group that this user may not describe is not seen.

    Raises:
        Refused: one is not; nothing is asked of a vector, which promises nothing.
        ClusterError, Unreachable: the groups or the control topic cannot be read.
    """
    if take.level is Level.VECTOR:
        return
    partitions = [one.partition for one in logs.states]
    ids = frozenset(one.topic_id.hex for one in logs.states)
    control = read_control(client, control_topic, deadline) or Control()
    noted = {group for group, topic_id, _ in control.created if topic_id in ids}
    for group, partition in sorted(_committed(client, partitions, deadline)):
        if group in take.groups:
            continue
        if group in noted or read_ids(client.sender, group, partitions, deadline):
            raise Refused(not_named(group, partition))


def not_named(group: str, partition: TopicPartition) -> str:
    """What to do about *group*, which has committed on *partition*."""
    return (
        f"unverifiable: group {group} takes part in checkpoints of {partition.topic} and is not "
        f"named, so a restore would have it process everything once more: add --group {group}="
        "exactly-once, or =at-least-once, by how it works; delete an obsolete group with "
        "kafka-consumer-groups.sh"
    )


def _committed(
    client: ReadClient, partitions: Collection[TopicPartition], deadline: Deadline
) -> Iterator[tuple[str, TopicPartition]]:
    """Each group that has committed anything on *partitions*, with the first of them."""
    wanted = frozenset(partitions)
    first: dict[str, TopicPartition] = {}
    for broker in client.describe(deadline).brokers:
        if broker.fenced is True:
            continue
        told = read_committed(client.sender, broker.id, wanted, deadline)
        if isinstance(told.offsets, Unknown):
            if told.hidden:
                continue
            reason = told.offsets.reason
            raise TimedOut(f"groups of b{broker.id} cannot be read ({reason}): try again", reason)
        for partition, offsets in told.offsets.items():
            for group in offsets:
                first[group] = min(partition, first.get(group, partition))
    yield from first.items()
