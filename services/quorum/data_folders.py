"""Compares the state of a cluster by a copy of the metadata with brokers' own log folders.

A controller that starts from an older copy does not know what brokers have on disk: it makes strays
of topics that are too new for it (Q9), elects replicas that had left the ISR (Q11), and gives out
leader epochs and producer ids that are in the logs already (Q12, Q13).

`mend` makes the records that tell it what is on disk: topics by the ids in their folders, and as
ISR the replicas whose logs go furthest. Settings, ACLs and users are in no data folder.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from breakglass.services.divergence.log_source import LogSource, open_log
from breakglass.services.errors import BreakglassError, MalformedMessage
from breakglass.services.model import TopicPartition, Unknown, kafka_id
from breakglass.services.quorum.image import TOPIC_SETTINGS, Key, PartitionMetadata
from breakglass.services.quorum.metadata_copy import LogPosition
from breakglass.services.recovery.rescue.broker_folder import (
    CLEAN_SHUTDOWN,
    EPOCHS,
    REACHED,
    BrokerFolder,
    ReplicaFolder,
    checkpoint_offsets,
)
from breakglass.services.regular_file import open_regular, read_regular
from breakglass.services.words.moments import time_text

HIGH_WATERMARKS = REACHED[0]
MOST_BYTES = 64 * 1024 * 1024
SNAPSHOT_HEAD = struct.Struct(
    ">h"  # Version         => int16
    "I"  # CRC             => uint32   CRC-32C of everything after this field
    "i"  # ProducerEntries => int32
)
PRODUCER_ENTRY = struct.Struct(
    ">q"  # ProducerId            => int64
    "h"  # ProducerEpoch         => int16
    "i"  # LastSequence          => int32
    "q"  # LastOffset            => int64
    "i"  # OffsetDelta           => int32
    "q"  # Timestamp             => int64
    "i"  # CoordinatorEpoch      => int32
    "q"  # CurrentTxnFirstOffset => int64
)
"""Source: ProducerStateManager.java."""
COVERED_AT = 6
TIME_ENTRY_BYTES = 12


EPOCHS_ABOVE = 100
"""A log that was not read may have later leader epochs than those that were."""
PARTITION_EPOCHS_ABOVE = 1_000
UNASSIGNED = UUID(int=0)


class FoundReplica(NamedTuple):
    """A replica in a data folder, and how far its log goes."""

    broker: int
    path: Path
    partition: TopicPartition
    topic_id: UUID
    end: LogPosition
    epoch: int
    """The last leader epoch that its checkpoint names; records may lack it."""
    newest_ms: int = -1
    """The latest timestamp in its last segment with a batch; -1: it has none."""
    start: int = 0


class StrayFolder(NamedTuple):
    """A replica that its broker would rename to ``-stray`` when it starts."""

    broker: int | None
    path: Path
    partition: TopicPartition
    why: str
    topic_id: UUID

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class OldEpoch(NamedTuple):
    """A partition whose log has a leader epoch that the copy's controller would give out again."""

    partition: TopicPartition
    copy: int
    log: int
    broker: int | None


class ShortMember(NamedTuple):
    """A replica of the copy's ISR whose log ends before another replica's."""

    partition: TopicPartition
    isr: tuple[int, ...]
    broker: int
    end: LogPosition
    longest: int
    longest_end: LogPosition
    committed: int
    """The largest high watermark that a broker noted: no member of the true ISR ends before it."""

    @property
    def proved(self) -> bool:
        """Whether the replica had left the ISR, or lost the end of its log since."""
        return self.end.offset < self.committed


