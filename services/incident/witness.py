"""Watches how offline partitions come back, and says where that cost records.

The witness reads the leader of each partition that came back, compares (`elections_seen`),
follows up the replicas that still have what the leader lacks, and writes down what it saw
(`observations`). It reads a few partitions of one broker at a time, and leaves brokers alone
that do not answer.

What became of partitions that came back while nobody looked: compared with what was heard.
A watch sees a partition come back. A command that comes later has only the memory of what replicas
reported while the partition was offline: where its leader has less, that is an election which cost
records, by whatever command, and is written down as one (`observations`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, StorageError
from breakglass.services.guard.lock import operator
from breakglass.services.incident.elections_seen import (
    ElectionSeen,
    Observation,
    Observations,
    Witnessed,
    election_seen,
    followed,
    unacknowledged,
    witnessed,
)
from breakglass.services.incident.row import IncidentRow
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.evidence.gather import FewLogs
from breakglass.services.recovery.judgement.ranking import clipped
from breakglass.services.recovery.remembered.recollection import ElectionKey, Recollection
from breakglass.services.recovery.remembered.store import Heard, Key, key_of
from breakglass.services.recovery.rescue.broker_folder import rescues_in
from breakglass.services.same_ends import differing
from breakglass.services.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class _CameBack:
    was: Witnessed
    state: PartitionState

    @property
    def key(self) -> Key:
        return key_of(self.state)


def compare_with_memory(client: ReadClient, snapshot: ClusterSnapshot, known: Recollection) -> None:
    """Compare the leaders of partitions that were offline when they were heard, each once.

    Elections of this account's own journals were agreed to, and are none of these.

    Raises:
        StorageError: what was found cannot be written down.
    """
    came_back = list(_came_back(snapshot, known))
    if not came_back:
        return
    logs, compared, found = FewLogs(client), dict[Key, int](), list[ElectionSeen]()
    leaders = logs.of_leaders([one.state for one in came_back])
    for one in came_back:
        log = leaders.get(one.state.partition)
        if log is None:
            continue
        compared[one.key] = one.state.leader_epoch
        seen = election_seen(one.was, one.state, log, snapshot.observed_at_ms)
        if seen is not None:
            # seen with what became of the replicas that had what the leader lacks.
            now: dict[int, ReplicaLog | None] = {}
            for broker in seen.open:
                if snapshot.description.fenced(broker) is not True:
                    read = logs.read(broker, {one.state.partition: one.state.topic_id}, ())
                    now[broker] = read[one.state.partition]
            found.append(followed(seen, now))
    if found:
        Observations(snapshot.cluster_id, known.folder).add(found)
    known.memory.note_compared(compared)


def _came_back(snapshot: ClusterSnapshot, known: Recollection) -> Iterator[_CameBack]:
    memory = known.memory
    remembered = set(memory.partitions())
    if not remembered:
        return
    agreed: dict[Key, dict[int, int]] = {}
    for (topic_id, partition, epoch), leader in known.elected().items():
        agreed.setdefault((topic_id, partition), {})[epoch] = leader
    counted: dict[Key, list[ElectionSeen]] | None = None
    for state in snapshot.partitions:
        key = key_of(state)
        if state.leader is None or key not in remembered:
            continue
        if max(memory.compared(key), *agreed.get(key, {-1: -1})) >= state.leader_epoch:
            continue
        was = _witnessed(state, memory.heard(key))
        if was is None:
            continue
        for epoch, leader in agreed.get(key, {}).items():
            if was.state.leader_epoch < epoch < state.leader_epoch:
                # What that election left out was agreed to: later leaders may lack no more.
                was = replace(was, logs=tuple([log for log in was.logs if log.broker == leader]))
        if counted is None:
            counted = {}
            for one in Observations(snapshot.cluster_id, known.folder).load():
                counted.setdefault((one.seen.topic_id, one.seen.partition), []).append(one.seen)
        for seen in counted.get(key, ()):
            if was.state.leader_epoch < seen.leader_epoch < state.leader_epoch:
                # What that election left out is known, and no later leader is to blame for it.
                was = replace(was, logs=tuple([clipped(log, seen.log_end) for log in was.logs]))
        if was.logs:
            yield _CameBack(was, state)


def _witnessed(state: PartitionState, heard: Heard) -> Witnessed | None:
    """The logs that were heard while the partition was offline last; None if none was.

    No role is known from then, so that every record which the leader lacks counts: a member of the
    ISR that returns after a power cut lacks what it had acknowledged itself.
    """
    epochs = {one.leader_epoch for one in heard.values() if one.offline}
    epoch = max((epoch for epoch in epochs if epoch < state.leader_epoch), default=None)
    if epoch is None:
        return None
    logs = [one.log for one in heard.values() if one.offline and one.leader_epoch == epoch]
    then = replace(state, leader=None, leader_epoch=epoch, isr=(), elr=(), last_known_elr=())
    return Witnessed(then, tuple(logs), approximate=False)


def saved_before(
    seen: Sequence[ElectionSeen],
    states: Mapping[TopicPartition, PartitionState],
    rescues: Sequence[Path],
) -> Iterator[tuple[ElectionSeen, Path]]:
    """Where records that an election left out are saved, in the folders of *rescues*."""
    wanted = {
        election.partition: states[election.partition]
        for election in seen
        if election.partition in states
        and str(states[election.partition].topic_id) == election.topic_id
    }
    found = rescues_in([folder for folder in rescues if folder.is_dir()], wanted)
    for election in seen:
        for held in found.get(election.partition, ()):
            try:
                first = next(held.records(election.log_end, election.best_end), None)
            except BreakglassError:
                continue
            if first is not None:
                yield election, held.topic_folder / str(election.partition.partition)


T = TypeVar("T")

FOLLOW_SECONDS = 2.0
"""Seconds between two looks at replicas that have what their leader lacks."""


@dataclass(frozen=True, slots=True)
class _Returned:
    """A partition whose new leader has not been read yet."""

    was: Witnessed
    state: PartitionState
    seen_at_ms: int


class Witness:
    """Used by the one thread that reads; `agreed` and `acknowledge` are for any."""

    def __init__(self, client: ReadClient, folder: Path | None = None) -> None:
        self._logs, self._folder = FewLogs(client), folder
        self._store: Observations | None = None
        self._told: dict[TopicPartition, tuple[UUID, tuple[ReplicaLog, ...]]] = {}
        """What replicas reported earlier and the newest evidence lacks."""
        self._returned: dict[TopicPartition, _Returned] = {}
        self._agreed: dict[TopicPartition, int] = {}
        self._changing = threading.Lock()
        self._observations: dict[ElectionKey, Observation] = {}
        self._ours: set[ElectionKey] = set()
        """Elections that were agreed to here: whatever other sessions say of them."""
        self._stamp = (0, 0)
        """The stamp of the file when it was last read."""
        self._follow_at = 0.0
        self.trouble = ""
        """Why the observations could not be written down; empty when they were."""

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The elections of this cluster, the newest first, acknowledged or not."""
        known = tuple(self._observations.values())
        return tuple(
            sorted(known, key=lambda observation: observation.seen.seen_at_ms, reverse=True)
        )

    def agreed(self, designees: Mapping[TopicPartition, int]) -> None:
        """An operator of this process agreed to these leaders and their price."""
        with self._changing:
            self._agreed = {**self._agreed, **designees}

    def acknowledge(self) -> tuple[Observation, ...]:
        """Acknowledge all elections seen so far; returns them, written down or not."""
        with self._changing:
            keys = [observation.key for observation in unacknowledged(self._observations.values())]
            noted = {key: self._observations[key].noted_by(operator(), now_ms()) for key in keys}
            self._observations = {**self._observations, **noted}
            if self._store is not None:
                self._noted(self._store.acknowledge, keys)
        return self.observations

    def remember(self, before: IncidentRow, evidence: PartitionEvidence) -> None:
        """Keep what the row *before* knows and *evidence*, which takes its place, does not."""
        unread = {
            replica.broker for replica in evidence.replicas if isinstance(replica.log_end, Unknown)
        }
        elected = before.state.leader_epoch != evidence.state.leader_epoch
        if before.judged is None or (unread <= set(before.unread) and not elected):
            return  # Thawing takes time, and would add nothing.
        known = before.evidence
        if known is not None and known.state.topic_id == evidence.state.topic_id:
            self._told[before.partition] = (known.state.topic_id, self._witnessed(known).logs)

    def look(
        self, before: Sequence[IncidentRow], rows: Sequence[IncidentRow], snapshot: ClusterSnapshot
    ) -> None:
        """Notice which of the rows *before* are online in *snapshot*; *rows* are offline in it."""
        if self._store is None:
            self._store = Observations(snapshot.cluster_id, self._folder)
            self._share()
        if rows is before:
            return
        then, since = differing(before, rows)
        offline = {row.partition for row in rows[since]}
        for partition in self._returned.keys() & offline:
            was = self._returned.pop(partition).was
            self._told[partition] = (was.state.topic_id, was.logs)
        gone = {row.partition: row for row in before[then] if row.partition not in offline}
        for state in snapshot.partitions if gone else ():
            row = gone.get(state.partition)
            if row is not None and state.leader is not None:
                with self._changing:
                    agreed = self._agreed.pop(state.partition, None)
                evidence = row.evidence
                if state.leader == agreed:
                    self._ours.add((str(state.topic_id), state.partition, state.leader_epoch))
                elif evidence is not None and state.topic_id == row.state.topic_id:
                    self._to_be_read(row, evidence, state, snapshot.observed_at_ms)
        for partition in gone:
            self._told.pop(partition, None)

    def read(self, silent: Collection[int]) -> bool:
        """Read what is left to look at, except from *silent* brokers; true if anything is new."""
        before = self._observations
        # Read new leaders, and keep what they lack.
        of_leader: dict[int, dict[TopicPartition, UUID]] = {}
        for partition, row in self._returned.items():
            if row.state.leader is not None:
                of_leader.setdefault(row.state.leader, {})[partition] = row.state.topic_id
        found: list[ElectionSeen] = []
        for leader, ids in of_leader.items():
            for partition, log in self._logs.read(leader, ids, silent).items():
                if log is not None:
                    back = self._returned.pop(partition)
                    seen = election_seen(back.was, back.state, log, back.seen_at_ms)
                    found += [] if seen is None else [seen]
        self._keep(self._followed(found, silent))
        self._share()
        if time.monotonic() >= self._follow_at:
            unsettled = [
                observation for observation in unacknowledged(before.values()) if observation.open
            ]
            self._keep(self._followed(unsettled, silent))
            self._follow_at = time.monotonic() + FOLLOW_SECONDS
        return self._observations is not before

    def _share(self) -> None:
        """Take in what other sessions have seen of this cluster, and acknowledged."""
        store = self._store
        if store is None or (stamp := store.stamp()) == self._stamp:
            return
        self._stamp = stamp
        try:
            stored = {observation.seen.key: observation for observation in store.load()}
        except StorageError as error:
            self.trouble = str(error)
            return
        with self._changing:
            ours = {
                key: observation
                for key, observation in self._observations.items()
                if observation.acknowledged
            }
            theirs = {
                key: observation for key, observation in stored.items() if key not in self._ours
            }
            self._observations = {**self._observations, **theirs, **ours}

    def _witnessed(self, evidence: PartitionEvidence) -> Witnessed:
        topic_id, logs = self._told.get(evidence.partition, (None, ()))
        return witnessed(evidence, logs if topic_id == evidence.state.topic_id else ())

    def _to_be_read(
        self, row: IncidentRow, evidence: PartitionEvidence, state: PartitionState, seen_at_ms: int
    ) -> None:
        was = self._witnessed(evidence)
        if was.logs:
            # What was known of its ISR is in the newest metadata, not in older evidence.
            was = replace(was, state=row.state)
            self._returned[state.partition] = _Returned(was, state, seen_at_ms)

    def _followed(
        self, seen: Sequence[ElectionSeen], silent: Collection[int]
    ) -> list[ElectionSeen]:
        """*seen* with the present state of the replicas that have what their leader lacks."""
        wanted: dict[int, dict[TopicPartition, UUID]] = {}
        for election in seen:
            for broker in election.open:
                wanted.setdefault(broker, {})[election.partition] = UUID(election.topic_id)
        read = {broker: self._logs.read(broker, ids, silent) for broker, ids in wanted.items()}
        return [
            followed(
                election,
                {
                    broker: read[broker][election.partition]
                    for broker in election.open
                    if election.partition in read[broker]
                },
            )
            for election in seen
        ]

    def _keep(self, seen: Iterable[ElectionSeen]) -> None:
        """Take in elections that are new or changed, and write them down."""
        with self._changing:
            known = dict(self._observations)
            fresh = [
                election
                for election in seen
                if election.key not in known or known[election.key].seen != election
            ]
            for election in fresh:
                before = known.get(election.key, Observation(election, operator()))
                known[election.key] = replace(before, seen=election)
            if fresh and self._store is not None:
                self._observations = known
                self._noted(self._store.add, fresh)

    def _noted(self, write: Callable[[list[T]], None], what: list[T]) -> None:
        """Write *what*; a folder that cannot be written is reported, and stops nothing."""
        try:
            write(what)
        except StorageError as error:
            self.trouble = str(error)
        else:
            self.trouble = ""
