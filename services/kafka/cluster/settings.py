"""Reads settings of topics and brokers: those that decide elections, and all that were set.

What Kafka marks as sensitive is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from breakglass.services import patience
from breakglass.services.connection.endpoint import Endpoint, listener_endpoints
from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    Unchanged,
    cluster_error,
    denied,
    describe_error,
    only,
    unread,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicSettings, Unknown

T = TypeVar("T")

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
    if refusal := _refusal(result, TOPIC_RESOURCE):
        return _unread(refusal)
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

    Raises Unreachable: no broker answered before *deadline*.
    """
    return _described(sender, ANY_BROKER, topics, deadline, _values)


def _values(result: Any) -> TopicValues:
    set_ones = [config for config in result.configs if config.value is not None]
    return TopicValues(
        {config.name: config.value for config in set_ones if config.config_source == OF_TOPIC},
        {config.name: config.value for config in set_ones},
    )


def _described(
    sender: Sender,
    broker: int,
    names: Sequence[str],
    deadline: Deadline,
    read: Callable[[Any], T | Unknown],
    keys: Sequence[str] | None = None,
    lane: str = "",
) -> dict[str, T | Unknown]:
    """What *read* makes of the settings of each of *names*; Unknown where they are hidden.

    They are topics if any *broker* may answer, else names of the broker itself.

    With *keys*, only these, each with the values that it would have otherwise.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    kind = TOPIC_RESOURCE if broker == ANY_BROKER else BROKER_RESOURCE
    request = settings_request(kind, names, keys, synonyms=keys is not None)
    answer = sender.call(broker, request, DescribeConfigsResponse, deadline, lane=lane)
    found = {
        result.resource_name: _refusal(result, kind) or read(result) for result in answer.results
    }
    itself = "itself" if kind == BROKER_RESOURCE else "this topic"
    absent = Unknown(f"the broker left {itself} out of its answer")
    return {name: found.get(name, absent) for name in names}


def _refusal(result: Any, kind: int) -> Unknown | None:
    """Why the broker does not describe a topic or itself; None if it does."""
    if result.error_code in AUTHORIZATION_CODES:
        named = "CLUSTER" if kind == BROKER_RESOURCE else f"topic {result.resource_name}"
        return denied(f"DESCRIBE_CONFIGS on {named}")
    if result.error_code:
        return Unknown(describe_error(result.error_code, result.error_message))
    return None


BROKER_RESOURCE = 4
KEY = "advertised.listeners"


def read_listener(
    sender: Sender, brokers: Iterable[int], listener: str, deadline: Deadline
) -> dict[int, Endpoint]:
    """The addresses of *brokers* on *listener*; silent brokers are left out.

    Raises:
        BadConnectionSettings: a broker has no listener of that name.
        NotAuthorized: DESCRIBE_CONFIGS on CLUSTER is missing.
    """
    advertised: dict[int, str] = {}
    for broker in brokers:
        try:
            limit = deadline.sooner(patience.LOOK)
            told = read_broker_settings(sender, broker, [KEY], limit, of="listeners")
            advertised[broker] = told.get(KEY) or ""
        except Unreachable:
            continue
    return listener_endpoints(listener, advertised)


def read_broker_settings(
    sender: Sender,
    broker: int,
    keys: Sequence[str],
    deadline: Deadline,
    lane: str = "",
    of: str = "settings",
) -> dict[str, str | None]:
    """The values of *keys* on *broker*, in their order; None for a secret or an unset key.

    Keys that the broker does not have are left out.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        NotAuthorized: DESCRIBE_CONFIGS on CLUSTER is missing.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(BROKER_RESOURCE, [str(broker)], keys)
    results = sender.call(broker, request, DescribeConfigsResponse, deadline, lane=lane).results
    answer = only(results, f"b{broker}")
    if answer.error_code:
        raise cluster_error(
            answer.error_code,
            f"reading the {of} of b{broker}",
            "DESCRIBE_CONFIGS on CLUSTER",
            answer.error_message,
        )
    told = {config.name: config.value for config in answer.configs}
    return {key: told[key] for key in keys if key in told}


VOTERS, BOOTSTRAP_CONTROLLERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"


def read_controllers(sender: Sender, brokers: Iterable[int], deadline: Deadline) -> str:
    """The controllers that brokers are configured with: ``101@c1:9093, 102@c2:9093``.

    The first of *brokers* that answers tells. Empty where none does, or this user may not know.
    """
    for broker in brokers:
        try:
            limit = deadline.sooner(patience.LOOK)
            told = read_broker_settings(sender, broker, (VOTERS, BOOTSTRAP_CONTROLLERS), limit)
        except Unreachable:
            continue
        except BreakglassError:
            return ""
        named = next((told[key] for key in (VOTERS, BOOTSTRAP_CONTROLLERS) if told.get(key)), None)
        return ", ".join((named or "").replace(" ", "").split(","))
    return ""


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

    Raises Unreachable: the broker did not answer before *deadline*.
    """
    name = str(broker)
    return _described(sender, broker, [name], deadline, _shown, lane=lane)[name]


def topic_settings_set(sender: Sender, topics: Sequence[str], deadline: Deadline) -> Settings:
    """The settings of each of *topics* that somebody set, on the topic, a broker or all brokers.

    Raises Unreachable: no broker answered before *deadline*.
    """
    return _described(sender, ANY_BROKER, topics, deadline, _shown)


def _shown(result: Any) -> tuple[ShownSetting, ...]:
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

    Raises Unreachable: no broker answered before *deadline*.
    """
    if not topics:
        return {}
    read = partial(_layers, name)
    return _described(sender, ANY_BROKER, topics, deadline, read, [name])


def _layers(name: str, result: Any) -> LayeredSetting | Unknown:
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