@dataclass(frozen=True, slots=True)
class DataFindings:
    """What starting from the copy would do to the data in the folders."""

    found: tuple[FoundReplica, ...]
    """Those whose broker is known and whose log could be read, strays among them."""
    replicas: int
    """Replicas that were compared."""
    strays: tuple[StrayFolder, ...]
    old_epochs: tuple[OldEpoch, ...]
    short_members: tuple[ShortMember, ...]
    next_producer_id: int | None
    """The copy's; None: it has given out none."""
    largest_producer_id: int | None
    """In producer snapshots and in batches after them; None: neither has an id."""
    producer_id_in: Path | None
    """The file that has that id."""
    unread: tuple[str, ...]
    """Files and folders that could not be read, each with the reason."""
    unclosed: tuple[Path, ...] = ()
    """Logs whose indexes end in zeros although their broker stopped cleanly."""

    @property
    def reused_producer_ids(self) -> bool:
        """Whether the copy's controller gives out an id that a log has (Q12)."""
        largest = self.largest_producer_id
        return largest is not None and largest >= (self.next_producer_id or 0)

    @property
    def in_order(self) -> bool:
        findings = (self.strays, self.old_epochs, self.short_members, self.unread, self.unclosed)
        return not any(findings) and not self.reused_producer_ids


@dataclass(slots=True)
class _Gathered:
    replicas: list[FoundReplica] = field(default_factory=list)
    committed: dict[Key, int] = field(default_factory=dict)
    ends: dict[Key, dict[int, LogPosition]] = field(default_factory=lambda: defaultdict(dict))
    strays: list[StrayFolder] = field(default_factory=list)
    old_epochs: dict[Key, OldEpoch] = field(default_factory=dict)
    largest: tuple[int, Path] | None = None
    unread: list[str] = field(default_factory=list)
    unclosed: list[Path] = field(default_factory=list)


def compare_data(
    folders: Sequence[BrokerFolder],
    values: Mapping[Key, Any],
    go_on: Callable[[], object] = lambda: None,
) -> DataFindings:
    """Compare brokers' *folders* with the state *values* of a copy of the metadata."""
    found = _Gathered()
    for folder in folders:
        roots = {replica.path.parent for replica in folder.replicas}
        marks = {root: checkpoint_offsets(root / HIGH_WATERMARKS) for root in roots}
        for replica in folder.replicas:
            go_on()
            committed = marks[replica.path.parent].get(replica.partition, 0)
            _look(folder.broker, replica, committed, values, found)
    topics = {key[1]: name for key, name in values.items() if key[0] == "topic"}
    shorter = (
        short
        for key, ends in found.ends.items()
        for short in _short(
            TopicPartition(topics[key[1]], key[2]), values[key], ends, found.committed[key]
        )
    )
    return DataFindings(
        found=tuple(found.replicas),
        replicas=sum(len(folder.replicas) for folder in folders),
        strays=tuple(found.strays),
        old_epochs=tuple(found.old_epochs.values()),
        short_members=tuple(shorter),
        next_producer_id=values.get(("producer ids",)),
        largest_producer_id=found.largest[0] if found.largest else None,
        producer_id_in=found.largest[1] if found.largest else None,
        unread=tuple(found.unread),
        unclosed=tuple(found.unclosed),
    )


