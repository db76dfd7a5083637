"""Decides what is in a checkpoint: the cut of each log, groups' offsets, what is in transit.

Everything is read off the logs and the groups, so whoever decides again, decides the same; what
was noted first stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from breakglass.services.checkpoint.kafka.compaction import require_uncompacted
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC, Control
from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.kafka.epochs import (
    NO_LEADER,
    Histories,
    epochs_before,
    read_histories,
    require_same_log,
)
from breakglass.services.checkpoint.kafka.groups import drained, read_by, read_standing
from breakglass.services.checkpoint.kafka.lineages import ReadLineages, Sought, read_here
from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs, read_logs, settled
from breakglass.services.checkpoint.kafka.missing_groups import require_named
from breakglass.services.checkpoint.kafka.owners import await_owners
from breakglass.services.checkpoint.kafka.scanning import nothing_to_process, read_cut
from breakglass.services.checkpoint.kafka.states import places, with_states
from breakglass.services.checkpoint.kafka.topics import incarnation, of, subjects
from breakglass.services.checkpoint.protocol.lineage import (
    Lineage,
    Offsets,
    channel_state,
    greatest_cut,
    lowered_offsets,
)
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupCut,
    GroupPolicy,
    Level,
    StartedDocument,
    TakeDocument,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import EvidenceChanged
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.summary import EpochStart

DRAIN_SECONDS = 60.0
ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Decider:
    """What a decision is made with."""

    client: ReadClient
    drain_seconds: float = DRAIN_SECONDS
    """For groups to come to the cut, and for transactions to end."""
    wait: Callable[[float], None] = time.sleep
    control_topic: str = CONTROL_TOPIC
    read_lineages: ReadLineages = read_here
    """For a verified checkpoint; commands have Spark do it."""

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        """What is in the checkpoint that was asked for by *take* and acknowledged by *started*.

        Raises:
            EvidenceChanged: the topics are others by now, or have other partitions.
            Refused: what it would hold cannot be made consistent; the message says why.
            ClusterError: a group did not come to the cut in time, or a log was cut.
            Unreachable: brokers do not answer, or a transaction stays open.
        """
        # A leader that moves meanwhile, as with a broker that is killed, changes nothing.
        deadline = Deadline.after(self.drain_seconds)
        return until(deadline, lambda: self._decide(take, started))

    def require_kept(self, take: TakeDocument) -> None:
        """Return if nothing that the checkpoint needs can have been compacted away since (H10).

        Raises:
            Refused: a topic is compacted, and nothing holds that back.
            ClusterError, Unreachable: the topics' settings cannot be read.
        """
        if take.level is not Level.VECTOR:
            topics = sorted({one.topic for one in take.partitions})
            require_uncompacted(self.client.sender, topics, Deadline.after(ASK_SECONDS))

    def _decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        self.require_kept(take)
        numbered = {of(one): one.number for one in take.partitions}
        logs = self._logs(take)
        soon = Deadline.after(ASK_SECONDS)
        require_named(self.client, take, logs, self.control_topic, soon)
        ends = {partition: started.positions[number] for partition, number in numbered.items()}
        floors = {partition: take.floors[number] for partition, number in numbered.items()}
        # Before any record is read: a log that is another one afterwards is noticed by that.
        histories = _histories(logs, ends)
        _require_same(started, numbered, histories)
        task = _Task(self, take, logs, numbered, floors, ends, histories)
        match take.level:
            case Level.VECTOR:
                return task.vector()
            case Level.VERIFIED:
                return task.verified()
            case Level.COORDINATED:
                return task.coordinated()

    def _logs(self, take: TakeDocument) -> Logs:
        topics = sorted({one.topic for one in take.partitions})
        logs = read_logs(self.client, topics, Deadline.after(ASK_SECONDS))
        if take.incarnation != incarnation(logs.states):
            raise EvidenceChanged(
                "topics were deleted and created again since the checkpoint was asked for: take "
                "one with a new id"
            )
        if take.partitions != subjects(logs.states):
            raise EvidenceChanged(
                "partitions were added since the checkpoint was asked for, so it is not of all of "
                "them: take one with a new id"
            )
        return logs


def _histories(logs: Logs, ends: Ends) -> Histories:
    offsets = {one: end - 1 for one, end in ends.items()}
    return read_histories(logs, offsets, Deadline.after(ASK_SECONDS))


def _require_same(
    started: StartedDocument, numbered: Mapping[TopicPartition, int], histories: Histories
) -> None:
    """Return if the logs are those in which the checkpoint was started.

    Raises: as `require_same_log`.
    """
    for partition, number in numbered.items():
        if number in started.epochs:
            last = EpochStart(started.epochs[number], started.positions[number] - 1)
            require_same_log(partition, [last], histories.get(partition, NO_LEADER))


@dataclass(frozen=True, slots=True)
class _Read:
    """What led to the records behind the floors."""

    records: Mapping[str, Sequence[Lineage]]
    """By the group that wrote them."""
    histories: Histories
    """Leader epochs, read before the records."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One decision."""

    how: Decider
    take: TakeDocument
    logs: Logs
    numbered: Mapping[TopicPartition, int]
    floors: Ends
    told: Ends
    """Markers, or ends."""
    histories: Histories
    """Leader epochs, read before any record."""

    @property
    def topics(self) -> list[str]:
        return sorted({one.topic for one in self.take.partitions})

    def vector(self) -> CutDocument:
        # What is copied is committed: a transaction that was open then has to be decided.
        settled(self.how.client, self.topics, Deadline.after(self.how.drain_seconds))
        standing = self._standing()
        groups = {
            name: GroupCut(policy, self._numbers(standing[name]))
            for name, policy in self.take.groups.items()
        }
        cut = self._numbers(self.told)
        return CutDocument(
            now_ms(), cut, groups, epochs=epochs_before(self.numbered, cut, self.histories)
        )

    def coordinated(self) -> CutDocument:
        cut = {
            one: read_cut(self.logs, one, self.floors[one], marker, self.take.id)
            for one, marker in self.told.items()
        }
        deadline = Deadline.after(self.how.drain_seconds)
        standing = self._drained(list(self.take.groups), cut, deadline)
        owned = {name: read_by(one, cut) for name, one in standing.items()}
        how = self.how
        await_owners(how.client, self.take, owned, how.control_topic, deadline, how.wait)
        # Their members have come to the cut by now: it is less than Spark takes to begin.
        read = self._read(read_here, deadline, self._sought)
        processed = {name: self._numbers(read_by(standing[name], cut)) for name in self.take.groups}
        return self._with_states(self._document(self._numbers(cut), processed, read))

    def verified(self) -> CutDocument:
        deadline = Deadline.after(self.how.drain_seconds)
        slow = [name for name, one in self.take.groups.items() if one is GroupPolicy.AT_LEAST_ONCE]
        if slow:
            # Their outputs come before their commits: below the floors they could not be trusted.
            self._drained(slow, self.told, deadline)
        standing = self._standing()
        ends = self._numbers(self.told)
        committed = {name: self._numbers(one) for name, one in standing.items()}
        within = {
            name: {one: min(offset, ends[one]) for one, offset in offsets.items()}
            for name, offsets in committed.items()
        }
        sought = replace(self._sought, ends=ends, offsets=within)
        read = self._read(self.how.read_lineages, deadline, sought)
        cut = greatest_common_cut(self._numbers(self.floors), ends, committed, read.records)
        processed = {
            name: {one: min(offset, cut[one]) for one, offset in offsets.items()}
            for name, offsets in committed.items()
        }
        found = self._with_states(self._document(cut, processed, read))
        return replace(found, rolled_back={one: ends[one] - end for one, end in cut.items()})

    def _with_states(self, found: CutDocument) -> CutDocument:
        deadline = Deadline.after(ASK_SECONDS)
        how, take = self.how, self.take
        control = read_control(how.client, how.control_topic, deadline, take.id) or Control()
        starts = self._numbers(self.logs.starts(deadline))
        return with_states(take, found, places(take, self.logs.states), starts, control)

    def _drained(
        self, groups: Collection[str], cut: Ends, deadline: Deadline
    ) -> dict[str, dict[TopicPartition, int]]:
        empty = partial(nothing_to_process, self.logs)
        return drained(self.how.client, groups, cut, deadline, self.how.wait, empty)

    def _standing(self) -> dict[str, dict[TopicPartition, int]]:
        deadline = Deadline.after(ASK_SECONDS)
        return read_standing(self.how.client, self.take.groups, self.numbered, deadline)

    def _read(self, read: ReadLineages, deadline: Deadline, sought: Sought) -> _Read:
        """What led to the records from the floors to where the logs end now."""
        logs, ends = settled(self.how.client, self.topics, deadline)
        histories = _histories(logs, ends)
        return _Read(read(logs, self.floors, ends, sought), histories)

    @property
    def _sought(self) -> Sought:
        """Every record of the groups."""
        there = places(self.take, self.logs.states)
        causes = {(one.topic_id, one.partition.partition): number for number, one in there.items()}
        return Sought(self.numbered, causes, tuple(self.take.groups))

    def _document(
        self,
        cut: Offsets,
        processed: Mapping[str, Offsets],
        read: _Read,
    ) -> CutDocument:
        groups: dict[str, GroupCut] = {}
        waiting: dict[int, list[int]] = {}
        for name, policy in self.take.groups.items():
            offsets = dict(processed[name])
            if policy is GroupPolicy.AT_LEAST_ONCE:
                offsets = lowered_offsets(cut, offsets, read.records[name])
            else:
                for one in channel_state(cut, offsets, read.records[name]):
                    waiting.setdefault(one.partition, []).append(one.offset)
            groups[name] = GroupCut(policy, offsets)
        in_transit = {number: tuple(sorted(some)) for number, some in sorted(waiting.items())}
        last = {number: some[-1] + 1 for number, some in in_transit.items()}
        return CutDocument(
            now_ms(),
            dict(cut),
            groups,
            in_transit,
            epochs=epochs_before(self.numbered, cut, self.histories),
            in_transit_epochs=epochs_before(self.numbered, last, read.histories),
        )

    def _numbers(self, ends: Mapping[TopicPartition, int]) -> dict[int, int]:
        return {self.numbered[one]: end for one, end in ends.items()}


def greatest_common_cut(
    floors: Offsets,
    ends: Offsets,
    committed: Mapping[str, Offsets],
    records: Mapping[str, Iterable[Lineage]],
) -> dict[int, int]:
    """The greatest cut that is consistent for every group (H8): each lowers it until none does."""
    cut = dict(ends)
    while True:
        before = dict(cut)
        for name, offsets in committed.items():
            cut = greatest_cut(floors, cut, offsets, list(records[name])).positions
        if cut == before:
            return cut
