"""Gathers evidence from every broker at once, so that a dead or hung one never hides the others.

What consumer groups committed is asked of every coordinator beside the replicas (R11, R17, R19).
A group's coordinator may hold no replica of what is offline, so all live brokers are asked.
A partition of `__consumer_offsets` that is offline hides its own groups and no others (R33).

The answers become one evidence for each partition. They also show which replicas need a longer
epoch history before they can be compared, and which ACLs the user lacks.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol, TypeVar
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    CommittedOffsets,
    GroupOffsets,
    describing,
    groups_unknown,
    read_committed,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader, ReplicaReading
from breakglass.services.kafka.wire.answers import unread
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc, log_info_on
from breakglass.services.model import (
    Denied,
    EpochHistory,
    LogDir,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    TopicSettings,
    Unknown,
    known,
)
from breakglass.services.quick_values import maker, uncollected
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot

T = TypeVar("T")


class Wait(Protocol):
    """Waits for the next report of a thread."""

    def __call__(self, reports: queue.SimpleQueue[T], moment: Deadline, /) -> T:
        """The next of *reports*.

        Raises:
            queue.Empty: *moment* came before it.
        """


def next_report(reports: queue.SimpleQueue[T], moment: Deadline, /) -> T:
    """`Wait` by the clock; what was reported already is taken even if *moment* has passed."""
    return reports.get(timeout=max(moment.remaining(), 0.001))


def why_silent(broker: int, error: Exception) -> str:
    """``b3 does not answer (connection refused)``; any other error keeps its text."""
    if isinstance(error, Unreachable):
        return f"b{broker} does not answer ({error.reason})"
    if isinstance(error, BreakglassError):
        return f"b{broker}: {error}"
    return f"b{broker} answers unreadably ({type(error).__name__}: {error})"


class GroupBounds:
    """Committed offsets of some partitions, collected with a thread for each broker."""

    def __init__(
        self,
        client: ReadClient,
        snapshot: ClusterSnapshot,
        wanted: Collection[TopicPartition],
        deadline: Deadline,
        unasked: Container[int] = (),
        wait: Wait = next_report,
    ) -> None:
        self._client, self._snapshot, self._deadline = client, snapshot, deadline
        self._wait = wait
        self._wanted = frozenset(wanted)
        self._running = {broker for broker in snapshot.live if broker not in unasked}
        self._unasked = {broker for broker in snapshot.live if broker in unasked}
        self._finished: queue.SimpleQueue[tuple[int, CommittedOffsets]] = queue.SimpleQueue()
        self._heard: dict[int, CommittedOffsets] = {}
        self._offline: tuple[TopicPartition, ...] = ()

    def start(self) -> None:
        """Begin to ask; what depends on the offsets' own topic is looked up at once."""
        for broker in self._running:
            threading.Thread(target=self._read, args=(broker,), daemon=True).start()
        self._offline = tuple(
            state.partition for state in self._offsets_partitions() if state.offline
        )

    def wait(self, moment: Deadline) -> None:
        """Take answers until all coordinators have answered, or *moment* has come."""
        while self._running:
            try:
                broker, answer = self._wait(self._finished, moment)
            except queue.Empty:
                return
            self._running.discard(broker)
            self._heard[broker] = answer

    @property
    def heard(self) -> GroupOffsets | Unknown:
        """Committed offsets by partition and group, of all coordinators that have answered by now.

        Unknown when no coordinator has answered.
        """
        self.wait(Deadline.after(0))
        return merged(answer.offsets for answer in self._heard.values())

    @property
    def unread(self) -> tuple[str, ...]:
        """Which groups `heard` may lack, each with the reason; empty where it has them all."""
        reasons = [groups_unknown(self._offline)] if self._offline else []
        for broker in sorted({*self._heard, *self._running, *self._unasked}):
            answer = self._heard.get(broker)
            if answer is None:
                why = "it has not answered"
            else:
                offsets = answer.offsets
                why = offsets.reason if isinstance(offsets, Unknown) else answer.unready
            if why:
                reasons.append(f"groups that b{broker} coordinates are not known: {why}")
        return tuple(reasons)

    @property
    def missing_acls(self) -> frozenset[str]:
        """The rights that this user lacks to read groups that are hidden from it."""
        return frozenset(
            describing(group) for answer in self._heard.values() for group in answer.hidden
        )

    def _read(self, broker: int) -> None:
        self._finished.put(
            (broker, read_committed(self._client.sender, broker, self._wanted, self._deadline))
        )

    def _offsets_partitions(self) -> Iterable[PartitionState]:
        """The states of the offsets topic: from the snapshot, or read where it lacks the topic."""
        states = [
            state for state in self._snapshot.partitions if state.partition.topic == OFFSETS_TOPIC
        ]
        if states:
            return states
        try:
            return self._client.partitions([OFFSETS_TOPIC], self._deadline.sooner(patience.LOOK))
        except BreakglassError:
            # A user that may not describe the topic still gets answers from coordinators.
            return ()


