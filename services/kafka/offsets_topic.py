"""Groups that nobody can read: their partition of `__consumer_offsets` has no leader (R17).

No broker lists them, and none says that they are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.errors import NotAuthorized
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"


def offline_offsets(client: ReadClient, deadline: Deadline) -> tuple[TopicPartition, ...]:
    """The partitions of `__consumer_offsets` without leader.

    None for a user that may not describe the topic: coordinators answer such a user, too.

    Raises:
        Unreachable: no broker answers.
    """
    try:
        states = client.newest_partitions((OFFSETS_TOPIC,), deadline)
    except NotAuthorized:
        return ()
    return tuple(state.partition for state in states if state.offline)


NAMED = 3
"""How many offline partitions a sentence names."""


def groups_unknown(offline: Sequence[TopicPartition]) -> str:
    """Which groups nobody can read: ``groups of __consumer_offsets-3 are not known: ...``."""
    if len(offline) == 1:
        return f"groups of {offline[0]} are not known: it is offline"
    named = ", ".join(map(str, offline[:NAMED])) + (", ..." if len(offline) > NAMED else "")
    return (
        f"groups of {len(offline):,} partitions of {OFFSETS_TOPIC} are not known: they are "
        f"offline ({named})"
    )
