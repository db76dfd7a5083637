"""Which broker keeps a consumer group's offsets, or a producer's transactions."""

from __future__ import annotations

from breakglass.services.errors import TimedOut
from breakglass.services.kafka.wire.broker_errors import cluster_error, describe_error, retriable
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender

GROUP, TRANSACTION = 0, 1
"""CoordinatorType (FindCoordinatorRequest.java)."""
_KINDS = {GROUP: "group", TRANSACTION: "transactional id"}


def find_coordinator(sender: Sender, key: str, deadline: Deadline, kind: int = GROUP) -> int:
    """The broker that coordinates *key*, which is a group unless *kind* says otherwise.

    Raises:
        NotAuthorized: DESCRIBE on it is missing.
        Unreachable: no coordinator was found before *deadline*.
    """
    return until(deadline, lambda: _ask(sender, key, deadline, kind))


def _ask(sender: Sender, key: str, deadline: Deadline, kind: int) -> int:
    from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

    request = FindCoordinatorRequest(key_type=kind, key=key, coordinator_keys=[key])
    answer = sender.call(ANY_BROKER, request, FindCoordinatorResponse, deadline)
    told = answer.coordinators[0] if answer.coordinators else answer
    if told.error_code and retriable(told.error_code):
        why = describe_error(told.error_code)
        raise TimedOut(
            f"{_KINDS[kind]} {key} has no coordinator ({why}): try again", "no coordinator"
        )
    if told.error_code:
        named = f"{_KINDS[kind]} {key}"
        raise cluster_error(told.error_code, f"finding {named}", f"DESCRIBE on {named}")
    return int(told.node_id)