def merged(answers: Iterable[GroupOffsets | Unknown]) -> GroupOffsets | Unknown:
    """All answers of coordinators in one; Unknown with the first reason when none did."""
    everything: GroupOffsets = {}
    refusals: list[Unknown] = []
    answered = False
    for answer in answers:
        if isinstance(answer, Unknown):
            refusals.append(answer)
            continue
        answered = True
        for partition, committed in answer.items():
            everything.setdefault(partition, {}).update(committed)
    if answered:
        return everything
    return refusals[0] if refusals else Unknown("no broker listed its groups")


_NOT_READ = Unknown("the topic's settings were not read")
UNREAD_SETTINGS = TopicSettings(_NOT_READ, _NOT_READ, _NOT_READ, _NOT_READ)

_replica_log = maker(ReplicaLog)
_partition_evidence = maker(PartitionEvidence)


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """Everything that one broker reported."""

    readings: Mapping[TopicPartition, ReplicaReading]
    log_dirs: Mapping[TopicPartition, LogDir] | Unknown


def assemble(
    partitions: Sequence[PartitionState],
    brokers: ClusterDescription,
    settings: Mapping[str, TopicSettings],
    answers: Mapping[int, BrokerAnswer],
    silent: Mapping[int, str],
    groups: GroupOffsets | Unknown,
    groups_unread: tuple[str, ...] = (),
) -> tuple[PartitionEvidence, ...]:
    """The evidence of *partitions*, in their order.

    *silent* maps brokers without an answer to the reason; their replicas are Unknown.
    *groups* has what consumer groups committed, *groups_unread* which groups it may lack.
    """
    assigned = {broker for state in partitions for broker in state.assignment}
    witnesses = {
        broker: _witness(broker, brokers, answers.get(broker), silent.get(broker))
        for broker in assigned
    }
    unregistered = set(brokers.unregistered(tuple(assigned)))
    with uncollected(len(partitions)):
        made = [
            _evidence(
                state,
                settings.get(state.partition.topic, UNREAD_SETTINGS),
                tuple([witnesses[broker].replica(state) for broker in state.assignment]),
                groups,
                unregistered,
                groups_unread,
            )
            for state in partitions
        ]
    return tuple(made)


