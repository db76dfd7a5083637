"""The topic settings that decide what an election does, for many topics at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.broker_errors import (
    AUTHORIZATION_CODES,
    denied,
    describe_error,
    unread,
)
from breakglass.services.kafka.wire.cached_answers import Unchanged
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicSettings, Unknown

TOPIC_RESOURCE = 2
KEYS = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "cleanup.policy",
    "remote.storage.enable",
)


SettingsAnswer = Unchanged[dict[str, TopicSettings]]


def settings_answer() -> SettingsAnswer:
    """What the answers to the same question, asked again and again, are decoded with."""
    from breakglass.services.kafka.wire.messages.reading import DescribeConfigsResponse

    return Unchanged(
        DescribeConfigsResponse,
        lambda answer: {one.resource_name: _settings(one) for one in answer.results},
    )


def read_topic_settings(
    sender: Sender,
    deadline: Deadline,
    topics: Sequence[str],
    answer: SettingsAnswer | None = None,
) -> dict[str, TopicSettings]:
    """The settings of *topics*; what may not be read is Unknown with the missing ACL.

    *answer* is that of the same question asked before.
    """
    from breakglass.services.kafka.wire.messages.reading import DescribeConfigsRequest

    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(
                resource_type=TOPIC_RESOURCE,
                resource_name=topic,
                configuration_keys=list(KEYS),
            )
            for topic in topics
        ]
    )
    try:
        told = sender.call(ANY_BROKER, request, answer or settings_answer(), deadline)
    except BreakglassError as error:
        return {topic: _unread(unread(error)) for topic in topics}
    read = told.value
    absent = _unread(Unknown("the broker left this topic out of its answer"))
    return {topic: read.get(topic, absent) for topic in topics}


def _settings(result: Any) -> TopicSettings:
    if result.error_code in AUTHORIZATION_CODES:
        return _unread(denied(f"DESCRIBE_CONFIGS on topic {result.resource_name}"))
    if result.error_code:
        return _unread(Unknown(describe_error(result.error_code, result.error_message)))
    values = {entry.name: entry.value for entry in result.configs}
    absent = Unknown("this cluster has no such setting")
    min_isr = values.get("min.insync.replicas")
    unclean = values.get("unclean.leader.election.enable")
    policy = values.get("cleanup.policy")
    return TopicSettings(
        min_insync_replicas=int(min_isr) if min_isr else absent,
        unclean_election=unclean == "true" if unclean else absent,
        compacted="compact" in policy if policy else absent,
        tiered=values.get("remote.storage.enable") == "true",
    )


def _unread(unknown: Unknown) -> TopicSettings:
    return TopicSettings(unknown, unknown, unknown, unknown)
