"""Shared values: partitions, offsets, epochs, replicas. Frozen, without I/O.

Offsets and counts are in records, times in milliseconds since the epoch (UTC),
durations in seconds unless a name ends in ``_ms``. A value that could not be read
is an `Unknown` with its reason, never 0 and never -1.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard, TypeVar
from uuid import UUID

from breakglass.services.quick_values import quickly_made

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that could not be read."""

    reason: str
    """Why, in words an operator understands: ``b3 does not answer (connection refused)``."""


@dataclass(frozen=True, slots=True)
class Denied(Unknown):
    """A value that an ACL keeps from this user."""

    needs: str
    """The ACL that would show it: ``READ on topic orders``."""


@dataclass(frozen=True, slots=True)
class Silent(Unknown):
    """A value whose source did not answer for as long as could be waited."""


@dataclass(frozen=True, slots=True)
class NotOffered(Unknown):
    """A value that no request of this cluster asks for."""


@dataclass(frozen=True, slots=True)
class Forfeited(Unknown):
    """A log not worth waiting for: when last read it would have destroyed what others hold."""


def known(value: T | Unknown) -> TypeGuard[T]:
    """Whether *value* was read."""
    return not isinstance(value, Unknown)


@quickly_made
@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition by name; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def legal_topic(name: str) -> bool:
    """Whether Kafka allows *name* for a topic. Source: Topic.java, validate."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = (
    TRANSACTION_STATE,
    "__consumer_offsets",
    "__share_group_state",
    "__remote_log_metadata",
)
"""Topics that other partitions' recovery depends on, in the order they are recovered (R17)."""


class Role(StrEnum):
    """What the controller's metadata says of a replica (KIP-966)."""

    __hash__ = str.__hash__

    ISR = "isr"
    ELR = "elr"
    LAST_KNOWN_ELR = "last"
    """Recorded as the last leader when ISR and ELR ran empty; elected as soon as it is unfenced."""
    STALE = "stale"
    """In the assignment, in none of the above: only an unclean election can choose it."""


class FigureSource(StrEnum):
    """Where a replica's log figures were read."""

    NATIVE = "GetReplicaLogInfo"
    STOCK = "ListOffsets/-2 + Fetch/-3"
    NONE = "none"


@quickly_made
@dataclass(frozen=True, slots=True)
class EpochRange:
    """The offsets ``[start, end)`` that one leader epoch wrote in one replica's log."""

    epoch: int
    start: int
    end: int

    @property
    def empty(self) -> bool:
        """True for a leader that was elected and wrote nothing."""
        return self.end <= self.start


@quickly_made
@dataclass(frozen=True, slots=True)
class EpochHistory:
    """Written leader epochs of one replica, oldest first, without empty ranges.

    Sources: the leader epoch cache that ``Fetch`` answers from in its DivergingEpoch (KIP-595),
    LeaderEpochFileCache.endOffsetFor.
    """

    ranges: tuple[EpochRange, ...]
    complete_from: int
    """Offset from which the history is known; older epochs were not asked for."""

    @property
    def last_written(self) -> int | None:
        """The highest epoch that holds records; None for a log without records."""
        return self.ranges[-1].epoch if self.ranges else None

    def epoch_at(self, offset: int) -> int | None:
        """The epoch that wrote *offset*, or None outside the known history."""
        for held in reversed(self.ranges):
            if held.start <= offset < held.end:
                return held.epoch
        return None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment under way (ListPartitionReassignments)."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The topic settings that decide what an election does."""

    min_insync_replicas: int | Unknown
    unclean_election: bool | Unknown
    compacted: bool | Unknown
    tiered: bool | Unknown = False


@quickly_made
@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition as the controller's metadata has it (DescribeTopicPartitions)."""

    partition: TopicPartition
    topic_id: UUID
    leader: int | None
    """None: offline."""
    leader_epoch: int
    assignment: tuple[int, ...]
    """Replica ids in the controller's order."""
    isr: tuple[int, ...]
    elr: tuple[int, ...] | Unknown
    last_known_elr: tuple[int, ...] | Unknown
    offline_replicas: tuple[int, ...] = ()
    reassignment: Reassignment | None | Unknown = None

    @property
    def offline(self) -> bool:
        return self.leader is None

    def role(self, broker: int) -> Role:
        """The role of *broker*; Unknown ELR sets (before Kafka 4.0) count as empty."""
        if broker in self.isr:
            return Role.ISR
        elr, last = self.elr, self.last_known_elr
        if elr and not isinstance(elr, Unknown) and broker in elr:
            return Role.ELR
        if last and not isinstance(last, Unknown) and broker in last:
            return Role.LAST_KNOWN_ELR
        return Role.STALE


@quickly_made
@dataclass(frozen=True, slots=True)
class LogDir:
    """The log directory of one replica (DescribeLogDirs, R21)."""

    path: str
    online: bool
    size: int | Unknown
    """Bytes."""
    future: bool = False
    """The copy of a move between directories that has not finished."""
    copy: LogDir | None = None
    """That copy, beside the log itself."""
    behind: int | Unknown = 0
    """Of a copy: offsets of the log that it lacks; negative where it is ahead of the log."""


