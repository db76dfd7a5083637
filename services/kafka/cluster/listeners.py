"""Where brokers listen under another listener's name, asked of each broker itself."""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.services.connection.endpoint import Endpoint, listener_endpoints
from breakglass.services.errors import Unreachable
from breakglass.services.kafka.wire.broker_errors import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender

BROKER_RESOURCE = 4
KEY = "advertised.listeners"
LISTENER_SECONDS = 2.0
"""A broker that cannot be asked keeps the address it has."""


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
            advertised[broker] = _advertised(sender, broker, deadline.sooner(LISTENER_SECONDS))
        except Unreachable:
            continue
    return listener_endpoints(listener, advertised)


def _advertised(sender: Sender, broker: int, deadline: Deadline) -> str:
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsRequest,
        DescribeConfigsResponse,
    )

    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(
                resource_type=BROKER_RESOURCE,
                resource_name=str(broker),
                configuration_keys=[KEY],
            )
        ]
    )
    answer = sender.call(broker, request, DescribeConfigsResponse, deadline).results[0]
    if answer.error_code:
        raise cluster_error(
            answer.error_code, f"reading the listeners of b{broker}",
            "DESCRIBE_CONFIGS on CLUSTER", answer.error_message,
        )  # fmt: skip
    return next((one.value or "" for one in answer.configs if one.name == KEY), "")
