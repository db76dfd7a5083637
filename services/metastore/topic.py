"""Reads a command topic's current id, settings and log range, and judges its dangers.

A consumer notices no change of these (M4, M5), so a separate connection reads them. A setting is
the effective value with its source; a setting that the topic lacks is the broker's default.

Reads the committed commands of a command topic in order, by polls or by whole fetches.

Whole fetches yield commands as columns of the broker's answer. `TopicReader` reads what this
cannot: batches of older message formats, and everything after a broker that did not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import (
    ClusterError,
    EvidenceChanged,
    LogTruncated,
    TimedOut,
    TopicRecreated,
    Unreachable,
)
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.cluster.settings import MIN_ISR, TOPIC_RESOURCE
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.wire.answers import UNKNOWN_TOPIC_OR_PARTITION, cluster_error, only
from breakglass.services.kafka.wire.deadline import LONGEST_PAUSE_SECONDS, NEVER, Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.metastore.events import Event
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.record_batches import Record

if TYPE_CHECKING:
    from breakglass.services.metastore.columns import CommandColumns
    from breakglass.services.pipeline.batches.reader import FetchedBatches
    from breakglass.services.pipeline.committed_log import CommittedLog

PARTITION = 0
RETENTION_TIME, RETENTION_BYTES, CLEANUP = "retention.ms", "retention.bytes", "cleanup.policy"
WATCHED = (RETENTION_TIME, RETENTION_BYTES, CLEANUP, MIN_ISR)

SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster default",
    4: "broker's file",
    5: "Kafka's default",
    7: "client metrics",
    8: "group",
}
"""The source of a setting (DescribeConfigsResponse.ConfigSource)."""


class Setting(NamedTuple):
    """The effective value, and its source."""

    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class TopicState:
    """The state of an existing command topic."""

    topic_id: str
    leader: int | None
    partitions: int
    settings: Mapping[str, Setting]
    log_start: int | Unknown
    stable_end: int | Unknown
    """The offset after the last record that read_committed consumers get."""
    replicas: int = 0
    leader_epoch: int = -1


def read_topic_state(sender: Sender, topic: str, deadline: Deadline) -> TopicState | None:
    """Read *topic*; None if it does not exist.

    If the leader does not answer, only the values that it alone knows are Unknown.

    Raises:
        Unreachable: no broker answers.
        NotAuthorized, ClusterError: the user is not authorized to describe the topic.
    """
    partitions = read_partitions(sender, deadline, [topic])
    if not partitions:
        return None
    first = partitions[0]
    settings = read_settings(sender, topic, deadline)
    if settings is None:
        return None
    start, end = _extent(sender, topic, first.leader, deadline.sooner(patience.LEADER))
    return TopicState(
        str(first.topic_id),
        first.leader,
        len(partitions),
        settings,
        start,
        end,
        len(first.assignment),
        first.leader_epoch,
    )


def _extent(
    sender: Sender, topic: str, leader: int | None, deadline: Deadline
) -> tuple[int | Unknown, int | Unknown]:
    """The log start and the end of what consumers can read, from the leader."""
    if leader is None:
        unknown = Unknown("the topic has no leader")
        return unknown, unknown
    try:
        start = offset_at(sender, topic, leader, EARLIEST, deadline)
        return start, stable_end(sender, topic, leader, deadline)
    except Unreachable as error:
        unknown = Unknown(f"b{leader}, which leads the topic, cannot be asked: {error}")
        return unknown, unknown


def read_settings(sender: Sender, topic: str, deadline: Deadline) -> dict[str, Setting] | None:
    """The effective watched settings of *topic*; None if it does not exist.

    Raises: Unreachable, NotAuthorized, ClusterError.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(TOPIC_RESOURCE, [topic], list(WATCHED))
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    result = only(answer.results, sender.name(ANY_BROKER))
    if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if result.error_code:
        doing, needs = f"reading the settings of {topic}", f"DESCRIBE_CONFIGS on topic {topic}"
        raise cluster_error(result.error_code, doing, needs, result.error_message)
    return {
        config.name: Setting(config.value, SOURCES.get(config.config_source, "unknown"))
        for config in result.configs
    }


