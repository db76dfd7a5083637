"""All that this account knows of a cluster from before: replicas heard, journals of elections.

Journals of colleagues count as well, where their files or folders are named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema
from breakglass.services.guard.journal import read
from breakglass.services.guard.lock import file_name
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionEvidence, Role, TopicPartition
from breakglass.services.recovery.evidence.few_logs import FewLogs
from breakglass.services.recovery.judgement.starting import PassedOver
from breakglass.services.recovery.remembered.heard import HeardLog, key_of, leaders_of
from breakglass.services.recovery.remembered.passed_over import (
    Abandonment,
    ElectionKey,
    abandonments_in,
    cut_by_leader,
    elections_in,
    merged,
    standing,
    unled_after,
)
from breakglass.services.recovery.remembered.store import ReplicaMemory
from breakglass.services.snapshot import ClusterSnapshot
from breakglass.services.state_folder import state_folder
from breakglass.services.words.moments import time_text

SHARED = "BREAKGLASS_JOURNALS"
"""The environment variable that names journals of colleagues, written like PATH."""
MOST_JOURNALS = 200
"""The newest ones are read."""
MOST_BYTES = 256 * 1024 * 1024
"""Journals that are larger are named, and not read each time that somebody looks."""


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int]
    abandonments: tuple[Abandonment, ...]
    elected: frozenset[ElectionKey] = frozenset()
    trouble: str = ""


class Recollection:
    """What is known of one cluster from before. For one thread."""

    def __init__(
        self, cluster_id: str, folder: Path | None = None, journals: Sequence[Path] = ()
    ) -> None:
        self.memory = ReplicaMemory(cluster_id, folder)
        self._cluster_id = cluster_id
        self.folder = folder
        """The state folder; None: the user's own."""
        self._own = (folder or state_folder()) / "journal" / file_name(cluster_id)
        # The journals, and folders of journals, that the environment names.
        self._named = (
            *journals,
            *[Path(named) for named in os.environ.get(SHARED, "").split(os.pathsep) if named],
        )
        self._journals: dict[Path, _Read] = {}

    @property
    def troubles(self) -> tuple[str, ...]:
        """What could not be read or written, each in a sentence."""
        told = [self.memory.trouble, *(held.trouble for held in self._journals.values())]
        return tuple(trouble for trouble in told if trouble)

    def journal_stamps(self) -> dict[Path, tuple[int, int]]:
        """Size and time of the last change of each journal."""
        return {path: _stamp(path) for path in self._paths()}

    def recalled(self, partitions: Iterable[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        """*partitions*, just read, with what is remembered of the logs that could not be read."""
        return self.memory.recalled(partitions)

    def passed_over(self, snapshot: ClusterSnapshot, *, whole: bool) -> dict[int, PassedOver]:
        """Whom elections passed over, by journals; *whole* if *snapshot* has all topics."""
        abandonments = list(self._abandonments())
        if not abandonments:
            return {}
        wanted = {one.partition for one in abandonments}
        states = {
            state.partition: state for state in snapshot.partitions if state.partition in wanted
        }
        return standing(abandonments, states, self._ran_at, whole=whole)

    def kept_down(self, snapshot: ClusterSnapshot, *, whole: bool) -> dict[int, str]:
        """The brokers that are down and were EMPTY in an offline partition they may lead, and why.

        One partition is enough: a start is of the whole broker (R2). *whole* if *snapshot* has all
        topics, so that a partition it lacks was deleted.
        """
        emptied = self.memory.emptied()
        if not emptied:
            return {}
        wanted = {partition for _, partition in emptied}
        states = {
            key_of(state): state for state in snapshot.partitions if state.partition in wanted
        }
        running = {broker.id for broker in snapshot.brokers if broker.fenced is False}
        found: dict[int, list[tuple[TopicPartition, int]]] = {}
        for key, brokers in emptied.items():
            state = states.get(key)
            if (state is None and whole) or (state is not None and not state.offline):
                continue
            for broker, at_ms in brokers.items():
                may_lead = state is None or state.role(broker) is not Role.STALE
                if broker not in running and may_lead:
                    found.setdefault(broker, []).append((key[1], at_ms))
        return {broker: _emptied(sorted(held)) for broker, held in found.items()}

    def cut_by_leaders(
        self, client: ReadClient, snapshot: ClusterSnapshot
    ) -> dict[int, PassedOver]:
        """The brokers that are down, of whose logs present leaders lack something, or may (R46).

        A log that was heard is compared with the leader's. Of others the epochs of the leader say
        whether they may have been passed over; only brokers that an offline partition waits for.
        """
        live, remembered = set(snapshot.live), set(self.memory.partitions())
        waited = {broker for state in snapshot.offline for broker in state.assignment} - live
        wanted = [
            (state, broker)
            for state in snapshot.partitions
            if state.leader is not None
            for broker in state.assignment
            if broker not in live
            and broker not in state.isr
            and (broker in waited or key_of(state) in remembered)
        ]
        logs = FewLogs(client).of_leaders([state for state, _ in wanted])
        topics = sorted({state.partition.topic for state, _ in wanted})
        settings = client.settings(topics, Deadline.after(patience.REQUEST))
        lacking: dict[int, list[tuple[TopicPartition, HeardLog]]] = {}
        doubtful: dict[int, list[TopicPartition]] = {}
        for state, broker in wanted:
            leader = logs.get(state.partition)
            heard = self.memory.heard(key_of(state)).get(broker)
            own = settings.get(state.partition.topic)
            unclean = own is None or own.unclean_election is not False
            before = unled_after(leader, state.leader_epoch, unclean=unclean)
            if heard is not None and leader is not None and cut_by_leader(heard, leader):
                lacking.setdefault(broker, []).append((state.partition, heard))
            elif before is not None and (heard is None or heard.leader_epoch <= before):
                doubtful.setdefault(broker, []).append(state.partition)
        checked, unread = self.memory.checked, "leader epochs are missing there, or were not read"
        return merged(
            {
                broker: PassedOver(broker, tuple(sorted(names)), 0, unread, proved=False)
                for broker, names in doubtful.items()
                if broker in waited
                and self.memory.checked_under(broker) != leaders_of(broker, snapshot.partitions)
            },
            {
                broker: PassedOver(
                    broker,
                    tuple(sorted(name for name, _ in held)),
                    max(heard.at_ms for _, heard in held),
                    "its log was read and goes on where the leaders' epochs do not",
                )
                for broker, held in lacking.items()
                if max(heard.at_ms for _, heard in held) > checked(broker)
            },
        )

    def all_passed_over(
        self, client: ReadClient, snapshot: ClusterSnapshot, *, whole: bool
    ) -> dict[int, PassedOver]:
        """`passed_over` and `cut_by_leaders` together."""
        return merged(
            self.passed_over(snapshot, whole=whole), self.cut_by_leaders(client, snapshot)
        )

    def elected(self) -> frozenset[ElectionKey]:
        """The elections that journals know of: each was agreed to."""
        return frozenset().union(*[held.elected for held in self._read_journals()])

    def _ran_at(self, broker: int) -> int:
        """When *broker* was heard or checked last; a moment that is to come proves nothing."""
        moments = (self.memory.last_heard(broker), self.memory.checked(broker))
        return max((moment for moment in moments if moment <= now_ms()), default=0)

    def _abandonments(self) -> Iterator[Abandonment]:
        for held in self._read_journals():
            yield from held.abandonments

    def _read_journals(self) -> Iterable[_Read]:
        held: dict[Path, _Read] = {}
        for path in self._paths():
            known = self._journals.get(path)
            stamp = _stamp(path)
            held[path] = (
                known if known is not None and known.stamp == stamp else self._journal(path, stamp)
            )
        self._journals = held
        return held.values()

    def _journal(self, path: Path, stamp: tuple[int, int]) -> _Read:
        """What the journal at *path* tells; nothing if it is of another cluster."""
        if stamp[0] > MOST_BYTES:
            large = f"journal {path} has {stamp[0]:,} bytes and is not read again"
            return _Read(stamp, (), trouble=large)
        try:
            view = read(path)
        except (MalformedInput, UnsupportedSchema, StorageError) as error:
            return _Read(stamp, (), trouble=f"{error}; whom its elections gave up is not known")
        if view.cluster_id != self._cluster_id:
            return _Read(stamp, ())
        return _Read(stamp, tuple(abandonments_in(view)), frozenset(elections_in(view)))

    def _paths(self) -> list[Path]:
        """Journals of this cluster: the newest of this account, and those that were named."""
        found = {path.resolve(): path for path in self._own.glob("*.jsonl")}
        for named in self._named:
            below = named.rglob("*.jsonl") if named.is_dir() else (named,)
            found |= {
                path.resolve(): path
                for path in below
                if not named.is_dir() or path.parent.name in (named.name, self._own.name)
            }
        newest = sorted(found.values(), key=lambda path: path.name, reverse=True)
        return newest[:MOST_JOURNALS]


def _emptied(held: Sequence[tuple[TopicPartition, int]]) -> str:
    more = f" and {len(held) - 1:,} more" if held[1:] else ""
    at = time_text(max(at_ms for _, at_ms in held))
    return (
        f"keep it down: it was EMPTY in {held[0][0]}{more}, where others hold records, at {at}; "
        "started, it leads there, and they follow it to 0"
    )


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