@dataclass(frozen=True, slots=True)
class _Witness:
    """One broker; what is the same for all its replicas is worked out once."""

    broker: int
    fenced: bool | Unknown
    answer: BrokerAnswer | None
    unread: ReplicaReading
    """Why each replica that the broker did not report is unread."""
    no_log_dir: Unknown
    silent: dict[Role, ReplicaLog] = field(default_factory=dict)
    """Of a broker without an answer: the replica of each role, which says the same everywhere."""

    def replica(self, state: PartitionState) -> ReplicaLog:
        """The broker's replica of one partition."""
        if self.answer is not None:
            partition, dirs = state.partition, self.answer.log_dirs
            reading = self.answer.readings.get(partition) or self.unread
            log_dir = dirs if isinstance(dirs, Unknown) else dirs.get(partition, self.no_log_dir)
            return self._made(state, state.role(self.broker), reading, log_dir)
        role = state.role(self.broker)
        replica = self.silent.get(role)
        if replica is None:
            replica = self.silent[role] = self._made(state, role, self.unread, self.no_log_dir)
        return replica

    def _made(
        self, state: PartitionState, role: Role, reading: ReplicaReading, log_dir: LogDir | Unknown
    ) -> ReplicaLog:
        copy = None
        if isinstance(log_dir, LogDir) and log_dir.future:
            copy, log_dir = log_dir, self.no_log_dir
        online = reading.log_dir_online
        if not isinstance(online, bool):
            online = self._online(state, reading, log_dir)
        # By place: of so many values, names cost more than all that is done with them.
        return _replica_log(
            self.broker,
            role,
            self.fenced,
            self.answer is not None,
            reading.log_start,
            reading.high_watermark,
            reading.log_end,
            reading.leader_epoch,
            reading.epochs,
            reading.newest_ms,
            online,
            log_dir,
            copy,
            reading.source,
            reading.observed_at_ms,
        )

    def _online(
        self, state: PartitionState, reading: ReplicaReading, log_dir: LogDir | Unknown
    ) -> bool | Unknown:
        """A replica that answers is online; one that does not may sit in an offline directory.

        The controller lists replicas of live brokers as offline for nothing else
        (KRaftMetadataCache.getOfflineReplicas), and the broker then answers as if it had none.
        """
        if isinstance(log_dir, LogDir):
            return log_dir.online
        refused = self.answer is not None and self.fenced is False
        if refused and self.broker in state.offline_replicas:
            return False
        return reading.log_dir_online


def _witness(
    broker: int, brokers: ClusterDescription, answer: BrokerAnswer | None, silence: str | None
) -> _Witness:
    if answer is None:
        reason = silence or f"b{broker} was not asked"
        no_log_dir = Unknown(reason)
    else:
        reason = f"b{broker} left this partition out of its answers"
        no_log_dir = Unknown(f"no online log directory of b{broker} holds it")
    unread = ReplicaReading.unread(reason)
    return _Witness(broker, brokers.fenced(broker), answer, unread, no_log_dir)


def _evidence(
    state: PartitionState,
    settings: TopicSettings,
    replicas: tuple[ReplicaLog, ...],
    groups: GroupOffsets | Unknown,
    unregistered: set[int],
    groups_unread: tuple[str, ...],
) -> PartitionEvidence:
    committed: Mapping[str, int] | Unknown = _NOTHING_COMMITTED
    if isinstance(groups, Unknown):
        committed = groups
    elif groups:
        committed = groups.get(state.partition, _NOTHING_COMMITTED)
    floor, source = _floor(replicas, committed)
    strangers: tuple[int, ...] = ()
    if unregistered:
        strangers = tuple([broker for broker in state.assignment if broker in unregistered])
    return _partition_evidence(
        state, replicas, settings, floor, source, committed, strangers, groups_unread
    )


_NOTHING_COMMITTED: Mapping[str, int] = {}


def _floor(
    replicas: Sequence[ReplicaLog], committed: Mapping[str, int] | Unknown
) -> tuple[int | Unknown, str]:
    """The highest offset that is known to have existed, and the source (R11)."""
    floor, broker = -1, 0
    for log in replicas:
        mark = log.high_watermark
        if isinstance(mark, int) and mark > floor:
            floor, broker = mark, log.broker
    source = _mark_of(broker)
    if committed and not isinstance(committed, Unknown):
        for group, offset in committed.items():
            if offset > floor:
                floor, source = offset, f"group {group}"
    return (floor, source) if floor >= 0 else (_NO_FLOOR, "")


@lru_cache(4096)
def _mark_of(broker: int) -> str:
    """One text for all partitions of a broker."""
    return f"high watermark of b{broker}"


_NO_FLOOR = Unknown("no high watermark and no committed offset is known")


def without_common_epoch(partitions: Iterable[PartitionEvidence]) -> frozenset[TopicPartition]:
    """Partitions where two replicas share no known epoch and a longer history can be read."""
    return frozenset(partition.partition for partition in partitions if _lonely(partition))


