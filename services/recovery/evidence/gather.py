"""Gathers evidence from every broker at once, so that a dead or hung one never hides the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from uuid import UUID

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader
from breakglass.services.kafka.wire.broker_errors import unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.kafka.wire.retry import until
from breakglass.services.model import (
    ClusterSnapshot,
    LogDir,
    PartitionEvidence,
    PartitionState,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.evidence.assemble import BrokerAnswer, assemble
from breakglass.services.recovery.evidence.common_epoch import without_common_epoch
from breakglass.services.recovery.evidence.group_bounds import GroupBounds
from breakglass.services.recovery.evidence.missing_acls import missing_acls
from breakglass.services.recovery.evidence.silence import why_silent

SETTLE_SECONDS = 1.0
"""Silence of some brokers after which the others' evidence is handed out."""

RECHECK_SECONDS = 1.0
"""How often the controller is asked whether a silent broker has been fenced."""

ATTEMPT_SECONDS = 10.0
DEEPER_EPOCHS = (64, 512, 4096)
"""How far histories are read back for replicas that share no epoch so far."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about some partitions at one moment."""

    snapshot: ClusterSnapshot
    partitions: tuple[PartitionEvidence, ...]
    """In the order of the snapshot."""
    silent: dict[int, str]
    """Brokers that have not answered, with the reason."""
    awaited: frozenset[int]
    """Unfenced brokers that may still answer; empty when the gathering is over."""
    missing_acls: tuple[str, ...] = ()
    """What this user would need to be told the rest: ``READ on topic orders``. Topics that it may
    not describe are not among the snapshot's, and cannot be named."""

    @property
    def complete(self) -> tuple[PartitionEvidence, ...]:
        """Partitions whose every replica on an unfenced broker has answered (R15)."""
        return tuple(
            one for one in self.partitions if self.awaited.isdisjoint(one.state.assignment)
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
) -> Iterator[Evidence]:
    """Read every replica of *partitions*; yield evidence as it becomes worth reading.

    Yields once when all brokers answered. Where some stay silent, yields what the others
    said after `SETTLE_SECONDS`, again whenever one more answers, and finally when every
    broker has answered, failed for good or been fenced, or *deadline* has passed. Never
    raises for a broker: its replicas are Unknown with the reason. *stop* is asked every
    `RECHECK_SECONDS`: true ends the waiting.

    Where partitions are gathered in several goes, brokers that stayed silent in an earlier one
    are *unasked*, with the reason, and *groups* have been asked for all of them.
    """
    gathering = _Gathering(client, snapshot, partitions, deadline, native, stop, unasked, groups)
    yield from gathering.run()


