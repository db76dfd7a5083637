"""Decides what is in a checkpoint: the cut of each log, group offsets, and records in transit.

All evidence is read from the logs and the groups, so that every repetition decides the same; the
first decision that was stored stays valid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC, Control
from breakglass.services.checkpoint.kafka.evidence import evidence_of, require_uncompacted
from breakglass.services.checkpoint.kafka.logs import (
    Ends,
    Lineages,
    Logs,
    ReadLineages,
    Sought,
    nothing_to_process,
    read_control,
    read_cut,
    read_here,
    read_logs,
    settled,
)
from breakglass.services.checkpoint.kafka.owners import (
    await_owners,
    drained,
    read_by,
    read_named_groups,
    topic_ids,
    with_states,
)
from breakglass.services.checkpoint.kafka.topics import (
    NO_LEADER,
    Histories,
    epochs_before,
    incarnation,
    read_histories,
    require_same_log,
    subjects,
)
from breakglass.services.checkpoint.protocol.lineage import (
    Lineage,
    Offsets,
    channel_state,
    greatest_cut,
    lowered_offsets,
)
from breakglass.services.checkpoint.protocol.transactions import transaction_cut
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
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.summary import EpochStart

if TYPE_CHECKING:
    from breakglass.services.checkpoint.kafka.transaction_logs import ReadContents


@dataclass(frozen=True, slots=True)
class Decider:
    """What a decision requires."""

    client: ReadClient
    drain_seconds: float = patience.DRAIN
    """Seconds for groups to reach the cut, and for transactions to end."""
    wait: Callable[[float], None] = time.sleep
    control_topic: str = CONTROL_TOPIC
    read_lineages: ReadLineages = read_here
    """For a verified checkpoint; commands use Spark for it."""
    read_contents: ReadContents | None = None
    """For a transactional checkpoint; commands use Spark for it. None: it is read here."""

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        """What is in the checkpoint that *take* requested and *started* acknowledged.

        Raises:
            EvidenceChanged: the topics were replaced since, or have other partitions.
            Refused: its content cannot be made consistent; the message says why.
            ClusterError: a group did not reach the cut in time, or a log was truncated.
            Unreachable: brokers do not answer, or a transaction stays open.
        """
        # Start again if a leader moves during the decision, for example after a broker failure.
        deadline = Deadline.after(self.drain_seconds)
        return until(deadline, lambda: self._decide(take, started))

    def require_kept(self, take: TakeDocument) -> None:
        """Return if nothing that the checkpoint needs can have been compacted away since (H10).

        Raises:
            Refused: a topic can be compacted now.
            ClusterError, Unreachable: the topics' settings cannot be read.
        """
        if take.level is not Level.VECTOR:
            require_uncompacted(self.client.sender, take.topics, Deadline.after(patience.COMMAND))

    def _decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        self.require_kept(take)
        numbered = take.numbers
        logs = read_logs(self.client, take.topics, Deadline.after(patience.COMMAND))
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
        evidence = evidence_of(take, logs, self.control_topic)
        ends = {partition: started.positions[number] for partition, number in numbered.items()}
        floors = take.floors_of_logs
        # Read the epochs before any record, so that a log that is replaced later is noticed.
        histories = _histories(logs, ends)
        for partition, number in numbered.items():
            if number in started.epochs:
                last = EpochStart(started.epochs[number], started.positions[number] - 1)
                require_same_log(partition, [last], histories.get(partition, NO_LEADER))
        if started.transactions is not None:
            # Read after the take's, so that there is less to read.
            take = replace(take, transactions=started.transactions)
            floors = {
                partition: started.transactions.stable[number]
                for partition, number in numbered.items()
            }
        task = _Task(self, take, logs, numbered, floors, ends, histories)
        match take.level:
            case Level.VECTOR:
                found = task.as_read()
            case Level.VERIFIED:
                found = task.verified()
            case Level.ORDERED:
                found = task.as_read(started.offsets)
            case Level.COORDINATED:
                found = task.coordinated()
            case Level.TRANSACTIONAL:
                found = task.transactional()
        return replace(found, evidence=evidence)


def _histories(logs: Logs, ends: Ends) -> Histories:
    offsets = {one: end - 1 for one, end in ends.items()}
    return read_histories(logs, offsets, Deadline.after(patience.COMMAND))


@dataclass(frozen=True, slots=True)
class _Task:
    how: Decider
    take: TakeDocument
    logs: Logs
    numbered: Mapping[TopicPartition, int]
    floors: Ends
    told: Ends
    """Offsets of the markers, or log ends."""
    histories: Histories
    """Leader epochs, read before any record."""

    def as_read(self, offsets: Mapping[str, Offsets] | None = None) -> CutDocument:
        """The ends as they were read; *offsets* were read before them. None: they are read now."""
        # Copies contain committed records only, so a transaction that is open here must end first.
        settled(self.how.client, self.take.topics, Deadline.after(self.how.drain_seconds))
        if offsets is None:
            standing = self._standing([*self.take.writing, *self.take.readers])
            offsets = {name: self._numbers(ends) for name, ends in standing.items()}
        cut = self._numbers(self.told)
        groups = {
            name: GroupCut(policy, dict(offsets[name]))
            for name, policy in self.take.groups.items()
            if name in offsets
        }
        return CutDocument(
            now_ms(), cut, groups, epochs=epochs_before(self.numbered, cut, self.histories)
        )

    def coordinated(self) -> CutDocument:
        cut = {
            one: read_cut(
                self.logs, one, self.floors[one], marker, self.take.id, self.take.external
            )
            for one, marker in self.told.items()
        }
        deadline = Deadline.after(self.how.drain_seconds)
        standing = self._drained(list(self.take.writing), cut, deadline)
        owned = {name: read_by(one, cut) for name, one in standing.items()}
        how = self.how
        await_owners(how.client, self.take, owned, how.control_topic, deadline, how.wait)
        # The groups have reached the cut, so few records are left: starting Spark takes longer.
        read = self._read(read_here, deadline, self._sought)
        processed = {
            name: self._numbers(read_by(offsets, cut)) for name, offsets in standing.items()
        }
        return self._with_states(self._document(self._numbers(cut), processed, read))

    def verified(self) -> CutDocument:
        deadline = Deadline.after(self.how.drain_seconds)
        slow = [name for name, one in self.take.writing.items() if one is GroupPolicy.AT_LEAST_ONCE]
        if slow:
            # Outputs precede their commits, so below the floors they could not be trusted.
            self._drained(slow, self.told, deadline)
        standing = self._standing(self.take.writing)
        ends = self._numbers(self.told)
        committed = {name: self._numbers(one) for name, one in standing.items()}
        within = {
            name: {one: min(offset, ends[one]) for one, offset in offsets.items()}
            for name, offsets in committed.items()
        }
        sought = replace(self._sought, ends=ends, offsets=within)
        read = self._read(self.how.read_lineages, deadline, sought)
        cut = greatest_common_cut(self._numbers(self.floors), ends, committed, read[0])
        processed = {
            name: {one: min(offset, cut[one]) for one, offset in offsets.items()}
            for name, offsets in committed.items()
        }
        found = self._with_states(self._document(cut, processed, read))
        return replace(found, rolled_back={one: ends[one] - end for one, end in cut.items()})

    def transactional(self) -> CutDocument:
        # Reading transactions needs the extra `pipeline`, which serving other levels does not.
        from breakglass.services.checkpoint.kafka.transaction_logs import read_contents_here
        from breakglass.services.checkpoint.kafka.transactions import TransactionReader

        how, take = self.how, self.take
        assert take.transactions is not None
        read_contents = how.read_contents or read_contents_here
        deadline = Deadline.after(how.drain_seconds)
        reader = TransactionReader(
            how.client, take, self.numbered, self.floors, self.told, read_contents, how.wait
        )
        transactions, plain = reader.transactions(deadline)
        ends = self._numbers(self.told)
        found = transaction_cut(ends, take.transactions.offsets, transactions, plain)
        groups = {
            name: GroupCut(policy, found.offsets.get(name, {}))
            for name, policy in take.writing.items()
        }
        groups |= self._readers(found.positions)
        last = {number: some[-1] + 1 for number, some in found.in_transit.items()}
        return CutDocument(
            now_ms(),
            found.positions,
            groups,
            found.in_transit,
            rolled_back={number: ends[number] - end for number, end in found.positions.items()},
            epochs=epochs_before(self.numbered, found.positions, self.histories),
            in_transit_epochs=epochs_before(self.numbered, last, self.histories),
            left_out=len(found.left_out),
        )

    def _with_states(self, found: CutDocument) -> CutDocument:
        deadline = Deadline.after(patience.COMMAND)
        how, take = self.how, self.take
        control = read_control(how.client, how.control_topic, deadline, take.id) or Control()
        starts = self._numbers(self.logs.starts(deadline))
        return with_states(take, found, topic_ids(self.logs.states), starts, control)

    def _drained(
        self, groups: Collection[str], cut: Ends, deadline: Deadline
    ) -> dict[str, dict[TopicPartition, int]]:
        empty = partial(nothing_to_process, self.logs, external=self.take.external)
        return drained(self.how.client, groups, cut, deadline, self.how.wait, empty)

    def _standing(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, int]]:
        deadline = Deadline.after(patience.COMMAND)
        return read_named_groups(self.how.client, groups, self.numbered, deadline)

    def _read(
        self, read: ReadLineages, deadline: Deadline, sought: Sought
    ) -> tuple[Lineages, Histories]:
        """The lineage of the records from the floors to the current log ends.

        With the leader epochs, which are read before the records.
        """
        logs, ends = settled(self.how.client, self.take.topics, deadline)
        histories = _histories(logs, ends)
        return read(logs, self.floors, ends, sought), histories

    @property
    def _sought(self) -> Sought:
        """Every record of the groups."""
        ids = topic_ids(self.logs.states)
        causes = {(ids[one], one.partition): number for one, number in self.numbered.items()}
        external = frozenset(self.take.external)
        return Sought(self.numbered, causes, tuple(self.take.writing), external=external)

    def _document(
        self, cut: Offsets, processed: Mapping[str, Offsets], read: tuple[Lineages, Histories]
    ) -> CutDocument:
        records, histories = read
        groups: dict[str, GroupCut] = {}
        waiting: dict[int, list[int]] = {}
        for name, policy in self.take.writing.items():
            offsets = dict(processed[name])
            if policy is GroupPolicy.AT_LEAST_ONCE:
                offsets = lowered_offsets(cut, offsets, records[name])
            else:
                for lineage in channel_state(cut, offsets, records[name]):
                    waiting.setdefault(lineage.partition, []).append(lineage.offset)
            groups[name] = GroupCut(policy, offsets)
        groups |= self._readers(cut)
        in_transit = {number: tuple(sorted(some)) for number, some in sorted(waiting.items())}
        last = {number: some[-1] + 1 for number, some in in_transit.items()}
        return CutDocument(
            now_ms(),
            dict(cut),
            groups,
            in_transit,
            epochs=epochs_before(self.numbered, cut, self.histories),
            in_transit_epochs=epochs_before(self.numbered, last, histories),
        )

    def _readers(self, cut: Offsets) -> dict[str, GroupCut]:
        """The groups that only read: each resumes where it stood, and reads what is restored."""
        standing = self._standing(self.take.readers)
        return {
            name: GroupCut(
                GroupPolicy.READER,
                {
                    number: min(offset, cut[number])
                    for number, offset in self._numbers(standing[name]).items()
                },
            )
            for name in self.take.readers
        }

    def _numbers(self, ends: Mapping[TopicPartition, int]) -> dict[int, int]:
        return {self.numbered[one]: end for one, end in ends.items()}


def greatest_common_cut(
    floors: Offsets,
    ends: Offsets,
    committed: Mapping[str, Offsets],
    records: Mapping[str, Iterable[Lineage]],
) -> dict[int, int]:
    """The greatest cut that is consistent for every group (H8): repeat until no group lowers it."""
    cut = dict(ends)
    while True:
        before = dict(cut)
        for name, offsets in committed.items():
            cut = greatest_cut(floors, cut, offsets, list(records[name])).positions
        if cut == before:
            return cut
