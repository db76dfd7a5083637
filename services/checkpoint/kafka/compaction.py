"""Whether topics may be compacted now: then what a checkpoint needs may go before it is copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from breakglass.services.errors import ClusterError, Refused
from breakglass.services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from breakglass.services.kafka.wire.broker_errors import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender

POLICY, LAG = "cleanup.policy", "min.compaction.lag.ms"
NEVER = 2**63 - 1
"""Milliseconds: of a topic whose compaction is held back."""


def require_uncompacted(sender: Sender, topics: Sequence[str], deadline: Deadline) -> None:
    """Return if no record of *topics* can be compacted away now.

    A shorter lag is no proof: brokers count it from the time that a producer wrote into a record.

    Raises:
        Refused: one is compacted, and nothing holds that back.
        ClusterError, NotAuthorized, Unreachable: the settings cannot be read.
    """
    for topic, settings in _read(sender, topics, deadline).items():
        if "compact" in settings.get(POLICY, "") and int(settings.get(LAG, "0")) < NEVER:
            raise Refused(
                f"unverifiable: topic {topic} is compacted, which may remove what the checkpoint "
                "needs: take it by `breakglass checkpoint take --hold-retention`, which serving "
                "and the console do not do, or at --level vector"
            )


def _read(
    sender: Sender, topics: Sequence[str], deadline: Deadline
) -> Mapping[str, Mapping[str, str]]:
    """The two settings of each topic, whoever has set them."""
    from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(
                resource_type=TOPIC_RESOURCE,
                resource_name=topic,
                configuration_keys=[POLICY, LAG],
            )
            for topic in topics
        ]
    )
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    return {one.resource_name: _values(one) for one in answer.results}


def _values(result: Any) -> Mapping[str, str]:
    if result.error_code:
        name = result.resource_name
        doing = f"reading whether topic {name} is compacted"
        raise cluster_error(result.error_code, doing, f"DESCRIBE_CONFIGS on topic {name}")
    found = {one.name: one.value for one in result.configs if one.value is not None}
    if POLICY not in found:
        raise ClusterError(
            f"topic {result.resource_name} does not say whether it is compacted: try again"
        )
    return found