@quickly_made
@dataclass(frozen=True, slots=True)
class LogContents:
    """How far the record batches of one replica were read, newest first, and found whole.

    Whole: the header makes sense, the CRC-32C matches, offsets follow each other and leader
    epochs rise. The records inside were not looked at.
    """

    verified_from: int
    """Whole from this offset on, up to `verified_to`; older batches were not read."""
    verified_to: int
    """The log end offset, or where the reading stopped: at `corrupt_at` if that is known."""
    corrupt_at: int | None = None
    """Lowest offset found from which the broker cannot give whole batches; consumers stop here."""
    damage: str = ""
    """What is wrong there."""
    bytes_read: int = 0
    stopped: str = ""
    """Why the rest was not read; empty where the reading reached the log's start."""


CONTENTS_UNREAD = Unknown("its contents were not read")


@quickly_made
@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The log of one replica of one partition, or why the log is not known."""

    broker: int
    role: Role
    fenced: bool | Unknown
    reachable: bool
    """The broker answered us; the controller's view (*fenced*) may differ (R16)."""
    log_start: int | Unknown
    """First offset of the log; on a tiered topic the first local one."""
    high_watermark: int | Unknown
    """As this replica last heard it; Unknown when 0 on a log with records (R9)."""
    log_end: int | Unknown
    """Log end offset: the next offset to be written."""
    leader_epoch: int | Unknown
    """The partition's current leader epoch as the broker knows it; it does not rank."""
    epochs: EpochHistory | Unknown
    """Written epochs; the last one ranks (R8)."""
    newest_ms: int | None | Unknown
    """Timestamp of the newest batch; None for a log without records."""
    log_dir_online: bool | Unknown = Unknown("log directories were not read")
    log_dir: LogDir | Unknown = Unknown("log directories were not read")
    only_copy: LogDir | None = None
    """The copy of an unfinished move, where no online directory holds the log itself (R21)."""
    source: FigureSource = FigureSource.NONE
    observed_at_ms: int = 0
    contents: LogContents | Unknown = CONTENTS_UNREAD
    """How far its record batches were read and found whole."""
    last_heard: ReplicaLog | None = None
    """What an unread replica reported earlier, while the partition was as it is now: an upper bound
    of that log (`services.recovery.evidence.contents`), never a reading of now."""

    @property
    def corrupt_at(self) -> int | None:
        """The lowest offset known to be corrupt; None where none is known to be."""
        contents = self.contents
        return contents.corrupt_at if isinstance(contents, LogContents) else None

    @property
    def last_written_epoch(self) -> int | None | Unknown:
        """The epoch that ranks; None for a log without records."""
        epochs = self.epochs
        if isinstance(epochs, Unknown):
            return epochs
        return epochs.ranges[-1].epoch if epochs.ranges else None

    @property
    def empty(self) -> bool:
        """Known to hold no record."""
        return known(self.log_end) and known(self.log_start) and self.log_end <= self.log_start


@quickly_made
@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """Everything read about one partition: the input of ranking, loss and verdict."""

    state: PartitionState
    replicas: tuple[ReplicaLog, ...]
    """One for each replica of the assignment, in its order."""
    settings: TopicSettings
    unread_floor: int | Unknown = Unknown("no bound is known")
    """Highest offset known from elsewhere: a high watermark, a committed group offset (R11)."""
    unread_floor_source: str = ""
    """The source: ``high watermark of b2``, ``group billing``."""
    group_offsets: Mapping[str, int] | Unknown = Unknown("consumer groups were not read")
    """Committed offset by group (R19)."""
    unregistered: tuple[int, ...] = ()
    """Brokers of the assignment that the cluster does not know (R12)."""
    groups_unread: tuple[str, ...] = ()
    """Which groups *group_offsets* may lack, each with the reason (R33)."""

    @property
    def partition(self) -> TopicPartition:
        return self.state.partition

    def replica(self, broker: int) -> ReplicaLog | None:
        """The replica on *broker*, if it is assigned there."""
        for log in self.replicas:
            if log.broker == broker:
                return log
        return None


def java_hash(text: str) -> int:
    """String.hashCode, as an unsigned number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def log_of(key: str, topic: str, partitions: int) -> TopicPartition:
    """The partition of an internal *topic* that has a group or a transactional id."""
    # Utils.abs(hashCode) % partitions, where the sign bit alone becomes 0.
    value = java_hash(key)
    value = value - 2**32 if value >= 2**31 else value
    return TopicPartition(topic, (0 if value == -(2**31) else abs(value)) % partitions)


def kafka_id(value: UUID | None) -> str:
    """The id of a topic or a directory as Kafka writes it."""
    return base64.urlsafe_b64encode((value or UUID(int=0)).bytes).decode().rstrip("=")
