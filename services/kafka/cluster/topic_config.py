"""The settings that topics have of their own, to create them again as they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from breakglass.services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from breakglass.services.kafka.wire.broker_errors import AUTHORIZATION_CODES, denied, describe_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import Unknown

OF_TOPIC = 1
"""DYNAMIC_TOPIC_CONFIG of DescribeConfigsResponse.java: set on the topic, no default."""

TopicConfig = dict[str, str]


def read_topic_configs(
    sender: Sender, topics: Sequence[str], deadline: Deadline
) -> dict[str, TopicConfig | Unknown]:
    """The own settings of each of *topics*; Unknown with the missing ACL where they are hidden.

    Raises:
        Unreachable: no broker answered before *deadline*.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsRequest,
        DescribeConfigsResponse,
    )

    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
            for topic in topics
        ]
    )
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    told = {one.resource_name: _own(one) for one in answer.results}
    absent = Unknown("the broker left this topic out of its answer")
    return {topic: told.get(topic, absent) for topic in topics}


def _own(result: Any) -> TopicConfig | Unknown:
    if result.error_code in AUTHORIZATION_CODES:
        return denied(f"DESCRIBE_CONFIGS on topic {result.resource_name}")
    if result.error_code:
        return Unknown(describe_error(result.error_code, result.error_message))
    return {
        one.name: one.value
        for one in result.configs
        if one.config_source == OF_TOPIC and one.value is not None
    }
