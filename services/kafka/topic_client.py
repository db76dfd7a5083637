"""What an armed session can do to topics: create them, and change their settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from services.errors import OutcomeUnknown, Unreachable
from services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from services.kafka.group_client import GroupClient
from services.kafka.wire.broker_errors import cluster_error
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.sender import ANY_BROKER, Sender

BROKERS_DEFAULT = -1
SET, DELETE = 0, 1
"""Operations of IncrementalAlterConfigs (AlterConfigOp.java)."""


class TopicClient:
    """Creates and sets up topics; constructed only in armed sessions. Each request is sent once."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.groups = GroupClient(sender)

    def create(
        self,
        topic: str,
        partitions: int,
        settings: Mapping[str, str],
        deadline: Deadline,
        *,
        replication_factor: int = BROKERS_DEFAULT,
    ) -> None:
        """Create *topic* with *settings* of its own.

        Raises:
            NotAuthorized, ClusterError: the cluster refused.
            OutcomeUnknown: no answer; the topic may or may not have been created.
        """
        from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

        wanted = CreateTopicsRequest.CreatableTopic
        request = CreateTopicsRequest(
            topics=[
                wanted(
                    name=topic,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=[],
                    configs=[
                        wanted.CreatableTopicConfig(name=name, value=value)
                        for name, value in settings.items()
                    ],
                )
            ],
            timeout_ms=int(deadline.remaining() * 1000),
        )
        doing = f"creating topic {topic}"
        answer = self._call(request, CreateTopicsResponse, deadline, doing)
        for one in answer.topics:
            _check(one, doing, f"CREATE on topic {topic}")

    def configure(
        self,
        topic: str,
        settings: Mapping[str, str],
        defaults: Collection[str],
        deadline: Deadline,
    ) -> None:
        """Give *topic* the *settings*, and take its own *defaults* from it.

        Raises:
            NotAuthorized, ClusterError: the cluster refused.
            OutcomeUnknown: no answer; they may or may not have been set.
        """
        from kafka.protocol.admin import (
            IncrementalAlterConfigsRequest,
            IncrementalAlterConfigsResponse,
        )

        resource = IncrementalAlterConfigsRequest.AlterConfigsResource

        def change(name: str, operation: int, value: str | None) -> Any:
            return resource.AlterableConfig(name=name, config_operation=operation, value=value)

        changes = [change(name, SET, value) for name, value in settings.items()]
        changes += [change(name, DELETE, None) for name in defaults]
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=changes)]
        )
        doing = f"setting up topic {topic}"
        answer = self._call(request, IncrementalAlterConfigsResponse, deadline, doing)
        for one in answer.responses:
            _check(one, doing, f"ALTER_CONFIGS on topic {topic}")

    def forget_group(self, coordinator: int, group: str, deadline: Deadline) -> None:
        """Remove a group that has no members, with its offsets.

        Raises:
            NotAuthorized, ClusterError: its coordinator refused.
            OutcomeUnknown: no answer.
        """
        from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse

        doing = f"removing group {group}"
        request = DeleteGroupsRequest(groups_names=[group])
        answer = self._call(request, DeleteGroupsResponse, deadline, doing, broker=coordinator)
        for one in answer.results:
            _check(one, doing, f"DELETE on group {group}")

    def _call(
        self,
        request: Any,
        response_class: Any,
        deadline: Deadline,
        doing: str,
        broker: int = ANY_BROKER,
    ) -> Any:
        self._sender.prove(broker, deadline)
        try:
            return self._sender.call(broker, request, response_class, deadline)
        except Unreachable as error:
            raise OutcomeUnknown(
                f"no answer while {doing} ({error.reason}): look at the topic, then try again"
            ) from error


def _check(result: Any, doing: str, needs: str) -> None:
    if result.error_code:
        message = getattr(result, "error_message", None)
        raise cluster_error(result.error_code, doing, needs, message)
