"""Reads the settings that were set on brokers and topics; what Kafka marks as sensitive is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from breakglass.services.kafka.cluster.broker_settings import BROKER_RESOURCE
from breakglass.services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from breakglass.services.kafka.wire.broker_errors import AUTHORIZATION_CODES, denied, describe_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import Unknown

DEFAULT = 5
"""DEFAULT_CONFIG of DescribeConfigsResponse.java: nobody set it."""


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting that somebody set."""

    name: str
    value: str | None
    """None: it has no value, or is *sensitive*."""
    source: int
    """ConfigSource of DescribeConfigsResponse.java: 1 is the topic, 4 the broker's file."""
    sensitive: bool = False


Settings = dict[str, tuple[ShownSetting, ...] | Unknown]
"""By the name of the topic, or the id of the broker."""


def broker_settings_set(
    sender: Sender, broker: int, deadline: Deadline, lane: str = ""
) -> tuple[ShownSetting, ...] | Unknown:
    """The settings of *broker* that somebody set, in its file or at run time.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
    """
    found = _settings(sender, broker, BROKER_RESOURCE, [str(broker)], deadline, lane)
    return found.get(str(broker), Unknown("the broker left itself out of its answer"))


def topic_settings_set(sender: Sender, topics: Sequence[str], deadline: Deadline) -> Settings:
    """The settings of each of *topics* that somebody set, on the topic, a broker or all brokers.

    Raises:
        Unreachable: no broker answered before *deadline*.
    """
    found = _settings(sender, ANY_BROKER, TOPIC_RESOURCE, topics, deadline, "")
    absent = Unknown("the broker left this topic out of its answer")
    return {topic: found.get(topic, absent) for topic in topics}


def _settings(
    sender: Sender, broker: int, kind: int, names: Sequence[str], deadline: Deadline, lane: str
) -> Settings:
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(kind, names)
    answer = sender.call(broker, request, DescribeConfigsResponse, deadline, lane=lane)
    return {result.resource_name: _shown(result, kind) for result in answer.results}


def _shown(result: Any, kind: int) -> tuple[ShownSetting, ...] | Unknown:
    if result.error_code in AUTHORIZATION_CODES:
        named = "CLUSTER" if kind == BROKER_RESOURCE else f"topic {result.resource_name}"
        return denied(f"DESCRIBE_CONFIGS on {named}")
    if result.error_code:
        return Unknown(describe_error(result.error_code, result.error_message))
    return tuple(
        ShownSetting(
            config.name,
            None if config.is_sensitive else config.value,
            config.config_source,
            bool(config.is_sensitive),
        )
        for config in sorted(result.configs, key=lambda config: str(config.name))
        if config.config_source != DEFAULT
    )
