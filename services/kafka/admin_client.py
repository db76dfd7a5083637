"""Changes topics, settings and committed offsets: the requests of an administrator.

The sender's allow-list decides which of these requests a session may send (`api_keys`). Offsets of
a group change only while it has no live members; otherwise its coordinator refuses
(GroupCoordinator.validateOffsetCommit with generation -1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from breakglass.services.errors import UsageError
from breakglass.services.kafka.cluster.settings import MIN_ISR, TOPIC_RESOURCE, UNCLEAN_ELECTION
from breakglass.services.kafka.election_client import LEFT_OUT, Reply
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    by_topic,
    cluster_error,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition

NO_GENERATION = -1
COMMIT_VERSION = 9
"""The last version that names topics instead of their ids."""


class GroupClient:
    """Commits offsets for groups without members; constructed only in armed sessions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def commit(
        self,
        coordinator: int,
        group: str,
        offsets: Mapping[TopicPartition, int],
        deadline: Deadline,
    ) -> dict[TopicPartition, str]:
        """Commit *offsets* for *group*; an error in words for each partition, "" for done.

        Raises:
            Unreachable: the coordinator could not be connected to; nothing was sent.
            OutcomeUnknown: no answer; the offsets may or may not have been committed.
        """
        from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

        topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
        committed = topic_class.OffsetCommitRequestPartition
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=NO_GENERATION,
            member_id="",
            topics=by_topic(
                offsets,
                lambda name, held: topic_class(
                    name=name,
                    partitions=[
                        committed(
                            partition_index=partition.partition,
                            committed_offset=offsets[partition],
                            committed_metadata="",
                        )
                        for partition in held
                    ],
                ),
            ),
        )
        answer = self._sender.change(
            coordinator,
            request,
            OffsetCommitResponse,
            deadline,
            f"committing for group {group}",
            "run `breakglass after groups list` to see where it stands",
            max_version=COMMIT_VERSION,
        )
        return _outcomes(answer, group, offsets)

    def remove(
        self, coordinator: int, group: str, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, str]:
        """Delete the offsets of *group* on *partitions*; an error in words for each, "" for done.

        Raises Unreachable, OutcomeUnknown: as `commit`.
        """
        from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

        topic_class = OffsetDeleteRequest.OffsetDeleteRequestTopic
        numbered = topic_class.OffsetDeleteRequestPartition
        request = OffsetDeleteRequest(
            group_id=group,
            topics=by_topic(
                partitions,
                lambda name, held: topic_class(
                    name=name,
                    partitions=[
                        numbered(partition_index=partition.partition) for partition in held
                    ],
                ),
            ),
        )
        answer = self._sender.change(
            coordinator,
            request,
            OffsetDeleteResponse,
            deadline,
            f"removing offsets of group {group}",
            "look where it stands, then try again",
        )
        if answer.error_code:
            return dict.fromkeys(partitions, _words(answer.error_code, group, ""))
        return _outcomes(answer, group, partitions)


def _outcomes(
    answer: Any, group: str, asked: Iterable[TopicPartition]
) -> dict[TopicPartition, str]:
    errors = {
        TopicPartition(topic.name, partition.partition_index): _words(
            partition.error_code, group, topic.name
        )
        for topic in answer.topics
        for partition in topic.partitions
    }
    return {partition: errors.get(partition, "left out of the answer") for partition in asked}


def _words(code: int, group: str, topic: str) -> str:
    if code == GROUP_AUTHORIZATION_FAILED:
        return f"not allowed: needs READ on group {group}"
    if code == TOPIC_AUTHORIZATION_FAILED:
        return f"not allowed: needs READ on topic {topic}"
    return describe_error(code) if code else ""


BROKERS_DEFAULT = -1
TOPIC_ALREADY_EXISTS = 36
GONE = (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION)


class TopicClient:
    """Creates, sets up and deletes topics; constructed only in armed sessions."""

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
        validate_only: bool = False,
    ) -> None:
        """Create *topic* with *settings* of its own.

        If *validate_only*, return if it can be created, or could be if it did not exist.

        Raises:
            NotAuthorized, ClusterError: the cluster refused, or the topic exists.
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
            validate_only=validate_only,
        )
        doing = f"creating topic {topic}"
        answer = self._change(request, CreateTopicsResponse, deadline, doing)
        allowed = (TOPIC_ALREADY_EXISTS,) if validate_only else ()
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