def _look(
    broker: int | None,
    replica: ReplicaFolder,
    committed: int,
    values: Mapping[Key, Any],
    found: _Gathered,
) -> None:
    try:
        log = open_log(replica.path.name, replica.path)
        for producer_id, path in _producers(log, replica.path, found.unread):
            if found.largest is None or producer_id > found.largest[0]:
                found.largest = producer_id, path
    except BreakglassError as error:
        found.unread.append(f"{replica.path}: {error}")
        return
    if (replica.path.parent / CLEAN_SHUTDOWN).exists() and has_unclosed_index(log):
        found.unclosed.append(replica.path)
    partition = replica.partition
    if replica.topic_id is None:
        why = "partition.metadata names no topic id"
        found.unread.append(f"{replica.path}: {why}")
        found.strays.append(StrayFolder(broker, replica.path, partition, why, UNASSIGNED))
        return
    read = _log_end(log, replica.path)
    if isinstance(read, Unknown):
        found.unread.append(f"{replica.path}: {read.reason}")
    elif broker is not None:
        epoch, end = read
        named = (broker, replica.path, partition, replica.topic_id)
        start = max(log.extent.start, replica.log_start)
        found.replicas.append(FoundReplica(*named, end, epoch, newest_ms(log), start))
    key = ("partition", replica.topic_id, partition.partition)
    state: PartitionMetadata | None = values.get(key)
    if state is None or (broker is not None and broker not in state.replicas):
        if ("topic", replica.topic_id) not in values:
            why = "the copy does not know its topic id"
        elif state is None:
            why = "the copy does not know the partition"
        else:
            why = f"the copy assigns it to {','.join(map(str, state.replicas))}"
        found.strays.append(StrayFolder(broker, replica.path, partition, why, replica.topic_id))
        return
    if isinstance(read, Unknown):
        return
    epoch, end = read
    known = found.old_epochs.get(key)
    if epoch > max(state.leader_epoch, known.log if known else -1):
        found.old_epochs[key] = OldEpoch(partition, state.leader_epoch, epoch, broker)
    if broker is not None:
        found.ends[key][broker] = end
        found.committed[key] = max(committed, found.committed.get(key, 0))


def _short(
    partition: TopicPartition,
    state: PartitionMetadata,
    ends: Mapping[int, LogPosition],
    committed: int,
) -> Iterator[ShortMember]:
    """Members of the ISR whose logs end before the longest of those that were read (Q11)."""
    longest = max(ends, key=lambda broker: ends[broker])
    for broker in state.isr:
        if broker in ends and ends[broker] < ends[longest]:
            found = (ends[broker], longest, ends[longest], committed)
            yield ShortMember(partition, state.isr, broker, *found)


def _log_end(log: LogSource, path: Path) -> tuple[int, LogPosition] | Unknown:
    """The last leader epoch that the log's checkpoint names, and the last record's epoch and end.

    A leader notes its epoch before it writes a record at it.
    """
    try:
        lines = read_regular(path / EPOCHS, MOST_BYTES).decode("ascii", "replace").splitlines()
        epochs = [(int(epoch), int(start)) for epoch, start in map(str.split, lines[2:])]
        end = log.extent.end
        written = [epoch for epoch, start in epochs if start < end]
        last = LogPosition(written[-1] if written else -1, end)
        return (epochs[-1][0] if epochs else -1), last
    except (OSError, ValueError) as error:
        return Unknown(f"{EPOCHS} cannot be read ({error})")


def has_unclosed_index(log: LogSource) -> bool:
    """Whether a segment with batches has a time index that ends in zeros, as brokers allocate it.

    A broker that stops cuts the zeros off, but not in a folder that it had renamed to ``-stray``.
    The last entry then reads as time 0, so that retention deletes the segment.
    """
    for segment in log.segments:
        with suppress(OSError), open_regular(segment.path.with_suffix(".timeindex")) as file:
            file.seek(-TIME_ENTRY_BYTES, os.SEEK_END)
            if not any(file.read(TIME_ENTRY_BYTES)) and segment.path.stat().st_size:
                return True
    return False


def newest_ms(log: LogSource) -> int:
    """The latest timestamp in the last segment of *log* that has a batch; -1: none has one."""
    for segment in reversed(log.segments):
        newest = -1
        with suppress(BreakglassError):
            # After a damaged batch nothing is read.
            for header, _ in segment.last_headers(segment.index()):
                newest = max(newest, header.max_timestamp)
        if newest >= 0:
            return newest
    return -1