def _lonely(evidence: PartitionEvidence) -> bool:
    """Neighbours that each share an epoch have a common past with all the others too."""
    read = [log for log in evidence.replicas if known(log.epochs) and not log.empty]
    return any(not _meet(replica, other) for replica, other in pairwise(read))


def _meet(replica: ReplicaLog, other: ReplicaLog) -> bool:
    if not _epochs(replica).isdisjoint(_epochs(other)):
        return True
    return _read_to_its_start(replica) and _read_to_its_start(other)


def _epochs(log: ReplicaLog) -> frozenset[int]:
    ranges = log.epochs.ranges if isinstance(log.epochs, EpochHistory) else ()
    return frozenset(range_.epoch for range_ in ranges)


def _read_to_its_start(log: ReplicaLog) -> bool:
    return (
        isinstance(log.epochs, EpochHistory)
        and isinstance(log.log_start, int)
        and log.epochs.complete_from <= log.log_start
    )


def missing_acls(snapshot: ClusterSnapshot, answers: Iterable[BrokerAnswer]) -> frozenset[str]:
    """``READ on topic orders`` and so on: each would show something that is not known."""
    return frozenset(
        value.needs for value in _values(snapshot, answers) if isinstance(value, Denied)
    )


def _values(snapshot: ClusterSnapshot, answers: Iterable[BrokerAnswer]) -> Iterator[object]:
    """Everything that an ACL may keep from being read."""
    yield snapshot.quorum
    for settings in snapshot.settings.values():
        yield settings.min_insync_replicas
    for state in snapshot.offline:
        yield state.reassignment
    for answer in answers:
        yield answer.log_dirs
        for reading in answer.readings.values():
            yield reading.epochs


DEEPER_EPOCHS = (64, 512, 4096)
"""How far histories are read back for replicas that share no epoch so far."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about some partitions at one moment."""

    snapshot: ClusterSnapshot
    partitions: tuple[PartitionEvidence, ...]
    """The evidence, in the order of the snapshot."""
    silent: dict[int, str]
    """The brokers that have not answered, with the reason."""
    awaited: frozenset[int]
    """Unfenced brokers that may still answer; empty when the gathering is over."""
    missing_acls: tuple[str, ...] = ()
    """The rights that this user lacks to read the rest: ``READ on topic orders``. Topics it may
    not describe are not among the snapshot's, and cannot be named."""

    @property
    def groups_unread(self) -> tuple[str, ...]:
        """Which consumer groups are not known, each with the reason (R33)."""
        told = dict.fromkeys(evidence.groups_unread for evidence in self.partitions)
        return tuple(dict.fromkeys(reason for reasons in told for reason in reasons))

    @property
    def complete(self) -> tuple[PartitionEvidence, ...]:
        """Partitions whose every replica on an unfenced broker has answered (R15)."""
        return tuple(
            evidence
            for evidence in self.partitions
            if self.awaited.isdisjoint(evidence.state.assignment)
        )


_NOBODY: Mapping[int, str] = MappingProxyType({})


def gather(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    partitions: Sequence[PartitionState],
    deadline: Deadline,
    native: NativeRpc = STOCK,
    stop: Callable[[], bool] = lambda: False,
    *,
    unasked: Mapping[int, str] = _NOBODY,
    groups: GroupBounds | None = None,
    wait: Wait = next_report,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Evidence]:
    """Read every replica of *partitions*; yield evidence as it becomes worth reading.

    Yields once when all brokers answered. Where some stay silent, yields what the others
    said after `patience.SETTLE`, again whenever one more answers, and finally when every
    broker has answered, failed for good or been fenced, or *deadline* has passed. Every broker is
    asked again until then: one that is fenced is not waited for, but is as soon as it is unfenced,
    and what it answers is taken in (R25). Never raises for a broker: its replicas are Unknown with
    the reason. *stop* is asked every `patience.RECHECK`: true ends the waiting.

    Where partitions are gathered in several goes, brokers that stayed silent in an earlier one
    are *unasked*, with the reason, and *groups* have been asked for all of them.
    """
    gathering = _Gathering(
        client, snapshot, partitions, deadline, native, stop, unasked, groups, wait, clock
    )
    yield from gathering.run()


