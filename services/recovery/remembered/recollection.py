"""All that this account knows of a cluster from before: replicas heard, journals of elections.

Journals of colleagues count as well, where their files or folders are named.

A broker that an election passed over truncates partitions that have a leader when it starts (R27).
Journals name the brokers that an election gave up. What was heard of a broker, and the epochs of
the present leaders, show it as well, by whatever command: a log that goes on past its divergence
from the leader's is cut there when its broker starts. If nothing was heard of a broker, epochs that
are missing from the leader's log show that it may have been passed over (R46).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema
from breakglass.services.guard.journal import JournalView, read
from breakglass.services.guard.lock import file_name
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.evidence.few_logs import FewLogs
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.succession import PassedOver
from breakglass.services.recovery.remembered.store import (
    HeardLog,
    ReplicaMemory,
    key_of,
    leaders_of,
)
from breakglass.services.recovery.timeline.ending import endings_of
from breakglass.services.snapshot import ClusterSnapshot
from breakglass.services.state_folder import state_folder
from breakglass.services.words.moments import time_text


@dataclass(frozen=True, slots=True)
class Abandonment:
    """A broker whose unread log an election of one partition gave up, by a journal."""

    partition: TopicPartition
    topic_id: str
    broker: int
    leader_epoch: int
    """The partition's leader epoch before the election."""
    at_ms: int
    journal: str
    """The name of the journal."""


def abandonments_in(view: JournalView) -> Iterator[Abandonment]:
    """Whom the elections of *view* gave up, those included whose outcome is unknown."""
    planned = view.plan.items if view.plan is not None else {}
    for ending in endings_of(view):
        item = planned.get(ending.partition, {})
        if not ending.abandons or not ending.may_be_led:
            continue
        epoch = item.get("leader_epoch")
        at_ms = max((step.request.at_ms for step in view.steps_of(ending.partition)), default=0)
        for broker in ending.abandons:
            if broker != ending.leader:
                yield Abandonment(
                    ending.partition,
                    str(item.get("topic_id", "")),
                    broker,
                    epoch if isinstance(epoch, int) else -1,
                    at_ms,
                    view.path.stem,
                )


ElectionKey = tuple[str, TopicPartition, int]
"""Topic id, partition, and the leader epoch that began with the election."""


def elections_in(view: JournalView) -> Iterator[tuple[ElectionKey, int]]:
    """The elections of *view* that ended as they were agreed to, each with its leader."""
    planned = view.plan.items if view.plan is not None else {}
    for ending in endings_of(view):
        leader, epoch = ending.leader, ending.leader_epoch
        if leader is not None and epoch is not None and ending.result == RecoveryResult.ELECTED:
            topic_id = str(planned.get(ending.partition, {}).get("topic_id", ""))
            yield (topic_id, ending.partition, epoch), leader


def standing(
    abandonments: Collection[Abandonment],
    states: Mapping[TopicPartition, PartitionState],
    ran_at: Callable[[int], int],
    *,
    whole: bool,
) -> dict[int, PassedOver]:
    """The brokers of *abandonments* that have not run since, and were not found safe to start.

    *states* are those of all partitions where *whole*. *ran_at* says when a broker was last heard,
    or its disk found to lose nothing by a start.
    """
    of_election: dict[tuple[str, int], list[Abandonment]] = {}
    ran = {broker: ran_at(broker) for broker in {one.broker for one in abandonments}}
    for one in abandonments:
        of_election.setdefault((one.journal, one.broker), []).append(one)
        if _returned(one, states.get(one.partition)):
            # Who has followed a leader since one election has run since all before it.
            ran[one.broker] = max(ran[one.broker], one.at_ms)
    found: dict[int, list[Abandonment]] = {}
    for (_, broker), given_up in of_election.items():
        if ran[broker] > max(one.at_ms for one in given_up):
            continue
        if any(_returned(one, states.get(one.partition)) for one in given_up):
            continue
        left = [one for one in given_up if _stands(one, states.get(one.partition), whole=whole)]
        if left:
            found.setdefault(broker, []).extend(left)
    return {broker: _passed_over(broker, left) for broker, left in sorted(found.items())}


