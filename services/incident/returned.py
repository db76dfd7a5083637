"""What became of partitions that came back while nobody looked: compared with what was heard.

A watch sees a partition come back. A command that comes later has only the memory of what replicas
reported while the partition was offline: where its leader has less, that is an election which cost
records, by whatever command, and is written down as one (`observations`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from breakglass.services.errors import BreakglassError
from breakglass.services.incident.elections_seen import (
    ElectionSeen,
    Witnessed,
    election_seen,
    followed,
)
from breakglass.services.incident.observations import Observations
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import PartitionState, ReplicaLog, TopicPartition
from breakglass.services.recovery.evidence.few_logs import FewLogs
from breakglass.services.recovery.remembered.heard import Heard, Key, key_of
from breakglass.services.recovery.remembered.recollection import Recollection
from breakglass.services.recovery.rescue.rescued_folder import rescues_in
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
    agreed = known.elected()
    for state in snapshot.partitions:
        key = key_of(state)
        if state.leader is None or key not in remembered:
            continue
        if memory.compared(key) >= state.leader_epoch or (*key, state.leader_epoch) in agreed:
            continue
        was = _witnessed(state, memory.heard(key))
        if was is not None:
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
