"""Reads one setting of topics by layers: the topic's own value, and the value that it overrides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from breakglass.services.kafka.cluster.topic_settings import OF_TOPIC, TOPIC_RESOURCE
from breakglass.services.kafka.wire.broker_errors import AUTHORIZATION_CODES, denied, describe_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import Unknown


@dataclass(frozen=True, slots=True)
class LayeredSetting:
    """One setting of one topic, as a broker describes it."""

    own: str | None
    """The value that was set on the topic; None: no value was set."""
    beneath: str
    """The value without the topic's own: a broker's or the cluster's setting, or Kafka's default.

    Controllers have properties files of their own, which no request shows."""

    @property
    def effective(self) -> str:
        return self.beneath if self.own is None else self.own


def read_layered(
    sender: Sender, name: str, topics: Sequence[str], deadline: Deadline
) -> dict[str, LayeredSetting | Unknown]:
    """The setting *name* of each of *topics*; Unknown with the reason where it is hidden.

    Raises:
        Unreachable: no broker answered before *deadline*.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    if not topics:
        return {}
    request = settings_request(TOPIC_RESOURCE, topics, [name], synonyms=True)
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    read = {result.resource_name: _layers(result, name) for result in answer.results}
    absent = Unknown("the broker left this topic out of its answer")
    return {topic: read.get(topic, absent) for topic in topics}


def _layers(result: Any, name: str) -> LayeredSetting | Unknown:
    if result.error_code in AUTHORIZATION_CODES:
        return denied(f"DESCRIBE_CONFIGS on topic {result.resource_name}")
    if result.error_code:
        return Unknown(describe_error(result.error_code, result.error_message))
    entry = next((config for config in result.configs if config.name == name), None)
    if entry is None or entry.value is None:
        return Unknown("this cluster has no such setting")
    own = entry.value if entry.config_source == OF_TOPIC else None
    beneath = next(
        (synonym.value for synonym in entry.synonyms if synonym.source != OF_TOPIC), None
    )
    if beneath is None:
        return Unknown(f"the broker does not say what holds where {name} is not set on the topic")
    return LayeredSetting(own, beneath)
