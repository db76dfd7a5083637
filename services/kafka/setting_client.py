"""The client that writes the two topic settings that decide elections.

It writes no other setting, and names each topic: it refuses another setting or an empty list of
topics before it sends anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from breakglass.services.errors import UsageError
from breakglass.services.kafka.cluster.topic_settings import (
    MIN_ISR,
    TOPIC_RESOURCE,
    UNCLEAN_ELECTION,
)
from breakglass.services.kafka.election_client import LEFT_OUT, Reply
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.broker_errors import AUTHORIZATION_CODES
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender

SETTABLE = frozenset({MIN_ISR, UNCLEAN_ELECTION})
TOPICS_A_REQUEST = 500
SET, DELETE = 0, 1
"""Operations of IncrementalAlterConfigs (AlterConfigOp.java)."""


class SettingClient:
    """Writes one setting of topics; constructed only in armed sessions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def reading(self) -> ReadClient:
        """A reader on the same connections: what it sees is the cluster that is changed."""
        return ReadClient(self._sender)

    def write(
        self, name: str, values: Mapping[str, str | None], deadline: Deadline
    ) -> dict[str, Reply]:
        """Give each topic of *values* its own value of *name*; None takes its own value away.

        For each topic, the controller writes all changes or none.

        Raises:
            UsageError: another setting, or no topic, or too many; nothing was sent.
            Unreachable: no broker could be connected to; nothing was sent.
            OutcomeUnknown: no answer; the values may or may not have been written.
        """
        from kafka.protocol.admin import (
            IncrementalAlterConfigsRequest,
            IncrementalAlterConfigsResponse,
        )

        if name not in SETTABLE or not 1 <= len(values) <= TOPICS_A_REQUEST:
            raise UsageError(
                f"{name} of {len(values)} topics cannot be written: name one of "
                f"{', '.join(sorted(SETTABLE))}, and 1 to {TOPICS_A_REQUEST} topics"
            )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource

        def change(value: str | None) -> Any:
            operation = DELETE if value is None else SET
            return resource.AlterableConfig(name=name, config_operation=operation, value=value)

        request = IncrementalAlterConfigsRequest(
            resources=[
                resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change(value)])
                for topic, value in values.items()
            ]
        )
        answer = self._sender.change(
            ANY_BROKER,
            request,
            IncrementalAlterConfigsResponse,
            deadline,
            f"writing {name}",
            "it may or may not have been written: `breakglass recover resume --write` looks, and "
            "puts it back",
        )
        replies = {response.resource_name: _reply(response) for response in answer.responses}
        return {topic: replies.get(topic, LEFT_OUT) for topic in values}


def _reply(result: Any) -> Reply:
    if result.error_code in AUTHORIZATION_CODES:
        needs = f"not allowed: grant ALTER_CONFIGS on topic {result.resource_name} to this user"
        return Reply(result.error_code, needs)
    return Reply(result.error_code, result.error_message or "")