def _producers(log: LogSource, path: Path, unread: list[str]) -> Iterator[tuple[int, Path]]:
    """Producer ids as a broker loads them: of the newest snapshot, and of each batch after it."""
    loaded = log.extent.start
    for snapshot in sorted(path.glob("*.snapshot"), reverse=True):
        largest = _largest_producer(snapshot)
        if isinstance(largest, Unknown):
            unread.append(f"{snapshot}: {largest.reason}")
            continue
        if largest is not None:
            yield largest, snapshot
        loaded = max(loaded, int(snapshot.stem)) if snapshot.stem.isdecimal() else loaded
        break
    for segment in log.segments[log.first_needed(loaded) :]:
        try:
            for header, _ in segment.headers(segment.index().before(loaded)):
                if header.producer_id >= 0 and header.last_offset >= loaded:
                    yield header.producer_id, segment.path
        except MalformedMessage:
            # A batch that is torn or damaged: a broker truncates the log there when it starts.
            return


def _largest_producer(path: Path) -> int | None | Unknown:
    """The largest producer id in a producer snapshot; None: it has no id."""
    import google_crc32c

    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        return Unknown(error.strerror or str(error))
    if len(data) < SNAPSHOT_HEAD.size:
        return Unknown("it is too short for a producer snapshot")
    version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
    if version != 1 or len(data) != SNAPSHOT_HEAD.size + count * PRODUCER_ENTRY.size:
        return Unknown(f"it is no producer snapshot of version 1 (version {version})")
    if google_crc32c.value(data[COVERED_AT:]) != crc:
        return Unknown("the CRC of the producer snapshot is wrong")
    entries = PRODUCER_ENTRY.iter_unpack(data[SNAPSHOT_HEAD.size :])
    return max((entry[0] for entry in entries), default=None)


@dataclass(frozen=True, slots=True)
class RebuiltPartition:
    """A partition whose state in the copy is replaced by what is on disk."""

    partition: TopicPartition
    topic_id: UUID
    before: PartitionMetadata | None
    """None: the copy does not know the partition."""
    after: PartitionMetadata
    directories: tuple[UUID, ...]
    """The log directory of each of its replicas."""
    why: str


@dataclass(frozen=True, slots=True)
class Mending:
    """Everything that is replaced, and what cannot be."""

    topics: tuple[tuple[str, UUID], ...] = ()
    """Topics that the copy does not know."""
    partitions: tuple[RebuiltPartition, ...] = ()
    left: Mapping[Path, str] = field(default_factory=dict)
    """Folders that stay strays, each with the reason."""
    replaced: Mapping[str, UUID] = field(default_factory=dict)
    """Topics of the copy that were deleted and made again after it ended, by their old ids."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Those of the replaced topics: a deletion removes them."""
    rivals: tuple[str, ...] = ()
    """Topics that are given up, though no copy shows their deletion, for another of their name."""

    def applied_to(self, state: Mapping[Key, Any]) -> dict[tuple[UUID, int], PartitionMetadata]:
        """Each partition as brokers will see it, by topic id and number."""
        known = {key[1:]: one for key, one in state.items() if key[0] == "partition"}
        kept = {key: one for key, one in known.items() if key[0] not in self.replaced.values()}
        mended = {(one.topic_id, one.partition.partition): one.after for one in self.partitions}
        return {**kept, **mended}