def _passed_over(broker: int, left: list[Abandonment]) -> PassedOver:
    newest = max(left, key=lambda one: one.at_ms)
    partitions = tuple(sorted({one.partition for one in left}))
    return PassedOver(broker, partitions, newest.at_ms, f"journal {newest.journal}")


def _same(one: Abandonment, state: PartitionState) -> bool:
    return not one.topic_id or one.topic_id == str(state.topic_id)


def _returned(one: Abandonment, state: PartitionState | None) -> bool:
    """Whether the broker has followed a leader since the election, which cut its log already."""
    if state is None or not _same(one, state) or state.leader_epoch <= one.leader_epoch:
        return False
    elr = state.elr if isinstance(state.elr, tuple) else ()
    last = state.last_known_elr if isinstance(state.last_known_elr, tuple) else ()
    return state.leader == one.broker or one.broker in (*state.isr, *elr, *last)


def _stands(one: Abandonment, state: PartitionState | None, *, whole: bool) -> bool:
    """Whether the partition is still the one that was elected without the broker."""
    if state is None:
        return not whole
    return _same(one, state) and state.leader_epoch > one.leader_epoch


def cut_by_leader(heard: HeardLog, leader: ReplicaLog) -> bool:
    """Whether the log that was *heard* goes on past its divergence from that of the *leader*."""
    if not holds_records(heard.log):
        return False
    parting = divergence(heard.log, leader)
    end = heard.log.log_end
    return isinstance(parting, int) and isinstance(end, int) and parting < end


def unled_after(
    leader: ReplicaLog | None, leader_epoch: int, *, unclean: bool = False
) -> int | None:
    """The last leader epoch before a time without leader, by the log of the *leader* now (R46).

    With *unclean* elections a partition gets its next leader at once: any change may have been one.
    So may each where the log of the leader, or its epochs, could not be read.

    A partition that loses its leader gets an epoch in which nobody writes, and the next leader one
    more. So a missing epoch may be such a time, and who wrote before it may have been passed over;
    an idle leader's epoch is missing, too, and so are those of records that were deleted. None: the
    known epochs follow each other from the first one on.
    """
    if unclean or leader is None or isinstance(leader.epochs, Unknown):
        return leader_epoch - 1 if leader_epoch > 0 else None
    written = [held.epoch for held in leader.epochs.ranges]
    first = [0] if leader.log_start == 0 and leader.epochs.complete_from == 0 else []
    epochs = [*first, *written, leader_epoch]
    gaps = [before for before, after in pairwise(epochs) if after - before > 1]
    if gaps:
        return gaps[-1]
    return epochs[0] - 1 if epochs[0] > 0 else None


def merged(*found: Mapping[int, PassedOver]) -> dict[int, PassedOver]:
    """Of each broker all partitions, with the source that names most of them."""
    together: dict[int, list[PassedOver]] = {}
    for some in found:
        for broker, one in some.items():
            together.setdefault(broker, []).append(one)
    return {broker: _one_of(held) for broker, held in sorted(together.items())}


def _one_of(held: list[PassedOver]) -> PassedOver:
    held = [one for one in held if one.proved] or held
    first = max(held, key=lambda one: len(one.partitions))
    partitions = tuple(sorted({name for one in held for name in one.partitions}))
    return replace(first, partitions=partitions)


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
    elected: Mapping[ElectionKey, int] = field(default_factory=dict)
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
        """The brokers that are down, of whose logs current leaders lack something, or may (R46).

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

    def elected(self) -> dict[ElectionKey, int]:
        """The elections that journals know of, with their leaders: each was agreed to."""
        return {key: one for held in self._read_journals() for key, one in held.elected.items()}

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
        return _Read(stamp, tuple(abandonments_in(view)), dict(elections_in(view)))

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
