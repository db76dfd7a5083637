"""Which consumer groups have live members: only the others can be given offsets."""

from __future__ import annotations

from breakglass.services.kafka.wire.broker_errors import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender

WITHOUT_MEMBERS = frozenset({"Empty", "Dead", ""})
"""States of groups of every protocol (GroupState.java); "" is told by brokers before 2.6."""


def live_groups(sender: Sender, coordinator: int, deadline: Deadline) -> frozenset[str]:
    """The groups of broker *coordinator* that have members, or are just getting some.

    Raises:
        NotAuthorized, ClusterError: the broker refused.
        Unreachable: it did not answer.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        ListGroupsRequest,
        ListGroupsResponse,
    )

    answer = sender.call(coordinator, ListGroupsRequest(), ListGroupsResponse, deadline)
    if answer.error_code:
        raise cluster_error(answer.error_code, "listing groups", "DESCRIBE on the groups")
    return frozenset(
        one.group_id
        for one in answer.groups
        if (getattr(one, "group_state", "") or "") not in WITHOUT_MEMBERS
    )
