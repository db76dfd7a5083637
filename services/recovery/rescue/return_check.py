"""Checks a dead broker: what each of its replicas would lose if the broker started now.

The broker is known by its log folders. The cluster, the folders and the rescues are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from breakglass.services import patience
from breakglass.services.divergence.log_source import open_log
from breakglass.services.errors import BreakglassError, Refused, UsageError, WrongCluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.recovery.evidence.gather import gather
from breakglass.services.recovery.judgement.succession import inheritors, rescue_before
from breakglass.services.recovery.remembered.store import (
    Heard,
    Key,
    ReplicaMemory,
    key_of,
    leaders_of,
)
from breakglass.services.recovery.rescue.broker_folder import (
    LOG,
    BrokerFolder,
    ReplicaFolder,
    rescues_in,
)
from breakglass.services.recovery.rescue.past_leader import LeaderReach, kept_by_leaders
from breakglass.services.recovery.rescue.returning import (
    ReturnFate,
    ReturningReplica,
    absent,
    lost_text,
    returning,
    with_disk,
)
from breakglass.services.recovery.rescue.saver import log_end
from breakglass.services.snapshot import ClusterSnapshot
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.moments import time_text

_UNKNOWN = "what would be lost is unknown"
MOST_APART_MS = 120_000
"""A running broker writes its high watermarks every 5 s, recovery points every minute; and the
clocks of two machines differ."""
SAID = 20
"""More replicas that are not safe are counted, not named."""


@dataclass(frozen=True)
class ReturnCheck:
    """What the start of one broker would cost."""

    broker: int
    cluster_id: str
    folders: tuple[BrokerFolder, ...]
    replicas: tuple[ReturningReplica, ...]
    """One for each replica of the broker: those in its folders, then those in none."""
    beside: tuple[BrokerFolder, ...] = ()
    """Folders of other brokers that are down, read as well."""
    leaders: str = ""
    """The leaders that it would follow (`leaders_of`)."""
    shorter: tuple[str, ...] = ()
    """A sentence for each log that ended later by the files beside its segments."""
    older: tuple[str, ...] = ()
    """A sentence for each folder that was written last before its broker was heard, and for each
    log that ended later when its broker was heard."""
    unread: tuple[str, ...] = ()
    """A sentence for each rescue that cannot be read."""

    @cached_property
    def unsafe(self) -> tuple[ReturningReplica, ...]:
        return tuple(replica for replica in self.replicas if not replica.fate.safe)

    @property
    def safe(self) -> bool:
        """Whether the broker may be started."""
        return not self.unsafe and not self.older

    @cached_property
    def lost(self) -> int:
        """Records that would be lost."""
        return sum(one.lost for one in self.replicas if one.fate is ReturnFate.LOST)

    @cached_property
    def lost_markers(self) -> int:
        """Transaction markers that would be lost."""
        return sum(one.lost_markers for one in self.replicas if one.fate is ReturnFate.LOST)

    @property
    def sentences(self) -> Iterator[str]:
        """What is not safe and why, whether the broker may be started, and what to do first."""
        for replica in self.unsafe[:SAID]:
            yield f"{replica.partition}  {replica.fate}: {replica.why}"
        if len(self.unsafe) > SAID:
            more = len(self.unsafe) - SAID
            yield f"and {more:,} more: breakglass can-start --json names them all"
        yield from self.unread[:SAID]
        yield from self.shorter[:SAID]
        yield from self.older
        yield from self._safe() if self.safe else self._unsafe()

    @cached_property
    def leads(self) -> tuple[ReturningReplica, ...]:
        """The replicas to whose logs the others are truncated."""
        return tuple(replica for replica in self.replicas if replica.leads)

    def _safe(self) -> Iterator[str]:
        rescued = sum(replica.rescued for replica in self.replicas)
        unread = sorted({broker for replica in self.leads for broker in replica.unread})
        read = sorted({self.broker, *(one.broker for one in self.beside if one.broker is not None)})
        are = "disk of {} as it is" if len(read) == 1 else "disks of {} as they are"
        folders = (*self.folders, *self.beside)
        leads = {replica.partition for replica in self.leads}
        gaps = sum(
            one.compacted and one.partition in leads
            for folder in self.folders
            for one in folder.replicas
        )
        never_made = sum(replica.log is None for replica in self.replicas)
        written = time_text(max((one.written_ms for one in folders), default=0))
        conditions = [
            f"the folders that were read are the {are.format(_names(read))} now (last written "
            f"{written})",
            *([f"the unread logs of {_names(unread)} hold no more"] if unread else ()),
            *([f"the log cleaner made the gaps in {partitions_text(gaps)}"] if gaps else ()),
            *(
                [f"these are all its log.dirs, with no log of {partitions_text(never_made)}"]
                if never_made
                else ()
            ),
        ]
        yield (
            f"b{self.broker} is safe to start if {' and '.join(conditions)}: "
            f"{partitions_text(len(self.replicas))}, {rescued:,} records that its start truncates "
            "are rescued"
        )
        if self.leads:
            yield f"it leads {partitions_text(len(self.leads))} as soon as it starts"

    def _unsafe(self) -> Iterator[str]:
        if self.older:
            yield (
                f"do not start b{self.broker} by what an older copy says: name the disk itself; "
                "what the disk itself has lost since, its start does not lose"
            )
        if not self.unsafe:
            return
        known = self.lost or self.lost_markers
        lost = f"{lost_text(self.lost, self.lost_markers)} would be lost" if known else _UNKNOWN
        yield f"do not start b{self.broker}: {lost}, {partitions_text(len(self.unsafe))} not safe"
        if any(replica.lost for replica in self.leads):
            yield f"save what the others hold: {rescue_before(self.broker)}"
            if self.beside:
                yield f"and what is on their disks: {_rescue_of(self.beside)}"
        if any(
            (replica.lost or replica.lost_markers) and not replica.leads for replica in self.unsafe
        ):
            yield f"save what it holds: {_rescue_of(self.folders)}"


def _names(brokers: Sequence[int]) -> str:
    return " and ".join(f"b{broker}" for broker in brokers)


def _rescue_of(folders: Sequence[BrokerFolder]) -> str:
    sources = " ".join(f"--source {quote(f'{LOG}{folder.path}')}" for folder in folders)
    return f"breakglass rescue {sources} --bootstrap-server HOST:PORT"


@dataclass(frozen=True, slots=True)
class NamedDisks:
    """What an operator says of the disks of brokers that are down."""

    folders: Sequence[BrokerFolder]
    """Folders of the broker that is to start."""
    all_log_dirs: bool = False
    """It has no other folder."""
    beside: Sequence[BrokerFolder] = ()
    """Folders of other brokers: their replicas are read there (R47)."""
    gone: Collection[int] = ()
    """Brokers whose disks are lost, and with them whatever they had."""


def check_return(
    client: ReadClient,
    disks: NamedDisks,
    rescues: Sequence[Path],
    go_on: Callable[[], None] = lambda: None,
    memory: ReplicaMemory | None = None,
) -> ReturnCheck:
    """What the broker of *disks* loses by starting; *rescues* are folders of rescues.

    By *memory*, a folder whose log ends earlier than was heard may be an older copy, and one that
    was written last well before its broker was heard is one.
    *go_on* is called now and then; an exception that it raises ends the reading.

    Raises:
        UsageError: the folders do not say whose they are, or are of several brokers.
        WrongCluster: the folders are of another cluster.
        Refused: the broker runs.
        Unreachable: no broker serves the cluster's metadata.
    """
    folders, others = disks.folders, disks.beside
    broker, cluster_id = _one_broker(folders)
    snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT))
    _require_down(snapshot, broker, cluster_id)
    states = {state.partition: state for state in snapshot.partitions}
    replicas = sorted(
        (replica for folder in folders for replica in folder.replicas),
        key=lambda replica: replica.partition,
    )
    reaches = _reaches(client, replicas, states)
    unread: list[str] = []
    held = rescues_in(
        rescues,
        states,
        lambda place, error: unread.append(f"The rescue in {place} counts as none: {error}"),
    )
    hidden = _hidden(client, {replica.partition.topic for replica in replicas}, states)
    beside = _beside(client, snapshot, broker, {replica.partition for replica in replicas})
    for folder in others:
        other, cluster = _one_broker([folder])
        if other == broker:
            raise UsageError(
                f"--beside {folder.path} is of b{broker} itself: name a folder of another broker"
            )
        _require_down(snapshot, other, cluster)
        for replica in folder.replicas:
            one = beside.get(replica.partition)
            if one is not None and one.state.topic_id == replica.topic_id:
                beside[replica.partition] = _read_beside(one, other, replica)
    found = [
        returning(
            broker,
            replica,
            states.get(replica.partition),
            reaches.get(replica.partition),
            held,
            go_on,
            hidden.get(replica.partition.topic, ""),
            beside.get(replica.partition),
            disks.gone,
        )
        for replica in replicas
    ]
    # A stray log is no log of this topic: without a leader, its broker is elected EMPTY.
    there = {
        replica.partition
        for replica in replicas
        if (state := states.get(replica.partition)) is None
        or state.leader is not None
        or state.topic_id == replica.topic_id
    }
    memory = memory or ReplicaMemory(cluster_id)
    missing = [
        absent(
            broker,
            state,
            never_made=disks.all_log_dirs and broker not in memory.heard(key_of(state)),
        )
        for name, state in sorted(states.items())
        if broker in state.assignment and name not in there
    ]
    leaders = leaders_of(broker, snapshot.partitions)
    together, read = (*found, *missing), (*folders, *others)
    ended = [one for folder in read for one in ends_in(folder, states)]
    older = (*heard_longer(ended, memory.heard), *older_copies(read, memory.last_heard))
    said = leaders, tuple(_reached_more(ended)), older, tuple(unread)
    return ReturnCheck(broker, cluster_id, tuple(folders), together, tuple(others), *said)


def older_copies(
    folders: Iterable[BrokerFolder], last_heard: Callable[[int], int]
) -> Iterator[str]:
    """A sentence for each folder that was written last well before its broker was heard."""
    for folder in folders:
        if folder.broker is None:
            continue
        at_ms, written_ms = last_heard(folder.broker), folder.written_ms
        if at_ms > written_ms + MOST_APART_MS:
            yield (
                f"{folder.path} was last written {time_text(written_ms)}, and b{folder.broker} was "
                f"heard at {time_text(at_ms)}: it is an older copy"
            )


class EndedLog(NamedTuple):
    """A log of *folder*, whose partition the cluster has, and its log end offset."""

    folder: BrokerFolder
    broker: int
    replica: ReplicaFolder
    state: PartitionState
    end: int


def ends_in(
    folder: BrokerFolder, states: Mapping[TopicPartition, PartitionState]
) -> Iterator[EndedLog]:
    """The logs of *folder* that the cluster has."""
    for replica in folder.replicas:
        state = states.get(replica.partition)
        if state is not None and state.topic_id == replica.topic_id and folder.broker is not None:
            with suppress(BreakglassError):
                yield EndedLog(folder, folder.broker, replica, state, log_end(replica))


def heard_longer(logs: Iterable[EndedLog], heard: Callable[[Key], Heard]) -> Iterator[str]:
    """A sentence for each log that ended later when its broker was heard."""
    for folder, broker, replica, state, end in logs:
        last = heard(key_of(state)).get(broker)
        if (
            last is not None
            and not isinstance(last.log.log_end, Unknown)
            and last.log.log_end > end
        ):
            yield (
                f"{replica.partition} of b{broker} ended at {last.log.log_end:,} when it was heard "
                f"at {time_text(last.at_ms)}, and ends at {end:,} in {folder.path}: its tail was "
                "cut since, or the folder is an older copy"
            )


def _reached_more(logs: Iterable[EndedLog]) -> Iterator[str]:
    """A sentence for each log that ended later by the files beside its segments."""
    for folder, broker, replica, _, end in logs:
        if replica.reached > end:
            yield (
                f"{replica.partition} of b{broker} reached {replica.reached:,} by the files "
                f"beside its segments, and ends at {end:,} in {folder.path}: its tail was lost"
            )


def _one_broker(folders: Sequence[BrokerFolder]) -> tuple[int, str]:
    """Whose folders these are, and of which cluster."""
    brokers = {(folder.broker, folder.cluster_id) for folder in folders}
    broker, cluster_id = next(iter(brokers))
    if len(brokers) > 1:
        raise UsageError("these folders are of several brokers: check each broker by itself")
    if broker is None or cluster_id is None:
        raise UsageError(
            f"{folders[0].path} does not say whose it is: name the folder with meta.properties"
        )
    return broker, cluster_id


def _require_down(snapshot: ClusterSnapshot, broker: int, cluster_id: str) -> None:
    if snapshot.cluster_id != cluster_id:
        raise WrongCluster(
            f"these folders are of cluster {cluster_id}, and the addresses lead to "
            f"{snapshot.cluster_id}: connect to the broker's own cluster"
        )
    if snapshot.description.fenced(broker) is False:
        raise Refused(
            f"b{broker} runs, or was stopped a moment ago: its logs are cut already where they "
            "differ; if it is stopped, wait until the cluster has fenced it"
        )


def _reaches(
    client: ReadClient, replicas: Sequence[ReplicaFolder], states: Collection[TopicPartition]
) -> dict[TopicPartition, LeaderReach]:
    """How far the current leaders have the logs of *replicas*."""
    ends: dict[TopicPartition, int] = {}
    for replica in replicas:
        # A log that cannot be read is reported with the reason by `returning`.
        with suppress(BreakglassError):
            ends[replica.partition] = log_end(replica)
    led = [
        replica for replica in replicas if replica.partition in states and replica.partition in ends
    ]
    kept = kept_by_leaders(client, led, ends, Deadline.after(patience.SNAPSHOT))
    return {reach.partition: reach for reach in kept}


def _beside(
    client: ReadClient, snapshot: ClusterSnapshot, broker: int, names: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionEvidence]:
    """The replicas of the partitions of *names* that *broker* leads, or may, once it starts."""
    leading = [
        state
        for state in snapshot.offline
        if state.partition in names
        and may_lead(state, broker, snapshot.settings.get(state.partition.topic))
    ]
    found: dict[TopicPartition, PartitionEvidence] = {}
    for evidence in gather(client, snapshot, leading, Deadline.after(patience.SNAPSHOT)):
        found |= {one.partition: one for one in evidence.partitions}
    return found


def may_lead(state: PartitionState, broker: int, settings: TopicSettings | None) -> bool:
    """Whether *broker* leads the partition once it starts, or may as far as is known."""
    unclean = settings is None or settings.unclean_election is not False
    return unclean or broker in inheritors(state)


def _read_beside(
    evidence: PartitionEvidence, broker: int, folder: ReplicaFolder
) -> PartitionEvidence:
    """*evidence* with the replica of *broker* from its disk, up to a torn or damaged batch."""
    replica = evidence.replica(broker)
    if replica is None or not isinstance(replica.log_end, Unknown):
        return evidence
    with suppress(BreakglassError):
        extent = open_log(str(folder.partition), folder.path).extent
        start = min(extent.end, max(extent.start, folder.log_start))
        return with_disk(evidence, broker, folder.path, start, extent.end)
    return evidence


def _hidden(
    client: ReadClient, topics: Collection[str], states: dict[TopicPartition, PartitionState]
) -> dict[str, str]:
    """Which of *topics* the cluster may have and does not show to this user, and why.

    Brokers leave out, without a word, what a user may not describe, unless it is named.
    """
    found: dict[str, str] = {}
    deadline = Deadline.after(patience.SNAPSHOT)
    for topic in sorted(set(topics) - {name.topic for name in states}):
        try:
            client.partitions([topic], deadline)
        except BreakglassError as error:
            found[topic] = str(error)
    return found
