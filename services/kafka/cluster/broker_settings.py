"""Reads a broker's settings from the broker itself, among them its address on a named listener."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from breakglass.services import patience
from breakglass.services.connection.endpoint import Endpoint, listener_endpoints
from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.wire.broker_errors import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.grouping import only
from breakglass.services.kafka.wire.sender import Sender

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
            advertised[broker] = _advertised(sender, broker, deadline.sooner(patience.LOOK))
        except Unreachable:
            continue
    return listener_endpoints(listener, advertised)


def _advertised(sender: Sender, broker: int, deadline: Deadline) -> str:
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(BROKER_RESOURCE, [str(broker)], [KEY])
    told = sender.call(broker, request, DescribeConfigsResponse, deadline).results
    answer = only(told, f"b{broker}")
    if answer.error_code:
        raise cluster_error(
            answer.error_code, f"reading the listeners of b{broker}",
            "DESCRIBE_CONFIGS on CLUSTER", answer.error_message,
        )  # fmt: skip
    return next((config.value or "" for config in answer.configs if config.name == KEY), "")


def read_broker_settings(
    sender: Sender, broker: int, keys: Sequence[str], deadline: Deadline, lane: str = ""
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
            f"reading the settings of b{broker}",
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
