"""Settings of a broker, as it tells them itself."""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.kafka.cluster.listeners import BROKER_RESOURCE
from breakglass.services.kafka.wire.broker_errors import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender


def read_broker_settings(
    sender: Sender, broker: int, keys: Sequence[str], deadline: Deadline, lane: str = ""
) -> dict[str, str | None]:
    """The values of *keys* on *broker*, in their order; None for a secret or what is not set.

    Keys that the broker does not have are left out.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        NotAuthorized: DESCRIBE_CONFIGS on CLUSTER is missing.
    """
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
                configuration_keys=list(keys),
            )
        ]
    )
    answer = sender.call(broker, request, DescribeConfigsResponse, deadline, lane=lane).results[0]
    if answer.error_code:
        raise cluster_error(
            answer.error_code,
            f"reading the settings of b{broker}",
            "DESCRIBE_CONFIGS on CLUSTER",
            answer.error_message,
        )
    told = {one.name: one.value for one in answer.configs}
    return {key: told[key] for key in keys if key in told}
