"""A participant: a member of an application's group that takes part in checkpoints.

Every output carries the checkpoint id of its input partition. A record with a greater id forces a
checkpoint: the participant commits all earlier records, saves and records the state, and only then
processes the record (H3). An early checkpoint does no harm, a late one does. A participant starts
from its committed offsets, its saved states and the moves of a restore.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import (
    CONTROL_TOPIC,
    METADATA,
    Control,
    Created,
    LastOf,
    RecordAddress,
    RecordOrigin,
    RestoredTopic,
    Stamp,
    control_of,
    sn_of,
    stamp_of,
    stamped,
)
from breakglass.services.checkpoint.protocol import values as protocol
from breakglass.services.checkpoint.protocol.values import (
    CheckpointRecord,
    CheckpointState,
    Intent,
    replay,
)
from breakglass.services.errors import BreakglassError, ClusterError, Unreachable, UsageError
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka import TopicPartition as Offset

Headers = tuple[tuple[str, bytes | None], ...]


class Guarantee(StrEnum):
    """How often a record takes effect, as an outside observer sees it."""

    EXACTLY_ONCE = "exactly-once"
    """Outputs and offsets in one transaction."""
    AT_LEAST_ONCE = "at-least-once"
    """Outputs before offsets; readers skip duplicates."""


@dataclass(frozen=True, slots=True)
class Input:
    """A record that was read."""

    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A record to be written; the participant adds its own headers."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    """None: the producer partitions by the key."""
    headers: Headers = field(default=())


InputWriter = tuple[str, int, str]
"""Topic id and partition of the input, and the group that reads the input."""


class KnownRecords:
    """The records of one partition, as far as it was read.

    A writer processes its input in order and writes to a partition in that order, without gaps. So
    a record that is not after the writer's last record is a duplicate.
    """

    def __init__(self, lasts: Iterable[LastOf] = ()) -> None:
        """Begin with the *lasts* that were recorded before."""
        self._last: dict[InputWriter, tuple[int, int]] = {
            (last.topic_id, last.partition, last.group): (last.offset, last.index) for last in lasts
        }

    @property
    def lasts(self) -> tuple[LastOf, ...]:
        """The last record of each writer, to be recorded with a saved state."""
        return tuple(LastOf(*writer, *at) for writer, at in self._last.items())

    def take(self, stamp: Stamp) -> bool:
        """Add a record; returns whether it occurs for the first time."""
        cause = stamp.cause
        if cause is None:
            return True
        writer = cause.place.topic_id, cause.place.partition, cause.group
        at = cause.place.offset, cause.index
        last = self._last.get(writer)
        if last is not None and at <= last:
            return False
        self._last[writer] = at
        return True


@dataclass(slots=True)
class InputPosition:
    """One input partition."""

    partition: TopicPartition
    topic_id: str
    next_offset: int
    checkpoint: CheckpointState
    """The checkpoint that the partition has reached: every output carries its id."""
    restored: RestoredTopic | None = None
    known: KnownRecords = field(default_factory=KnownRecords)

    @property
    def sn(self) -> int:
        """The id that every output carries."""
        return self.checkpoint.id

    @property
    def metadata(self) -> str:
        """The metadata of a committed offset: without it, cuts would contain orphans."""
        return f"{METADATA}{self.sn}"

    def causes(self, offset: int, index: int, group: str) -> tuple[RecordOrigin, RecordOrigin]:
        """The cause that an output of the record at *offset* names, and its current address.

        The two differ for a record that a restore has moved and that is processed again: its
        outputs must be recognized as the earlier outputs.
        """
        here = RecordAddress(self.topic_id, self.partition.partition, offset)
        before = self.restored and self.restored.original(self.partition.partition, offset)
        return RecordOrigin(before or here, index, group), RecordOrigin(here, index, group)


class Application(Protocol):
    """Processes the records of partitions, each partition with its own state.

    The same records in the same order must produce the same outputs: after a failure or a restore
    the records are processed again.
    """

    def begin(self, partition: TopicPartition, state: bytes | None) -> None:
        """The partition is assigned to this member; *state* is the last result of `save`, if any.

        `replay` then passes the records that were processed after that state.
        """

    def replay(self, record: Input) -> None:
        """Apply a processed record to the state; its outputs already exist."""

    def process(self, record: Input) -> Iterable[Output]:
        """Process a record; called once for each record."""

    def save(self, partition: TopicPartition) -> bytes | None:
        """The state of the partition for a checkpoint; None: the state is replayed from the log."""

    def end(self, partition: TopicPartition) -> None:
        """The partition is revoked from this member."""


Stamps = list[tuple[str, bytes]]


class Writer(Protocol):
    """Writes the outputs of a batch. Raises KafkaException, or ClusterError for a lost output."""

    def write(self, output: Output, stamps: Stamps) -> None:
        """Write one output."""

    def commit(self, positions: Iterable[InputPosition]) -> None:
        """Return when all outputs and the input offsets are durable."""


class AtLeastOnce:
    """Commits the offsets after the outputs."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._outputs, self._consumer = Outputs(producer), consumer

    def write(self, output: Output, stamps: Stamps) -> None:
        self._outputs.send(output, stamps)

    def commit(self, positions: Iterable[InputPosition]) -> None:
        self._outputs.flush()
        commit_offsets(self._consumer, positions)