def offset_at(
    sender: Sender, topic: str, leader: int, which: int, deadline: Deadline
) -> int | Unknown:
    """The log start (EARLIEST), or the last stable offset (LATEST), from the leader.

    Raises: Unreachable.
    """
    partition = TopicPartition(topic, PARTITION)
    told = list_offsets(
        sender,
        leader,
        [partition],
        which,
        deadline,
        replica_id=LEADER_ONLY,
        isolation_level=READ_COMMITTED,
    )[partition]
    return told if isinstance(told, OffsetError) else told.offset


def stable_end(sender: Sender, topic: str, leader: int, deadline: Deadline) -> int | Unknown:
    """The offset after the last record for read_committed consumers. Raises: Unreachable."""
    return offset_at(sender, topic, leader, LATEST, deadline)


def topic_id_at(sender: Sender, topic: str, leader: int, deadline: Deadline) -> str | None:
    """The leader's own id of *topic*, of which it serves the records; None: no such topic.

    Raises: Unreachable, ClusterError.
    """
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    wanted: Any = MetadataRequest.MetadataRequestTopic(name=topic)
    request = MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
    told = only(sender.call(leader, request, MetadataResponse, deadline).topics, f"b{leader}")
    if told.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if told.error_code:
        raise cluster_error(
            told.error_code, f"describing topic {topic}", f"DESCRIBE on topic {topic}"
        )
    if not isinstance(told.topic_id, UUID) or not told.topic_id.int:
        raise ClusterError(
            f"the brokers tell no id of topic {topic}, so a recreated one cannot be "
            "distinguished from it: Kafka 2.8 or newer is needed"
        )
    return str(told.topic_id)


FOREVER = "-1"
DELETE_POLICY = "delete"


class Danger(StrEnum):
    """The kind of a danger."""

    RETENTION_TIME = "retention.ms"
    RETENTION_BYTES = "retention.bytes"
    CLEANUP_POLICY = "cleanup.policy"
    RECORDS_DELETED = "records deleted"
    TOPIC_MISSING = "topic missing"
    TOPIC_RECREATED = "topic recreated"
    PARTITIONS = "partitions"
    WATCH_BLIND = "watch blind"
    LOG_CUT = "log cut"


