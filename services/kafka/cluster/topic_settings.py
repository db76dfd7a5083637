"""Reads the settings of many topics: those that decide elections, and those set on the topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
KEYS = (MIN_ISR, UNCLEAN_ELECTION, "cleanup.policy", "remote.storage.enable")


SettingsAnswer = Unchanged[dict[str, TopicSettings]]


def settings_answer() -> SettingsAnswer:
    """A decoder of answers to one repeated question, which reuses an unchanged answer."""
    from breakglass.services.kafka.wire.messages.reading import DescribeConfigsResponse

    return Unchanged(
        DescribeConfigsResponse,
        lambda answer: {result.resource_name: _settings(result) for result in answer.results},
    )


def read_topic_settings(
    sender: Sender, deadline: Deadline, topics: Sequence[str], answer: SettingsAnswer | None = None
) -> dict[str, TopicSettings]:
    """The settings of *topics*; a setting that is hidden is Unknown with the missing ACL.

    *answer* is the `settings_answer` of earlier readings of the same topics.
    """
    from breakglass.services.kafka.wire.messages.reading import settings_request

    request = settings_request(TOPIC_RESOURCE, topics, KEYS)
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
    min_isr = values.get(MIN_ISR)
    unclean = values.get(UNCLEAN_ELECTION)
    policy = values.get("cleanup.policy")
    return TopicSettings(
        min_insync_replicas=int(min_isr) if min_isr and min_isr.isdecimal() else absent,
        unclean_election=unclean == "true" if unclean else absent,
        compacted="compact" in policy if policy else absent,
        tiered=values.get("remote.storage.enable") == "true",
    )


def _unread(unknown: Unknown) -> TopicSettings:
    return TopicSettings(unknown, unknown, unknown, unknown)


OF_TOPIC = 1
"""DYNAMIC_TOPIC_CONFIG of DescribeConfigsResponse.java: set on the topic, not a default."""

TopicConfig = dict[str, str]


@dataclass(frozen=True, slots=True)
class TopicValues:
    """The settings of one topic."""

    own: TopicConfig
    """Those that are set on the topic."""
    valid: TopicConfig
    """All of them, with the brokers' and Kafka's defaults."""


def read_topic_configs(
    sender: Sender, topics: Sequence[str], deadline: Deadline
) -> dict[str, TopicConfig | Unknown]:
    """The own settings of each of *topics*. Raises as `read_topic_values`."""
    found = read_topic_values(sender, topics, deadline)
    return {
        topic: values if isinstance(values, Unknown) else values.own
        for topic, values in found.items()
    }


def read_topic_values(
    sender: Sender, topics: Sequence[str], deadline: Deadline
) -> dict[str, TopicValues | Unknown]:
    """The settings of each of *topics*; Unknown with the missing ACL where they are hidden.

    Raises:
        Unreachable: no broker answered before *deadline*.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(TOPIC_RESOURCE, topics)
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    told = {result.resource_name: _values(result) for result in answer.results}
    absent = Unknown("the broker left this topic out of its answer")
    return {topic: told.get(topic, absent) for topic in topics}


def _values(result: Any) -> TopicValues | Unknown:
    if result.error_code in AUTHORIZATION_CODES:
        return denied(f"DESCRIBE_CONFIGS on topic {result.resource_name}")
    if result.error_code:
        return Unknown(describe_error(result.error_code, result.error_message))
    set_ones = [config for config in result.configs if config.value is not None]
    return TopicValues(
        {config.name: config.value for config in set_ones if config.config_source == OF_TOPIC},
        {config.name: config.value for config in set_ones},
    )