class ExactlyOnce:
    """Writes outputs and offsets in one transaction, which fences the partitions' former member."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer, self._consumer = producer, consumer
        self._outputs = Outputs(producer)
        self._open = False
        producer.init_transactions(patience.COMMAND)

    def write(self, output: Output, stamps: Stamps) -> None:
        self._begin()
        self._outputs.send(output, stamps)

    def commit(self, positions: Iterable[InputPosition]) -> None:
        self._begin()
        self._outputs.flush()
        member = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(_offsets(positions), member, patience.COMMAND)
        self._producer.commit_transaction(patience.COMMAND)
        self._open = False

    def _begin(self) -> None:
        if not self._open:
            self._producer.begin_transaction()
            self._open = True


class Outputs:
    """Sends records, and keeps their delivery results."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._failure: KafkaError | None = None

    def send(self, output: Output, stamps: Stamps) -> None:
        """Send a record; waits while the producer's queue is full."""

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self._failure = error

        arguments: dict[str, Any] = {
            "key": output.key,
            "value": output.value,
            "headers": [*output.headers, *stamps],
            "on_delivery": delivered,
        }
        if output.partition is not None:
            arguments["partition"] = output.partition
        while True:
            try:
                self._producer.produce(output.topic, **arguments)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Return when all sent records are acknowledged.

        Raises ClusterError: a record was not delivered.
        """
        left = self._producer.flush(patience.COMMAND)
        if self._failure is not None or left:
            why = "no answer" if self._failure is None else self._failure.str()
            raise ClusterError(f"outputs were not written ({why}): they are written again")


def commit_offsets(consumer: Consumer, positions: Iterable[InputPosition]) -> None:
    """Commit the positions of *consumer*, with the checkpoint of each partition as metadata."""
    offsets = _offsets(positions)
    if offsets:
        consumer.commit(offsets=offsets, asynchronous=False)


def _offsets(positions: Iterable[InputPosition]) -> list[Offset]:
    from confluent_kafka import TopicPartition

    return [
        TopicPartition(
            position.partition.topic,
            position.partition.partition,
            position.next_offset,
            metadata=position.metadata,
        )
        for position in positions
    ]


LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
NEVER = 0
"""librdkafka's value for a message that never times out."""


def make_consumer(connection: Mapping[str, Any], group: str, session_ms: int) -> Consumer:
    """A consumer in *group* whose offsets the caller alone commits."""
    from confluent_kafka import Consumer

    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "check.crcs": True,
        "session.timeout.ms": session_ms,
        "partition.assignment.strategy": "roundrobin",
    }
    return Consumer({**settings, **connection}, logger=LOG)


def make_producer(
    connection: Mapping[str, Any], transactional_id: str | None, transaction_ms: int
) -> Producer:
    """A producer that writes in order without gaps; transactional if it has a transactional id."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 5}
    if transactional_id is None:
        # A producer that drops a record sends the next one, and readers mistake it for the first.
        settings |= {"message.timeout.ms": NEVER, "enable.gapless.guarantee": True}
    else:
        settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": transaction_ms}
    return Producer({**settings, **connection}, logger=LOG)


def transactional_id(guarantee: Guarantee, group: str, member: str) -> str | None:
    """The transactional id of a member; None if it needs no id."""
    return f"{group}-{member}" if guarantee is Guarantee.EXACTLY_ONCE else None


def read_stretch(
    connection: Mapping[str, Any], partition: TopicPartition, start: int | None, end: int | None
) -> Iterator[Message]:
    """The committed records of ``[start, end)``; by default from the log start to the log end.

    Raises:
        Unreachable: no record arrives in time.
        ClusterError: the broker refuses.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer
    from confluent_kafka import TopicPartition as Asked

    settings = {
        "group.id": "breakglass-replay",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "check.crcs": True,
    }
    at = OFFSET_BEGINNING if start is None else start
    with closing(Consumer({**settings, **connection}, logger=LOG)) as consumer:
        consumer.assign([Asked(partition.topic, partition.partition, at)])
        while True:
            message = consumer.poll(patience.COMMAND)
            if message is None:
                raise Unreachable(f"{partition} cannot be read: see that its leader is there")
            if at_end(message):
                return
            offset = message.offset()
            if end is not None and offset is not None and offset >= end:
                return
            yield message


