"""What an armed session can do to a command topic: delete it, and create it anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from services.errors import OutcomeUnknown, Unreachable
from services.kafka.wire.broker_errors import (
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    cluster_error,
)
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.sender import ANY_BROKER, Sender

TOPIC_ALREADY_EXISTS = 36


class CommandTopicClient:
    """Deletes and creates topics; constructed only in armed sessions. Each request is sent once."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender

    def delete(self, topic: str, topic_id: UUID, deadline: Deadline) -> None:
        """Delete the topic of that very id; one that is gone already is no error.

        Raises:
            NotAuthorized, ClusterError: the cluster refused.
            OutcomeUnknown: no answer; it may or may not have been deleted.
        """
        from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

        wanted = DeleteTopicsRequest.DeleteTopicState
        request = DeleteTopicsRequest(
            topics=[wanted(name=None, topic_id=topic_id)],
            timeout_ms=int(deadline.remaining() * 1000),
        )
        doing = f"deleting topic {topic}"
        for one in self._call(request, DeleteTopicsResponse, deadline, doing).responses:
            if one.error_code not in (0, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION):
                needs = f"DELETE on topic {topic}"
                raise cluster_error(one.error_code, doing, needs, one.error_message)

    def may_create(
        self, topic: str, replicas: int, settings: Mapping[str, str], deadline: Deadline
    ) -> None:
        """Return if the topic could be created once it is gone; nothing is changed.

        Raises: NotAuthorized, ClusterError, OutcomeUnknown.
        """
        self._create(topic, replicas, settings, deadline, only_asked=True)

    def create(
        self, topic: str, replicas: int, settings: Mapping[str, str], deadline: Deadline
    ) -> None:
        """Create the topic with one partition.

        Raises:
            NotAuthorized, ClusterError: the cluster refused, or somebody else created it.
            OutcomeUnknown: no answer; it may or may not have been created.
        """
        self._create(topic, replicas, settings, deadline, only_asked=False)

    def _create(
        self,
        topic: str,
        replicas: int,
        settings: Mapping[str, str],
        deadline: Deadline,
        *,
        only_asked: bool,
    ) -> None:
        from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

        wanted = CreateTopicsRequest.CreatableTopic
        configs = [
            wanted.CreatableTopicConfig(name=name, value=value) for name, value in settings.items()
        ]
        request = CreateTopicsRequest(
            topics=[
                wanted(
                    name=topic,
                    num_partitions=1,
                    replication_factor=replicas,
                    assignments=[],
                    configs=configs,
                )
            ],
            timeout_ms=int(deadline.remaining() * 1000),
            validate_only=only_asked,
        )
        doing = f"creating topic {topic}"
        allowed = (0, TOPIC_ALREADY_EXISTS) if only_asked else (0,)
        for one in self._call(request, CreateTopicsResponse, deadline, doing).topics:
            if one.error_code not in allowed:
                needs = f"CREATE on topic {topic}"
                raise cluster_error(one.error_code, doing, needs, one.error_message)

    def _call(self, request: Any, response_class: Any, deadline: Deadline, doing: str) -> Any:
        self.sender.prove(ANY_BROKER, deadline)
        try:
            return self.sender.call(ANY_BROKER, request, response_class, deadline)
        except Unreachable as error:
            raise OutcomeUnknown(
                f"no answer while {doing} ({error.reason}): look at the topic, then try again"
            ) from error
