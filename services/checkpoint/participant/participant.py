"""A member of a consumer group that takes part in checkpoints: reads, processes, writes, commits.

Every output carries the checkpoint that its input's partition has come to. A record that carries a
greater one is the forced checkpoint: what came before it is committed, the state is saved and
noted as created, and only then is it processed (H3). Coming to it early does no harm, late does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from breakglass.services.checkpoint.kafka.control import Created
from breakglass.services.checkpoint.kafka.stamps import Stamp, stamp_of, stamped
from breakglass.services.checkpoint.participant.application import (
    Application,
    Guarantee,
    Input,
    Output,
)
from breakglass.services.checkpoint.participant.clients import (
    SECONDS,
    at_end,
    input_of,
    make_consumer,
    make_producer,
    transactional_id,
)
from breakglass.services.checkpoint.participant.membership import Membership
from breakglass.services.checkpoint.participant.positions import InputPosition
from breakglass.services.checkpoint.participant.starting import Starting, read_starting
from breakglass.services.checkpoint.participant.writing import (
    AtLeastOnce,
    ExactlyOnce,
    Outputs,
    Writer,
    commit_offsets,
)
from breakglass.services.errors import BreakglassError, ClusterError
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer
    from confluent_kafka import TopicPartition as Offset

POLL_SECONDS = 0.2
PAUSE_SECONDS = 0.5
"""Before a member that met an error begins anew."""
NO_STAMP = Stamp(0, None)
"""Of a record whose writer is no participant: it forces nothing."""


def run(
    membership: Membership,
    application: Application,
    stopped: Callable[[], bool],
    failed: Callable[[str], None] = lambda _: None,
) -> None:
    """Take part until *stopped*; a member that meets an error begins anew, where it committed.

    *failed* is told of each error, in words.
    """
    from confluent_kafka import KafkaException

    while not stopped():
        try:
            with Participant(membership, application) as participant:
                while not stopped():
                    participant.step()
        except (KafkaException, BreakglassError) as error:
            failed(str(error))
            time.sleep(PAUSE_SECONDS)


class Participant:
    """One member; everything of it in one thread."""

    def __init__(self, membership: Membership, application: Application) -> None:
        self._as, self._application = membership, application
        self._positions: dict[TopicPartition, InputPosition] = {}
        self._dirty = False
        """Something was processed that is not committed."""
        self._failure: Exception | None = None
        self._starting: Starting = read_starting(
            membership.connection, membership.topics, membership.control_topic
        )
        name = transactional_id(membership.guarantee, membership.group, membership.member)
        connection = membership.connection
        self._producer: Producer = make_producer(connection, name, membership.transaction_ms)
        self._notes = Outputs(make_producer(connection, None, 0))
        self._consumer: Consumer = make_consumer(
            connection, membership.group, membership.session_ms
        )
        writer = AtLeastOnce if name is None else ExactlyOnce
        self._writer: Writer = writer(self._producer, self._consumer)
        self._consumer.subscribe(
            list(membership.topics), on_assign=self._assigned, on_revoke=self._revoked
        )

    def __enter__(self) -> Participant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self, seconds: float = POLL_SECONDS) -> int:
        """Process what comes within *seconds* as one batch; how many records that were.

        Raises:
            KafkaException, BreakglassError: begin anew; nothing that was not committed counts.
        """
        messages = self._consumer.consume(self._as.batch, seconds)
        if self._failure is not None:
            raise self._failure
        taken = [one for one in messages if not _passing(one)]
        for message in taken:
            self._take(input_of(message))
        self._commit()
        return len(taken)

    def close(self) -> None:
        """Leave the group; what was not committed is somebody else's to do again."""
        from confluent_kafka import KafkaException

        if self._as.guarantee is Guarantee.EXACTLY_ONCE:
            with suppress(KafkaException):
                self._producer.abort_transaction(SECONDS)
        self._consumer.close()
        self._positions.clear()

    def _take(self, record: Input) -> None:
        position = self._positions[record.partition]
        stamp = stamp_of(record.headers) or NO_STAMP
        if stamp.sn > position.sn:
            self._come_to(stamp.sn, position)
        if not stamp.marker and position.known.take(stamp):
            self._process(record, position)
        position.next_offset = record.offset + 1
        self._dirty = True

    def _process(self, record: Input, position: InputPosition) -> None:
        for index, output in enumerate(self._application.process(record)):
            cause, source = position.causes(record.offset, index, self._as.group)
            self._writer.write(output, stamped(position.sn, cause, source))

    def _come_to(self, id: int, position: InputPosition) -> None:
        """Finish what is before the checkpoint, save, and note that, before going on."""
        self._commit()
        state = self._application.save(position.partition)
        created = Created(
            self._as.group,
            position.topic_id,
            position.partition.partition,
            id,
            position.next_offset,
            state,
            None if state is None else position.known.lasts,
        )
        self._note(created)
        position.sn = id

    def _note(self, created: Created) -> None:
        key, value = created.record
        self._notes.send(Output(self._as.control_topic, value, key, partition=0), [])
        self._notes.flush()

    def _commit(self) -> None:
        if self._dirty:
            self._writer.commit(self._positions.values())
            self._dirty = False

    def _assigned(self, consumer: Consumer, partitions: list[Offset]) -> None:
        """Called within `step`; what it raises would be lost there, and is kept."""
        from confluent_kafka import KafkaException

        try:
            self._begin(consumer, partitions)
        except (KafkaException, BreakglassError) as error:
            self._failure = error

    def _begin(self, consumer: Consumer, partitions: Sequence[Offset]) -> None:
        committed = consumer.committed(list(partitions), SECONDS) if partitions else []
        new = []
        for one in committed:
            if one.error is not None:
                raise ClusterError(f"{one.topic}-{one.partition}: {one.error.str()}")
            position = self._starting.position(one)
            if one.offset < 0:
                position.next_offset = consumer.get_watermark_offsets(one, SECONDS)[0]
                new.append(position)
            self._starting.replay(self._as, self._application, position)
            self._positions[position.partition] = position
            one.offset = position.next_offset
        # So that a checkpoint knows that the group reads these partitions, empty ones too.
        consumer.assign(committed)
        commit_offsets(consumer, new)

    def _revoked(self, _: Consumer, partitions: list[Offset]) -> None:
        for one in partitions:
            found = self._positions.pop(TopicPartition(one.topic, one.partition), None)
            if found is not None:
                self._application.end(found.partition)


def _passing(message: Message) -> bool:
    """Whether it is no record, but word of something that passes.

    Raises:
        ClusterError: it does not pass.
    """
    error = message.error()
    if error is None:
        return False
    if error.fatal() or not (error.retriable() or error.name().startswith("_")):
        return not at_end(message)
    return True