@dataclass(frozen=True, slots=True)
class _Report:
    """What a broker's thread came to."""

    broker: int
    answer: BrokerAnswer | Exception
    asks_again: bool = False
    """The broker failed to answer and is asked again, as long as others are waited for."""


class _Over(BreakglassError):
    """The gathering has ended: no broker is asked again."""


class _Gathering:
    """One pass over the brokers: a thread each, their answers collected in one place."""

    def __init__(
        self,
        client: ReadClient,
        snapshot: ClusterSnapshot,
        partitions: Sequence[PartitionState],
        deadline: Deadline,
        native: NativeRpc,
        stop: Callable[[], bool],
        unasked: Mapping[int, str],
        groups: GroupBounds | None,
        wait: Wait,
        clock: Callable[[], float],
    ) -> None:
        self._client, self._snapshot, self._native = client, snapshot, native
        self._partitions, self._deadline, self._stop = partitions, deadline, stop
        self._wait, self._clock = wait, clock
        wanted = [evidence.partition for evidence in partitions]
        self._groups = groups or GroupBounds(client, snapshot, wanted, deadline, unasked, wait)
        self._groups_asked = groups is not None
        self._held: dict[int, dict[TopicPartition, UUID]] = {}
        for state in partitions:
            for broker in state.assignment:
                self._held.setdefault(broker, {})[state.partition] = state.topic_id
        self._running = self._held.keys() - unasked.keys()
        self._answers: dict[int, BrokerAnswer] = {}
        self._readers: dict[int, ReplicaReader] = {}
        """Readers keep their epoch walks, to read histories further back."""
        self._failures = dict(unasked)
        self._tried: set[int] = set()
        """Fenced brokers that failed to answer once, and are not waited for."""
        self._ended = threading.Event()
        self._finished: queue.SimpleQueue[_Report] = queue.SimpleQueue()
        self._brokers = snapshot.description

    def run(self) -> Iterator[Evidence]:
        settle = self._deadline.sooner(patience.SETTLE)
        for broker in self._running:
            threading.Thread(target=self._read, args=(broker,), daemon=True).start()
        if self._partitions and not self._groups_asked:
            self._groups.start()
        self._collect_until(settle)
        if self._partitions:
            self._groups.wait(settle)
        while self._awaited() and not self._over:
            began = self._clock()
            yield self._evidence()
            spent = self._clock() - began
            self._wait_for_news()
            # Judging thousands of partitions again for each of many late brokers takes longer
            # than waiting for them: brokers that answer in that time are taken in together.
            self._collect_until(self._deadline.sooner(min(spent, patience.SETTLE)))
        self._ended.set()
        self._collect_until(Deadline.after(0), last=True)
        yield self._evidence(final=True)

    @property
    def _over(self) -> bool:
        return self._deadline.passed or self._stop()

    def _awaited(self) -> frozenset[int]:
        """Brokers that are still being asked and may answer yet."""
        return frozenset(broker for broker in self._running if self._may_answer(broker))

    def _may_answer(self, broker: int) -> bool:
        """Whether *broker* is neither fenced nor unregistered: those are not waited for."""
        unregistered = self._brokers.unregistered((broker,))
        return not unregistered and self._brokers.fenced(broker) is not True

    def _collect_until(self, moment: Deadline, *, last: bool = False) -> None:
        """Take answers until *moment* or until none is expected; at *last*, all there are."""
        while self._running if last else (self._awaited() | (self._running - self._tried)):
            try:
                self._take(self._wait(self._finished, moment))
            except queue.Empty:
                return

    def _wait_for_news(self) -> None:
        """Return when a broker has answered, failed or been fenced, or time is up."""
        while not self._over:
            moment = self._deadline.sooner(patience.RECHECK)
            try:
                self._take(self._wait(self._finished, moment))
                return
            except queue.Empty:
                before = self._awaited()
                self._recheck()
                if self._awaited() != before:
                    return

    def _take(self, report: _Report) -> None:
        if report.asks_again:
            return
        self._running.discard(report.broker)
        if isinstance(report.answer, Exception):
            if not isinstance(report.answer, _Over):
                self._failures[report.broker] = why_silent(report.broker, report.answer)
        else:
            self._answers[report.broker] = report.answer

    def _recheck(self) -> None:
        """Ask again who is fenced; while nobody answers, the last answer stands."""
        try:
            self._brokers = self._client.describe(self._deadline.sooner(patience.RECHECK))
        except BreakglassError:
            return

    def _read(self, broker: int) -> None:
        """A broker's thread: everything it knows, or the error it ended with."""
        try:
            answer = until(self._deadline, lambda: self._ask(broker))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, `_take` reports it
            self._finished.put(_Report(broker, error))
        else:
            self._finished.put(_Report(broker, answer))

    def _ask(self, broker: int) -> BrokerAnswer:
        if self._ended.is_set():
            raise _Over
        try:
            partitions = self._held[broker]
            deadline = self._deadline.sooner(patience.ONE_BROKER)
            log_info = log_info_on(self._client.sender, broker, self._native, deadline)
            reader = self._client.replicas_on(broker, log_info)
            self._readers[broker] = reader
            tiered = [
                name
                for name, settings in self._snapshot.settings.items()
                if settings.tiered is True
            ]
            readings = reader.read(partitions, deadline, tiered=tiered)
            log_dirs = self._log_dirs(broker, list(partitions), deadline.half())
            return BrokerAnswer(readings=readings, log_dirs=log_dirs)
        except BreakglassError as error:
            # Time may be up before the next attempt fails, too.
            self._failures[broker] = why_silent(broker, error)
            if broker not in self._tried and not self._may_answer(broker):
                self._tried.add(broker)
                self._finished.put(_Report(broker, error, asks_again=True))
            raise

    def _log_dirs(
        self, broker: int, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, LogDir] | Unknown:
        try:
            return self._client.log_dirs(broker, partitions, deadline)
        except BreakglassError as error:
            return unread(error)

    def _evidence(self, *, final: bool = False) -> Evidence:
        awaited = frozenset() if final else self._awaited()
        silent = {
            broker: self._failures.get(broker, f"b{broker} does not answer (silent so far)")
            for broker in self._held
            if broker not in self._answers
        }
        partitions = self._assemble(silent)
        if self._deepen(partitions):
            partitions = self._assemble(silent)
        acls = missing_acls(self._snapshot, self._answers.values()) | self._groups.missing_acls
        return Evidence(self._snapshot, partitions, silent, awaited, tuple(sorted(acls)))

    def _assemble(self, silent: dict[int, str]) -> tuple[PartitionEvidence, ...]:
        return assemble(
            self._partitions,
            self._brokers,
            self._snapshot.settings,
            self._answers,
            silent,
            self._groups.heard,
            self._groups.unread,
        )

    def _deepen(self, partitions: Sequence[PartitionEvidence]) -> bool:
        """Read histories further back where replicas share no epoch; whether any changed."""
        changed = False
        for depth in DEEPER_EPOCHS:
            lonely = without_common_epoch(partitions)
            if not lonely or self._deadline.passed:
                break
            changed = True
            for broker in self._answers:
                self._deepen_on(
                    broker, [replica for replica in self._held[broker] if replica in lonely], depth
                )
            partitions = self._assemble({})
        return changed

    def _deepen_on(self, broker: int, lonely: Sequence[TopicPartition], depth: int) -> None:
        """Continue the epoch walks of *lonely* replicas, and put their histories in place."""
        reader, answer = self._readers[broker], self._answers[broker]
        try:
            reader.deepen(lonely, depth, self._deadline)
        except BreakglassError:
            # The broker went away in the meantime: its earlier answer still stands.
            return
        deeper = {
            replica: replace(answer.readings[replica], epochs=reader.history(replica))
            for replica in lonely
        }
        self._answers[broker] = replace(answer, readings={**answer.readings, **deeper})
