"""Which broker keeps a consumer group's offsets."""

from __future__ import annotations

from services.errors import TimedOut
from services.kafka.wire.broker_errors import cluster_error, describe_error, retriable
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.retry import until
from services.kafka.wire.sender import ANY_BROKER, Sender

GROUP = 0


def find_coordinator(sender: Sender, group: str, deadline: Deadline) -> int:
    """The broker that coordinates *group*.

    Raises:
        NotAuthorized: DESCRIBE on the group is missing.
        Unreachable: no coordinator was found before *deadline*.
    """
    return until(deadline, lambda: _ask(sender, group, deadline))


def _ask(sender: Sender, group: str, deadline: Deadline) -> int:
    from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

    request = FindCoordinatorRequest(key_type=GROUP, key=group, coordinator_keys=[group])
    answer = sender.call(ANY_BROKER, request, FindCoordinatorResponse, deadline)
    told = answer.coordinators[0] if answer.coordinators else answer
    if told.error_code and retriable(told.error_code):
        raise TimedOut(
            f"group {group} has no coordinator ({describe_error(told.error_code)}): try again",
            "no coordinator",
        )
    if told.error_code:
        raise cluster_error(told.error_code, f"finding group {group}", f"DESCRIBE on group {group}")
    return int(told.node_id)
