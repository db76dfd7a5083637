"""The client that creates and deletes topics, and changes their settings.

The sender's allow-list decides which of these requests a session may send (`api_keys`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from breakglass.services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from breakglass.services.kafka.group_client import GroupClient
from breakglass.services.kafka.wire.broker_errors import (
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    cluster_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender

BROKERS_DEFAULT = -1
TOPIC_ALREADY_EXISTS = 36
GONE = (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION)
SET, DELETE = 0, 1
"""Operations of IncrementalAlterConfigs (AlterConfigOp.java)."""


class TopicClient:
    """Creates, sets up and deletes topics; constructed only in armed sessions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.groups = GroupClient(sender)

    def may_create(
        self,
        topic: str,
        partitions: int,
        settings: Mapping[str, str],
        deadline: Deadline,
        *,
        replication_factor: int = BROKERS_DEFAULT,
    ) -> None:
        """Return if *topic* can be created, or could be if it did not exist; changes nothing.

        Raises: NotAuthorized, ClusterError, OutcomeUnknown.
        """
        self._create(topic, partitions, settings, deadline, replication_factor, only_asked=True)

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
            NotAuthorized, ClusterError: the cluster refused, or the topic exists.
            OutcomeUnknown: no answer; the topic may or may not have been created.
        """
        self._create(topic, partitions, settings, deadline, replication_factor, only_asked=False)

    def _create(
        self,
        topic: str,
        partitions: int,
        settings: Mapping[str, str],
        deadline: Deadline,
        replication_factor: int,
        *,
        only_asked: bool,
    ) -> None:
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
            validate_only=only_asked,
        )
        doing = f"creating topic {topic}"
        answer = self._change(request, CreateTopicsResponse, deadline, doing)
        allowed = (TOPIC_ALREADY_EXISTS,) if only_asked else ()
        for result in answer.topics:
            _check(result, doing, f"CREATE on topic {topic}", allowed)

    def delete(self, topic: str, topic_id: UUID, deadline: Deadline) -> None:
        """Delete the topic with *topic_id*; a topic that no longer exists is not an error.

        Raises:
            NotAuthorized, ClusterError: the cluster refused.
            OutcomeUnknown: no answer; the topic may or may not have been deleted.
        """
        from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

        wanted = DeleteTopicsRequest.DeleteTopicState
        request = DeleteTopicsRequest(
            topics=[wanted(name=None, topic_id=topic_id)],
            timeout_ms=int(deadline.remaining() * 1000),
        )
        doing = f"deleting topic {topic}"
        answer = self._change(request, DeleteTopicsResponse, deadline, doing)
        for result in answer.responses:
            _check(result, doing, f"DELETE on topic {topic}", GONE)

    def configure(
        self, topic: str, settings: Mapping[str, str], defaults: Collection[str], deadline: Deadline
    ) -> None:
        """Set *settings* on *topic*, and reset the settings named in *defaults*.

        Raises:
            NotAuthorized, ClusterError: the cluster refused.
            OutcomeUnknown: no answer; the settings may or may not have been written.
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
        answer = self._change(request, IncrementalAlterConfigsResponse, deadline, doing)
        for result in answer.responses:
            _check(result, doing, f"ALTER_CONFIGS on topic {topic}")

    def forget_group(self, coordinator: int, group: str, deadline: Deadline) -> None:
        """Remove a group that has no members, with its offsets.

        Raises:
            NotAuthorized, ClusterError: its coordinator refused.
            OutcomeUnknown: no answer.
        """
        from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse

        doing = f"removing group {group}"
        request = DeleteGroupsRequest(groups_names=[group])
        answer = self._change(request, DeleteGroupsResponse, deadline, doing, broker=coordinator)
        for result in answer.results:
            _check(result, doing, f"DELETE on group {group}")

    def _change(
        self,
        request: Any,
        response_class: Any,
        deadline: Deadline,
        doing: str,
        broker: int = ANY_BROKER,
    ) -> Any:
        then = "look at the topic, then try again"
        return self._sender.change(broker, request, response_class, deadline, doing, then)


def _check(result: Any, doing: str, needs: str, allowed: Collection[int] = ()) -> None:
    if result.error_code and result.error_code not in allowed:
        message = getattr(result, "error_message", None)
        raise cluster_error(result.error_code, doing, needs, message)