@dataclass(frozen=True, slots=True)
class _Finished:
    """What a broker's thread ended with."""

    broker: int
    answer: BrokerAnswer | Exception


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
    ) -> None:
        self._client, self._snapshot, self._native = client, snapshot, native
        self._partitions, self._deadline, self._stop = partitions, deadline, stop
        wanted = [one.partition for one in partitions]
        self._groups = groups or GroupBounds(client, snapshot, wanted, deadline, unasked)
        self._groups_asked = groups is not None
        self._held: dict[int, dict[TopicPartition, UUID]] = {}
        for state in partitions:
            for broker in state.assignment:
                self._held.setdefault(broker, {})[state.partition] = state.topic_id
        self._running = self._held.keys() - unasked.keys()
        self._answers: dict[int, BrokerAnswer] = {}
        self._readers: dict[int, ReplicaReader] = {}
        """They keep the epoch walks, to read histories further back."""
        self._failures = dict(unasked)
        self._finished: queue.SimpleQueue[_Finished] = queue.SimpleQueue()
        self._brokers = snapshot.description

    def run(self) -> Iterator[Evidence]:
        settle = self._deadline.sooner(SETTLE_SECONDS)
        for broker in self._running:
            threading.Thread(target=self._read, args=(broker,), daemon=True).start()
        if self._partitions and not self._groups_asked:
            self._groups.start()
        self._collect_until(settle)
        self._groups.wait(settle)
        while self._awaited() and not self._over:
            began = time.monotonic()
            yield self._evidence()
            spent = time.monotonic() - began
            self._wait_for_news()
            # Judging thousands of partitions anew for each of many late brokers takes longer
            # than they do: who answers meanwhile is taken in with the one that was first.
            self._collect_until(self._deadline.sooner(min(spent, SETTLE_SECONDS)))
        self._collect_until(Deadline.after(0))
        yield self._evidence(final=True)

    @property
    def _over(self) -> bool:
        return self._deadline.passed or self._stop()

    def _awaited(self) -> frozenset[int]:
        """Brokers that are still being asked and may answer yet."""
        return frozenset(one for one in self._running if self._may_answer(one))

    def _may_answer(self, broker: int) -> bool:
        """Neither fenced nor unregistered: such brokers are asked once, and not waited for."""
        unregistered = self._brokers.unregistered((broker,))
        return not unregistered and self._brokers.fenced(broker) is not True

    def _collect_until(self, moment: Deadline) -> None:
        """Take answers until all brokers are done or *moment* has come."""
        while self._running:
            try:
                self._take(self._finished.get(timeout=max(moment.remaining(), 0.001)))
            except queue.Empty:
                return

    def _wait_for_news(self) -> None:
        """Return when a broker has answered, failed or been fenced, or time is up."""
        while not self._over:
            moment = self._deadline.sooner(RECHECK_SECONDS)
            try:
                self._take(self._finished.get(timeout=max(moment.remaining(), 0.001)))
                return
            except queue.Empty:
                before = self._awaited()
                self._recheck()
                if self._awaited() != before:
                    return

    def _take(self, finished: _Finished) -> None:
        self._running.discard(finished.broker)
        if isinstance(finished.answer, Exception):
            self._failures[finished.broker] = why_silent(finished.broker, finished.answer)
        else:
            self._answers[finished.broker] = finished.answer

    def _recheck(self) -> None:
        """Ask again who is fenced; while nobody tells, the last answer stands."""
        try:
            self._brokers = self._client.describe(self._deadline.sooner(RECHECK_SECONDS))
        except BreakglassError:
            return

    def _read(self, broker: int) -> None:
        """A broker's thread: everything it knows, or the error it ended with."""
        limit = self._deadline if self._may_answer(broker) else None
        try:
            answer = self._ask(broker, limit)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, `_take` tells it
            self._finished.put(_Finished(broker, error))
        else:
            self._finished.put(_Finished(broker, answer))

    def _ask(self, broker: int, limit: Deadline | None) -> BrokerAnswer:
        """Read *broker*, again and again until *limit*; once where there is none."""
        if limit is None:
            return self._attempt(broker)

        def attempt() -> BrokerAnswer:
            try:
                return self._attempt(broker)
            except BreakglassError as error:
                # Time may be up before the next attempt fails, too.
                self._failures[broker] = why_silent(broker, error)
                raise

        return until(limit, attempt)

    def _attempt(self, broker: int) -> BrokerAnswer:
        held = self._held[broker]
        deadline = self._deadline.sooner(ATTEMPT_SECONDS)
        reader = self._client.replicas_on(broker, self._native.log_info)
        self._readers[broker] = reader
        tiered = [name for name, one in self._snapshot.settings.items() if one.tiered is True]
        readings = reader.read(held, deadline, tiered=tiered)
        return BrokerAnswer(
            readings=readings,
            log_dirs=self._log_dirs(broker, list(held), deadline),
        )

    def _log_dirs(
        self, broker: int, held: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, LogDir] | Unknown:
        try:
            return self._client.log_dirs(broker, held, deadline)
        except BreakglassError as error:
            return unread(error)

    def _evidence(self, *, final: bool = False) -> Evidence:
        awaited = frozenset() if final else self._awaited()
        silent = {
            one: self._failures.get(one, f"b{one} does not answer (silent so far)")
            for one in self._held
            if one not in self._answers
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
            self._groups.told,
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
                self._deepen_on(broker, [one for one in self._held[broker] if one in lonely], depth)
            partitions = self._assemble({})
        return changed

    def _deepen_on(self, broker: int, lonely: Sequence[TopicPartition], depth: int) -> None:
        """Go on with the epoch walks of *lonely* replicas, and put what they tell in place."""
        reader, answer = self._readers[broker], self._answers[broker]
        try:
            reader.deepen(lonely, depth, self._deadline)
        except BreakglassError:
            # The broker went away meanwhile: what it told before still stands.
            return
        deeper = {one: replace(answer.readings[one], epochs=reader.history(one)) for one in lonely}
        self._answers[broker] = replace(answer, readings={**answer.readings, **deeper})