def mend(
    state: Mapping[Key, Any],
    found: Sequence[FoundReplica],
    whole: Collection[int],
    directories: Mapping[Path, UUID],
    deleted: Collection[UUID] = (),
    copy_ms: int = 0,
) -> Mending:
    """What the *found* replicas prove against *state*.

    *whole* are the brokers all of whose log directories were read, *directories* has the id of each
    log directory that has one, *deleted* the topics that a copy shows the deletion of, *copy_ms*
    the time of the copy's newest record.
    """
    by_key: dict[Key, dict[int, FoundReplica]] = defaultdict(dict)
    for one in sorted(found, key=lambda one: one.end):
        by_key["partition", one.topic_id, one.partition.partition][one.broker] = one
    ids = {name: key[1] for key, name in state.items() if key[0] == "topic"}
    newest: dict[UUID, int] = {}
    for one in found:
        newest[one.topic_id] = max(one.newest_ms, newest.get(one.topic_id, -1))
    current = _current_ids(found, newest, ids, deleted, copy_ms)
    replaced = {name: known for name, known in ids.items() if current[name] != known}
    settings = {name: state.get(("settings", TOPIC_SETTINGS, name), {}) for name in replaced}
    gone = {*replaced.values()}
    state = {key: one for key, one in state.items() if len(key) == 1 or key[1] not in gone}
    topics: dict[str, UUID] = {}
    partitions: dict[Key, RebuiltPartition] = {}
    left: dict[Path, str] = {}
    rivals: list[str] = []
    for key, replicas in sorted(by_key.items(), key=lambda row: _name(row[1])):
        partition, topic_id = _name(replicas), key[1]
        before: PartitionMetadata | None = state.get(key)
        earlier = ("partition", topic_id, partition.partition - 1)
        paths = [one.path for one in replicas.values()]
        if before is None and topic_id in deleted:
            left |= dict.fromkeys(paths, "the topic was deleted")
        elif before is None and current.get(partition.topic, topic_id) != topic_id:
            left |= {
                one.path: _rival(one, current[partition.topic], newest) for one in replicas.values()
            }
            if topic_id not in gone:
                rivals.append(f"{partition.topic} with id {kafka_id(topic_id)}")
        elif before is None and partition.partition and not {earlier} & {*state, *partitions}:
            left |= dict.fromkeys(paths, "no folder of the partition before it was found")
        elif (after := _after(before, replicas, whole)) is not None:
            if ("topic", topic_id) not in state:
                topics[partition.topic] = topic_id
            places = tuple(
                directories.get(replicas[broker].path.parent, UNASSIGNED)
                if broker in replicas
                else UNASSIGNED
                for broker in after.replicas
            )
            why = _why(before, after, replicas)
            partitions[key] = RebuiltPartition(partition, topic_id, before, after, places, why)
        assigned = partitions[key].after if key in partitions else before
        if assigned is not None:
            left |= {
                one.path: f"b{broker} is not in its assignment, and its log is not the longest"
                for broker, one in replicas.items()
                if broker not in assigned.replicas
            }
    made = (tuple(topics.items()), tuple(partitions.values()))
    return Mending(*made, left, replaced, settings, tuple(dict.fromkeys(rivals)))


def _current_ids(
    found: Sequence[FoundReplica],
    newest: Mapping[UUID, int],
    ids: Mapping[str, UUID],
    deleted: Collection[UUID],
    copy_ms: int,
) -> dict[str, UUID]:
    """The id of each topic: of several with a name that which was made last, as far as is known.

    A topic of the copy was deleted and made again if another id has the name on as many brokers,
    with later records than the copy and the folders of the copy's id have. *newest* has the time of
    the newest record by id.
    """
    on: dict[UUID, set[int]] = defaultdict(set)
    for one in found:
        on[one.topic_id].add(one.broker)
    named = {(one.partition.topic, one.topic_id) for one in found}
    first = {one.topic_id for one in found if one.partition.partition == 0}
    current = dict(ids)
    for name, topic_id in sorted(named, key=lambda one: (newest[one[1]], one)):
        known, at_ms = ids.get(name), newest[topic_id]
        later = known is not None and (
            known in deleted
            or (at_ms > max(copy_ms, newest.get(known, -1)) and len(on[topic_id]) >= len(on[known]))
        )
        if topic_id not in deleted and topic_id in first and (known is None or later):
            current[name] = topic_id
    return current