def at_end(message: Message) -> bool:
    """Whether the message marks the end of the log.

    Raises ClusterError: the message reports an error.
    """
    error: KafkaError | None = message.error()
    if error is None:
        return False
    if error.name() == "_PARTITION_EOF":
        return True
    raise ClusterError(f"{message.topic()} cannot be read ({error.str()}): see the broker's log")


def input_of(message: Message) -> Input:
    """The input record in *message*."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    kind, stamp = message.timestamp()
    return Input(
        TopicPartition(topic, partition),
        offset,
        _bytes(message.key()),
        _bytes(message.value()),
        tuple((pair[0], _bytes(pair[1])) for pair in message.headers() or ()),
        stamp if kind else None,
    )


def _bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes) else None


BATCH = 500


@dataclass(frozen=True, slots=True)
class Membership:
    """The group and topics of a member."""

    connection: Mapping[str, Any]
    """confluent-kafka's settings: bootstrap servers and authentication."""
    group: str
    topics: tuple[str, ...]
    member: str
    """Distinguishes this member from others; unchanged when it is restarted."""
    guarantee: Guarantee
    control_topic: str = CONTROL_TOPIC
    batch: int = BATCH
    """Maximum number of records that are committed together."""
    session_ms: int = 10_000
    """Timeout after which the group reassigns the partitions of a dead member."""
    transaction_ms: int = 20_000
    """Timeout after which a dead member's transaction is aborted: it hides later records."""


@dataclass(frozen=True, slots=True)
class Starting:
    """The cluster's content when a member started."""

    topic_ids: Mapping[str, str]
    control: Control

    def position(self, committed: Offset) -> InputPosition:
        """The position in a partition, from what the group has *committed* on it.

        After a restore no id is committed with the offset. The restore's own id then counts, so
        that older records of the topic do not force a checkpoint again.
        """
        partition = TopicPartition(committed.topic, committed.partition)
        topic_id = self.topic_ids[partition.topic]
        restored = self.control.restored.get(topic_id)
        checkpoint = CheckpointState(sn_of(committed.metadata))
        if restored is not None:
            created = CheckpointRecord(Intent.CREATED, restored.id, committed.offset)
            checkpoint = replay(checkpoint, created)
        return InputPosition(partition, topic_id, committed.offset, checkpoint, restored)

    def replay(self, member: Membership, application: Application, position: InputPosition) -> None:
        """Bring the application to its state at *position*: from its saved state, or from the log.

        Records before a saved state are read only to learn their writers, and only if the state
        does not list the writers, as after a restore: an at-least-once writer may write these
        records again.

        Raises Unreachable, ClusterError: the log cannot be read.
        """
        # The last state that was saved at or before the position.
        key = (member.group, position.topic_id, position.partition.partition)
        saved = self.control.created.get(key)
        if saved is not None and (saved.state is None or saved.position > position.next_offset):
            saved = None
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


def read_starting(
    connection: Mapping[str, Any], topics: Sequence[str], control_topic: str
) -> Starting:
    """Read the cluster's current content.

    Raises:
        UsageError: a topic does not exist.
        Unreachable: no broker answers.
    """
    ids = _topic_ids(connection, [*topics, control_topic])
    absent = sorted(set(topics) - set(ids))
    if absent:
        raise UsageError(f"There is no topic {', '.join(absent)}: make it first.")
    control = Control()
    if control_topic in ids:
        records = read_stretch(connection, TopicPartition(control_topic, 0), None, None)
        told = (input_of(record) for record in records)
        control = control_of((input_.key, input_.value) for input_ in told)
    return Starting(ids, control)


def _topic_ids(connection: Mapping[str, Any], topics: Sequence[str]) -> dict[str, str]:
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(dict(connection), logger=LOG)
    futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=patience.COMMAND)
    found: dict[str, str] = {}
    for name, future in futures.items():
        try:
            # The hexadecimal form of a Uuid, which Kafka writes in base 64.
            found[name] = base64.urlsafe_b64decode(
                f"{future.result(patience.COMMAND).topic_id}=="
            ).hex()
        except KafkaException as error:
            if error.args[0].name() not in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
                raise Unreachable(f"topics cannot be described ({error.args[0].str()})") from None
    return found


