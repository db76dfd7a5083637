"""Checks of a take: every group and record is accounted for, and none can be compacted away.

Compaction may remove records that the checkpoint needs before they are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from breakglass.services.checkpoint.promises import (
    flows_elsewhere,
    group_faults,
    unstamped_topics,
)
from breakglass.services.checkpoint.protocol.evidence import CheckpointEvidence
from breakglass.services.checkpoint.protocol.flows import GroupFlow
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.errors import ClusterError, Refused
from breakglass.services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from breakglass.services.kafka.wire.broker_errors import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender


class _Asked(Protocol):
    """What a checkpoint is asked to contain, before and after it is stored."""

    @property
    def level(self) -> Level: ...
    @property
    def groups(self) -> Mapping[str, GroupPolicy]: ...
    @property
    def external(self) -> tuple[str, ...]: ...
    @property
    def flows(self) -> tuple[GroupFlow, ...]: ...


def require_declared(take: _Asked, evidence: CheckpointEvidence) -> None:
    """Return if the take's promise can hold by the *evidence* (H10).

    Every group on the topics has to be saved or declared, whatever its kind: a group that is
    missing would be restored without offsets. The prefixes of the logs have to say what led to
    their records, even if nothing was written while the checkpoint was taken.

    Raises:
        Refused: a group is not named, or a record has an unknown cause.
    """
    faults = list(group_faults(evidence.groups, take.groups))
    if take.level in (Level.COORDINATED, Level.VERIFIED):
        inside = [topic for topic in evidence.topics if topic.topic not in take.external]
        faults += unstamped_topics(inside)
    if take.level is Level.ORDERED:
        faults += flows_elsewhere(evidence.groups, take.flows)
    if faults:
        raise Refused(f"unverifiable: {faults[0]}")


POLICY, LAG = "cleanup.policy", "min.compaction.lag.ms"
NEVER = 2**63 - 1
"""Milliseconds: the minimum compaction lag of a topic whose compaction is suspended."""


def require_uncompacted(sender: Sender, topics: Sequence[str], deadline: Deadline) -> None:
    """Return if no record of *topics* can be compacted away now.

    A shorter lag proves nothing: brokers measure it from the timestamp that the producer has set.

    Raises:
        Refused: a topic can be compacted now.
        ClusterError, NotAuthorized, Unreachable: the settings cannot be read.
    """
    for topic in sorted(compacted(sender, topics, deadline)):
        raise Refused(
            f"unverifiable: topic {topic} is compacted, which may remove what the checkpoint "
            "needs: take it by `breakglass checkpoint take --hold-retention`, serve with that "
            "option, or take it at --level vector"
        )


def compacted(sender: Sender, topics: Sequence[str], deadline: Deadline) -> frozenset[str]:
    """Those of *topics* from which records may be compacted away now. Raises as above."""
    return frozenset(
        topic
        for topic, settings in _read(sender, topics, deadline).items()
        if "compact" in settings.get(POLICY, "") and int(settings.get(LAG, "0")) < NEVER
    )


def _read(
    sender: Sender, topics: Sequence[str], deadline: Deadline
) -> Mapping[str, Mapping[str, str]]:
    """The two settings of each topic, from whatever source."""
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(TOPIC_RESOURCE, topics, [POLICY, LAG])
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    return {result.resource_name: _values(result) for result in answer.results}


def _values(result: Any) -> Mapping[str, str]:
    if result.error_code:
        name = result.resource_name
        doing = f"reading whether topic {name} is compacted"
        raise cluster_error(result.error_code, doing, f"DESCRIBE_CONFIGS on topic {name}")
    found = {config.name: config.value for config in result.configs if config.value is not None}
    if POLICY not in found:
        raise ClusterError(
            f"topic {result.resource_name} does not say whether it is compacted: try again"
        )
    return found