def _rival(one: FoundReplica, current: UUID, newest: Mapping[UUID, int]) -> str:
    """Why a folder is left for another topic of its name, and what is known of both."""
    mine, its = newest[one.topic_id], newest.get(current, -1)
    own, other = (time_text(at_ms) if at_ms >= 0 else "unknown" for at_ms in (mine, its))
    age = "newer than it" if mine > its else "older than it" if mine < its else "as new as it"
    looks = f"looks {age}" if min(mine, its) >= 0 else "is of unknown age against it"
    return (
        f"another topic of this name, with id {kafka_id(current)}, is kept; this one, with id "
        f"{kafka_id(one.topic_id)}, ends at {one.end.offset:,} and {looks}: its newest record "
        f"is of {own}, that of the kept one of {other}"
    )


def _name(replicas: Mapping[int, FoundReplica]) -> TopicPartition:
    return next(iter(replicas.values())).partition


def _after(
    before: PartitionMetadata | None, replicas: Mapping[int, FoundReplica], whole: Collection[int]
) -> PartitionMetadata | None:
    """The state to append; None: the one in the copy agrees with the logs."""
    epoch = max(one.epoch for one in replicas.values())
    considered = set(replicas)
    if before is not None and epoch <= before.leader_epoch:
        # The copy knows the last leader, which is in the ISR and has every record.
        considered &= set(before.isr)
        if not considered and not set(before.isr) <= set(whole):
            return None
        considered = considered or set(replicas)
    longest = max(replicas[broker].end for broker in considered)
    furthest = [broker for broker in sorted(considered) if replicas[broker].end == longest]
    if before is None:
        assigned = tuple(sorted(replicas))
    else:
        short = [
            broker
            for broker in before.isr
            if (replicas[broker].end < longest if broker in replicas else broker in whole)
        ]
        empty = longest.offset == 0
        if epoch <= before.leader_epoch and (not short or empty):
            return None
        inside = [broker for broker in before.replicas if broker in furthest]
        assigned = (*before.replicas, *(() if inside else furthest))
    isr = tuple(broker for broker in assigned if broker in furthest)
    return PartitionMetadata(
        assigned,
        isr,
        isr[0],
        max(epoch, before.leader_epoch if before else 0) + EPOCHS_ABOVE,
        before.partition_epoch + PARTITION_EPOCHS_ABOVE if before else 0,
    )


def _why(
    before: PartitionMetadata | None,
    after: PartitionMetadata,
    replicas: Mapping[int, FoundReplica],
) -> str:
    isr = ",".join(map(str, after.isr))
    end = replicas[after.leader].end.offset
    longer = any(one.end.offset > end for one in replicas.values())
    which = "log with the latest leader epoch" if longer else "longest log"
    if before is None:
        have = ",".join(map(str, after.replicas))
        return f"the copy does not know it; its folders are on {have}, the {which} on {isr}"
    was = ",".join(map(str, before.isr)) or "none"
    return f"ISR {was} in the copy; the {which} is on {isr}"


def mended_records(mending: Mending, version: int) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Each record to append: its name, its version and its fields; *version* of PartitionRecord."""
    for topic_id in mending.replaced.values():
        yield "RemoveTopicRecord", 0, {"topic_id": topic_id}
    for name, topic_id in mending.topics:
        yield "TopicRecord", 0, {"name": name, "topic_id": topic_id}
    for name, pairs in mending.settings.items():
        for key, value in pairs.items():
            named = {"resource_type": TOPIC_SETTINGS, "resource_name": name}
            yield "ConfigRecord", 0, {**named, "name": key, "value": value}
    for one in mending.partitions:
        fields = {
            "partition_id": one.partition.partition,
            "topic_id": one.topic_id,
            "replicas": list(one.after.replicas),
            "isr": list(one.after.isr),
            "removing_replicas": [],
            "adding_replicas": [],
            "leader": one.after.leader,
            "leader_recovery_state": 0,
            "leader_epoch": one.after.leader_epoch,
            "partition_epoch": one.after.partition_epoch,
        }
        if version:
            fields["directories"] = list(one.directories)
        yield "PartitionRecord", version, fields