POLL_SECONDS = 0.2
PAUSE_SECONDS = 0.5
"""Delay before a member restarts after an error."""
NO_STAMP = Stamp(0, None)
"""For records whose writer is no participant: they force no checkpoint."""


def run(
    membership: Membership,
    application: Application,
    stopped: Callable[[], bool],
    failed: Callable[[str], None] = lambda _: None,
) -> None:
    """Take part until *stopped*; after an error the member restarts from its committed offsets.

    *failed* receives each error as text.
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
    """One group member; it runs in a single thread."""

    def __init__(self, membership: Membership, application: Application) -> None:
        self._as, self._application = membership, application
        self._positions: dict[TopicPartition, InputPosition] = {}
        self._dirty = False
        """Records were processed that are not committed yet."""
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
        """Process the records of the next *seconds* as one batch; returns their number.

        Raises KafkaException, BreakglassError: restart the member; uncommitted work is void.
        """
        messages = self._consumer.consume(self._as.batch, seconds)
        if self._failure is not None:
            raise self._failure
        taken = []
        for message in messages:
            error: KafkaError | None = message.error()
            if error is None:
                taken.append(message)
            elif error.fatal() or not (error.retriable() or error.name().startswith("_")):
                # Raises ClusterError: the error is permanent.
                at_end(message)
        for message in taken:
            self._take(input_of(message))
        self._commit()
        return len(taken)

    def close(self) -> None:
        """Leave the group; another member processes again what was not committed."""
        from confluent_kafka import KafkaException

        if self._as.guarantee is Guarantee.EXACTLY_ONCE:
            with suppress(KafkaException):
                self._producer.abort_transaction(patience.COMMAND)
        self._consumer.close()
        self._positions.clear()

    def _take(self, record: Input) -> None:
        position = self._positions[record.partition]
        stamp = stamp_of(record.headers) or NO_STAMP
        self._come_to(stamp.sn, position)
        if not stamp.marker and position.known.take(stamp):
            for index, output in enumerate(self._application.process(record)):
                cause, source = position.causes(record.offset, index, self._as.group)
                self._writer.write(output, stamped(position.sn, cause, source))
        position.next_offset = record.offset + 1
        self._dirty = True

    def _come_to(self, id: int, position: InputPosition) -> None:
        """Do what the protocol requires before a record with this *id*; mostly nothing."""
        after, effects = protocol.read(position.checkpoint, id, position.next_offset)
        state: bytes | None = None
        for effect in effects:
            match effect:
                case protocol.TakeCopy():
                    # Finish the records before the checkpoint, so that the state contains all of
                    # them.
                    self._commit()
                    state = self._application.save(position.partition)
                case protocol.AppendFollowUp(record):
                    # The control topic gets the event with the state that was saved for it.
                    created = Created(
                        self._as.group,
                        position.topic_id,
                        position.partition.partition,
                        record.id,
                        record.position,
                        state,
                        None if state is None else position.known.lasts,
                    )
                    key, value = created.record
                    self._notes.send(Output(self._as.control_topic, value, key, partition=0), [])
                    self._notes.flush()
                case protocol.Acknowledge():
                    pass  # The coordinator reads its markers itself: no participant answers.
        position.checkpoint = after

    def _commit(self) -> None:
        if self._dirty:
            self._writer.commit(self._positions.values())
            self._dirty = False

    def _assigned(self, consumer: Consumer, partitions: list[Offset]) -> None:
        """Runs within `step`; librdkafka would drop an exception, so the callback stores it."""
        from confluent_kafka import KafkaException

        try:
            self._begin(consumer, partitions)
        except (KafkaException, BreakglassError) as error:
            self._failure = error

    def _begin(self, consumer: Consumer, partitions: Sequence[Offset]) -> None:
        committed = consumer.committed(list(partitions), patience.COMMAND) if partitions else []
        new = []
        for partition in committed:
            if partition.error is not None:
                raise ClusterError(
                    f"{partition.topic}-{partition.partition}: {partition.error.str()}"
                )
            position = self._starting.position(partition)
            if partition.offset < 0:
                position.next_offset = consumer.get_watermark_offsets(partition, patience.COMMAND)[
                    0
                ]
                new.append(position)
            self._starting.replay(self._as, self._application, position)
            self._positions[position.partition] = position
            partition.offset = position.next_offset
        # Commit empty partitions too, so that a checkpoint knows that the group reads them.
        consumer.assign(committed)
        commit_offsets(consumer, new)

    def _revoked(self, _: Consumer, partitions: list[Offset]) -> None:
        for partition in partitions:
            found = self._positions.pop(TopicPartition(partition.topic, partition.partition), None)
            if found is not None:
                self._application.end(found.partition)