@dataclass(frozen=True, slots=True)
class Alarm(Event):
    """An event that loses commands, or has already lost them."""

    kind: ClassVar[str] = "alarm"
    danger: Danger
    message: str
    evidence: dict[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.message


def log_cut(topic: str, what: str) -> Alarm:
    """The alarm for a log that lost commands after they were read."""
    return Alarm(
        Danger.LOG_CUT,
        f"the log of topic {topic} was cut back at an election, and what was cut off was in the "
        f"backup: {what}. Compare topic and backup before a ksqlDB server starts",
    )


def dangers(state: TopicState | None, topic: str, topic_id: str | None) -> Iterator[Alarm]:
    """The dangers of *topic*; *topic_id* is its expected id.

    None: any; then a topic that does not exist is no danger, for its name may be a mistake.
    """
    if state is None:
        if topic_id is None:
            return
        yield Alarm(
            Danger.TOPIC_MISSING,
            f"topic {topic} is gone: stop every ksqlDB server of the service before one creates it "
            "empty, then `breakglass ksql restore`",
            {"topic_id": topic_id},
        )
        return
    if topic_id is not None and state.topic_id != topic_id:
        yield Alarm(
            Danger.TOPIC_RECREATED,
            f"topic {topic} was deleted and created again: its id is {state.topic_id}, and the "
            f"backup is of {topic_id}",
            {"topic_id": state.topic_id, "before": topic_id},
        )
    wanted = (
        (RETENTION_TIME, FOREVER, Danger.RETENTION_TIME),
        (RETENTION_BYTES, FOREVER, Danger.RETENTION_BYTES),
        (CLEANUP, DELETE_POLICY, Danger.CLEANUP_POLICY),
    )
    for name, good, danger in wanted:
        held = state.settings.get(name)
        if held is not None and held.value is not None and held.value != good:
            yield _unsafe(topic, name, held, good, danger)
    yield from _log(state, topic)


def _unsafe(topic: str, name: str, held: Setting, good: str, danger: Danger) -> Alarm:
    does = "keeps the last command of each id alone" if name == CLEANUP else "removes commands"
    return Alarm(
        danger,
        f"topic {topic} has {name}={held.value} ({held.source}), which {does}: set it to {good}",
        {"setting": name, "value": held.value, "source": held.source},
    )


def _log(state: TopicState, topic: str) -> Iterator[Alarm]:
    start = state.log_start
    if isinstance(start, int) and start > 0:
        yield Alarm(
            Danger.RECORDS_DELETED,
            f"topic {topic} begins at offset {start:,}: what was before was deleted, so a server "
            "that starts now rebuilds something else",
            {"log_start": start},
        )
    if state.partitions != 1:
        yield Alarm(
            Danger.PARTITIONS,
            f"topic {topic} has {state.partitions} partitions and a command topic has one: only "
            "partition 0 is read",
            {"partitions": state.partitions},
        )


CHUNK_BYTES = 1024 * 1024
DECODED_BYTES = 64 * 1024 * 1024
"""Commands of one answer that are taken at once, without their last batch."""
NO_EPOCH = -1
AGAIN_SECONDS = 0.1
"""Pause before a leader that could not answer is looked for again."""


class LogCut(ClusterError):
    """The next offset is no longer in the log: records were deleted, or the topic was replaced."""

    passes = True


@dataclass(frozen=True, slots=True)
class PolledCommands:
    """The result of one `poll`."""

    records: Sequence[CommandRecord]
    at_end: bool
    """All records that were committed at the time of the poll have been read."""
    next_offset: int
    """The next offset to read, after transaction markers and aborted commands."""
    leader_epoch: int = -1
    """The newest leader epoch of the records; -1 if the log has no epochs."""


class TopicReader:
    """Reads as a read_committed consumer without a group, which commits nothing.

    The CRC of each batch is checked, and each request names the leader epoch that was read last, so
    that a log that was cut back is noticed.
    """

    def __init__(
        self,
        client: ReadClient,
        topic: str,
        start: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*start* is an offset; None: the log start."""
        self._client, self._topic, self._clock = client, topic, clock
        self._partition = TopicPartition(topic, PARTITION)
        self._log: CommittedLog | None = None
        self._next, self._epoch, self._size = start, NO_EPOCH, CHUNK_BYTES
        self._failing_since: float | None = None

    def through(self, client: ReadClient) -> None:
        """Read on by *client*."""
        self._client, self._log = client, None

    def poll(self, seconds: float, deadline: Deadline = NEVER) -> PolledCommands:
        """The commands of one answer, for which the leader waits up to *seconds*.

        Raises:
            LogCut: the log no longer contains the next offset.
            NotAuthorized: READ on the topic is missing.
            Unreachable: the brokers do not answer.
            ClusterError: any other error, such as a damaged batch.
        """
        try:
            polled = self._ask(seconds, deadline)
        except EvidenceChanged as error:
            raise LogCut(
                f"topic {self._topic} does not have offset {self._next or 0:,} any more ({error}): "
                "it was cut or created again, so it has to be read from its beginning"
            ) from error
        except Unreachable as error:
            # A new leader is looked for, but only until a deadline.
            now = self._clock()
            self._failing_since = self._failing_since or now
            if not error.retriable or now - self._failing_since > patience.CONSUMER:
                raise
            self._log = None
            failing = min(max(now - self._failing_since, AGAIN_SECONDS), LONGEST_PAUSE_SECONDS)
            time.sleep(min(failing, deadline.remaining()))
            return PolledCommands((), False, self._next or 0)
        self._failing_since = None
        return polled

    def position(self) -> int:
        """The next offset to read, after markers and aborted commands that were passed."""
        return self._next or 0

    def _ask(self, seconds: float, deadline: Deadline) -> PolledCommands:
        log, at = self._leaders_log(deadline.sooner(patience.REQUEST))
        fetched = log.fetch(
            at,
            self._size,
            READ_COMMITTED,
            deadline.sooner(patience.REQUEST + seconds),
            wait_ms=int(seconds * 1000),
            epoch=self._epoch,
        )
        # An answer without a whole batch is the beginning of a larger one.
        cut = fetched.cut and not fetched.batches
        self._size = max(2 * self._size, fetched.cut) if cut else CHUNK_BYTES
        records: list[CommandRecord] = []
        taken = 0
        for batch in fetched.batches:
            found = batch.records(log.where)
            # A batch may begin before the offset that was asked for.
            records += [_record(one) for one in found if one.offset >= at]
            self._next = batch.header.next_offset
            self._epoch = max(self._epoch, batch.header.leader_epoch)
            taken += sum([len(one.key or b"") + len(one.value or b"") for one in found])
            if taken > DECODED_BYTES:
                # What is left of the answer is asked for again: its batches were compressed.
                break
        now = self._next or at
        return PolledCommands(records, now >= fetched.end, now, self._epoch)

    def _leaders_log(self, deadline: Deadline) -> tuple[CommittedLog, int]:
        """The log on its current leader, and the next offset to read."""
        from breakglass.services.pipeline.committed_log import CommittedLog

        sender = self._client.sender
        if self._log is None:
            self._client.describe(deadline)
            states = read_partitions(sender, deadline, [self._topic])
            if not states or states[0].leader is None:
                raise TimedOut(f"topic {self._topic} has no leader: try again", "no leader")
            self._log = CommittedLog(sender, states[0].leader, self._partition)
        if self._next is None:
            start = offset_at(sender, self._topic, self._log.leader, EARLIEST, deadline)
            if isinstance(start, Unknown):
                raise TimedOut(f"topic {self._topic} cannot be read ({start.reason}): try again")
            self._next = start
        return self._log, self._next


def _record(record: Record) -> CommandRecord:
    """*record* with the names of its headers as text."""
    headers = tuple([(name.decode("utf-8", "replace"), value) for name, value in record.headers])
    return CommandRecord(record.offset, record.key, record.value, record.timestamp, headers)


WORTHWHILE = 20_000
"""The number of offsets from which on fetches are worth the start of NumPy and Arrow."""
FOR_COLUMNS = ("numpy", "pyarrow")
"""Packages of the extra `pipeline`; without them the consumer reads everything."""
NO_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StableLog:
    """The range that whole fetches read: committed commands in ``[start, end)``."""

    topic: str
    topic_id: str
    leader: int
    leader_epoch: int
    start: int
    end: int

    @property
    def worthwhile(self) -> bool:
        """Whether whole fetches should read the log."""
        return worthwhile(self.end - self.start)


def worthwhile(offsets: int) -> bool:
    """Whether the range is long enough for whole fetches, and their packages are installed."""
    return offsets >= WORTHWHILE and all(map(find_spec, FOR_COLUMNS))


def stable_log(topic: str, state: TopicState) -> StableLog | None:
    """The log of *topic* that consumers can read now; None if a part of it is unknown."""
    start, end = state.log_start, state.stable_end
    if state.leader is None or isinstance(start, Unknown) or isinstance(end, Unknown):
        return None
    return StableLog(topic, state.topic_id, state.leader, state.leader_epoch, start, end)


def whole_fetches(client: ReadClient, log: StableLog) -> Generator[PolledCommands, None, None]:
    """The commands of *log*, as far as whole fetches can read them.

    Raises LogCut: the topic was replaced, or its log was truncated during the read.
    """
    if not log.worthwhile:
        return
    from breakglass.services.pipeline.batches.reader import BatchReader
    from breakglass.services.pipeline.batches.table import NotByColumns

    reader = BatchReader(
        client,
        TopicPartition(log.topic, PARTITION),
        UUID(log.topic_id),
        log.leader,
        log.leader_epoch,
        seconds=patience.LOOK,
    )
    at = log.start
    try:
        with closing(reader.fetches(at, log.end)) as fetches:
            for fetched in fetches:
                for batch in _batches(fetched, at):
                    at = batch.next_offset
                    yield batch
    except (LogTruncated, TopicRecreated) as error:
        raise LogCut(str(error)) from error
    except (NotByColumns, ClusterError, Unreachable):
        return


def commands_in(fetched: FetchedBatches, start: int) -> Iterator[CommandColumns]:
    """The committed commands of *fetched* from the offset *start* on; never an empty batch.

    Raises:
        NotByColumns: `TopicReader` must read them.
        MalformedMessage: the bytes are not record batches.
    """
    from breakglass.services.metastore.columns import CommandColumns
    from breakglass.services.pipeline.batches.reader import columns_in

    for columns in columns_in(fetched, start, NO_END):
        yield CommandColumns.of(columns)


def _batches(fetched: FetchedBatches, start: int) -> Iterator[PolledCommands]:
    """The commands of *fetched*; the last batch's next offset follows all of *fetched*."""
    last = fetched.last
    before: Sequence[CommandRecord] = ()
    for commands in commands_in(fetched, start):
        if before:
            yield PolledCommands(before, False, before[-1].offset + 1, last.epoch)
        before = commands
    yield PolledCommands(before, False, max(start, last.next_offset), last.epoch)
