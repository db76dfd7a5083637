"""From where a participant goes on: what it committed, what was saved, what a restore has moved."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from breakglass.services.checkpoint.kafka.control import Control, Created, control_of
from breakglass.services.checkpoint.kafka.stamps import stamp_of
from breakglass.services.checkpoint.participant.application import Application
from breakglass.services.checkpoint.participant.clients import LOG, SECONDS, input_of, read_stretch
from breakglass.services.checkpoint.participant.duplicate_filter import KnownRecords
from breakglass.services.checkpoint.participant.positions import InputPosition, sn_of
from breakglass.services.errors import Unreachable, UsageError
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition as Offset

    from breakglass.services.checkpoint.participant.membership import Membership


@dataclass(frozen=True, slots=True)
class Starting:
    """What was there when a member began."""

    topic_ids: Mapping[str, str]
    control: Control

    def position(self, committed: Offset) -> InputPosition:
        """Where a partition stands, by what its group has *committed* on it.

        After a restore no id is committed beside the offset: the restore's own counts then, so
        that nothing of the topic, which is all older, forces a checkpoint once more.
        """
        partition = TopicPartition(committed.topic, committed.partition)
        topic_id = self.topic_ids[partition.topic]
        restored = self.control.restored.get(topic_id)
        sn = max(sn_of(committed.metadata), 0 if restored is None else restored.id)
        return InputPosition(partition, topic_id, committed.offset, sn, restored)

    def replay(self, member: Membership, application: Application, position: InputPosition) -> None:
        """Have the application as it was at *position*: from what it saved, or from the log.

        What stands in the log before a saved state is read for its writers alone, and only where
        they were not noted beside it, as after a restore: whoever writes at least once may write
        again what lies there.

        Raises:
            Unreachable, ClusterError: the log cannot be read.
        """
        saved = self._saved(member.group, position)
        application.begin(position.partition, None if saved is None else saved.state)
        start = None
        if saved is not None and saved.known is not None:
            position.known, start = KnownRecords(saved.known), saved.position
        end = position.next_offset
        if end <= (start or 0):
            return
        since = 0 if saved is None else saved.position
        for message in read_stretch(member.connection, position.partition, start, end):
            record = input_of(message)
            stamp = stamp_of(record.headers)
            new = stamp is None or (not stamp.marker and position.known.take(stamp))
            if new and record.offset >= since:
                application.replay(record)

    def _saved(self, group: str, position: InputPosition) -> Created | None:
        """The last state that was saved at or before *position*."""
        key = (group, position.topic_id, position.partition.partition)
        found = self.control.created.get(key)
        if found is None or found.state is None:
            return None
        return found if found.position <= position.next_offset else None


def read_starting(
    connection: Mapping[str, Any], topics: Sequence[str], control_topic: str
) -> Starting:
    """What there is now.

    Raises:
        UsageError: one of *topics* does not exist.
        Unreachable: no broker answers.
    """
    ids = _topic_ids(connection, [*topics, control_topic])
    absent = sorted(set(topics) - set(ids))
    if absent:
        raise UsageError(f"There is no topic {', '.join(absent)}: make it first.")
    control = Control()
    if control_topic in ids:
        records = read_stretch(connection, TopicPartition(control_topic, 0), None, None)
        told = (input_of(one) for one in records)
        control = control_of((one.key, one.value) for one in told)
    return Starting(ids, control)


def _topic_ids(connection: Mapping[str, Any], topics: Sequence[str]) -> dict[str, str]:
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(dict(connection), logger=LOG)
    futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=SECONDS)
    found: dict[str, str] = {}
    for name, future in futures.items():
        try:
            found[name] = _hex(future.result(SECONDS).topic_id)
        except KafkaException as error:
            if error.args[0].name() not in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
                raise Unreachable(f"topics cannot be described ({error.args[0].str()})") from None
    return found


def _hex(id: object) -> str:
    """Of a Uuid, which is written in base 64."""
    return base64.urlsafe_b64decode(f"{id}==").hex()
