"""Gathers evidence from every broker at once, so that a dead or hung one never hides the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader
from breakglass.services.kafka.wire.answers import unread
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc, log_info_on
from breakglass.services.model import (
    LogDir,
    PartitionEvidence,
    PartitionState,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.evidence.assemble import (
    BrokerAnswer,
    assemble,
    missing_acls,
    without_common_epoch,
)
from breakglass.services.recovery.evidence.group_bounds import GroupBounds
from breakglass.services.recovery.evidence.reports import Wait, next_report, why_silent
from breakglass.services.snapshot import ClusterSnapshot

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

    def _expected(self) -> frozenset[int]:
        """Brokers that are waited for, and fenced ones whose first try has not ended."""
        return self._awaited() | (self._running - self._tried)

    def _may_answer(self, broker: int) -> bool:
        """Whether *broker* is neither fenced nor unregistered: those are not waited for."""
        unregistered = self._brokers.unregistered((broker,))
        return not unregistered and self._brokers.fenced(broker) is not True

    def _collect_until(self, moment: Deadline, *, last: bool = False) -> None:
        """Take answers until *moment* or until none is expected; at *last*, all there are."""
        while self._running if last else self._expected():
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
            return self._attempt(broker)
        except BreakglassError as error:
            # Time may be up before the next attempt fails, too.
            self._failures[broker] = why_silent(broker, error)
            if broker not in self._tried and not self._may_answer(broker):
                self._tried.add(broker)
                self._finished.put(_Report(broker, error, asks_again=True))
            raise

    def _attempt(self, broker: int) -> BrokerAnswer:
        partitions = self._held[broker]
        deadline = self._deadline.sooner(patience.ONE_BROKER)
        log_info = log_info_on(self._client.sender, broker, self._native, deadline)
        reader = self._client.replicas_on(broker, log_info)
        self._readers[broker] = reader
        tiered = [
            name for name, settings in self._snapshot.settings.items() if settings.tiered is True
        ]
        readings = reader.read(partitions, deadline, tiered=tiered)
        return BrokerAnswer(
            readings=readings, log_dirs=self._log_dirs(broker, list(partitions), deadline)
        )

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
