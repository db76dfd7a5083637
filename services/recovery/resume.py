"""Taking up a journal again: what is left is finished under the guards of any election, or undone.

The journal may be a colleague's. What it announced without an outcome may or may not have
happened: the cluster is asked, and the answer journalled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from breakglass.services import patience
from breakglass.services.guard.journal_view import JournalView
from breakglass.services.kafka.election_client import PARTITIONS_A_REQUEST
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import AUTO, STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.course import Course
from breakglass.services.recovery.execution.ladder import climb
from breakglass.services.recovery.execution.record import (
    PARTLY_FAILED,
    SUCCEEDED,
    UNDONE,
    ExecutionJournal,
)
from breakglass.services.recovery.execution.restore_order import restore_orders, undo_orders
from breakglass.services.recovery.execution.run import Recovery, Rescue
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    order_left,
)
from breakglass.services.recovery.triage import judge
from breakglass.services.recovery.unfinished import (
    JournalledPartition,
    Remains,
    Settlement,
    confirmations,
    remains,
    settlements,
    unless_dearer,
)
from breakglass.services.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class JournalSurvey:
    """A journal, and what the cluster says now of its partitions."""

    view: JournalView
    snapshot: ClusterSnapshot
    remains: Remains
    """What is left by the metadata alone: what an undo works on."""
    evidence: Mapping[TopicPartition, PartitionEvidence]
    """Read now, of the partitions without leader."""
    native: NativeRpc

    @property
    def to_finish(self) -> Remains:
        """What is left, without elections whose price is no longer the one that was agreed to."""
        return unless_dearer(self.remains, self.evidence)


def survey(
    client: ReadClient, view: JournalView, duration: float, native_choice: str = AUTO
) -> JournalSurvey:
    """Find out what is left of *view*; brokers have *duration* seconds to report their logs.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
        WrongCluster: the journal is of another cluster.
    """
    snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), topics_of(view))
    left = remains(view, snapshot)
    wanted = {target.partition for target in left.targets}
    offline = [state for state in snapshot.offline if state.partition in wanted]
    if not offline:
        return JournalSurvey(view, snapshot, left, {}, STOCK)
    designees = {target.partition: target.designee for target in left.targets}
    *_, found = judge(
        client,
        snapshot,
        offline,
        duration,
        native_choice,
        chosen=lambda evidence: designees.get(evidence.partition),
    )
    evidence = {assessment.partition: assessment.evidence for assessment in found.assessments}
    return JournalSurvey(view, snapshot, left, evidence, found.native)


@dataclass(frozen=True, slots=True)
class Resume:
    """Continues a resumed journal; *recovery* writes into that journal.

    Both ways are iterated to their end, or stop between two batches when `Recovery.stop` says
    so; `ended_as` says how the journal records that.
    """

    recovery: Recovery
    survey: JournalSurvey

    def finish(self) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Confirm what was elected, put its order back (R13), and elect the rest.

        Yields outcomes batch by batch; those of `Remains.done` first.
        """
        found = self.survey.to_finish
        self._settle()
        yield from self._finish(found)

    def undo(self) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Put the order back of partitions still without leader, where it is what was written.

        Elections are not undone: a partition that has a leader is reported as refused.
        """
        found = self.survey.remains
        self._settle()
        yield from self._undo(found)

    def _settle(self) -> None:
        states = {state.partition: state for state in self.survey.snapshot.partitions}
        self._note(settlements(self.survey.view, states))

    def _note(self, settled: Iterator[Settlement]) -> None:
        for request, items in settled:
            self.recovery.journal.outcome(request, items)

    def _restore(
        self, batch: tuple[PartitionOutcome, ...], parts: Sequence[JournalledPartition]
    ) -> tuple[PartitionOutcome, ...]:
        """*batch*, with orders put back that were written before and still stand."""
        ours = {part.target.partition for part in parts if part.ours}
        kept = tuple(
            outcome
            for outcome in batch
            if outcome.partition in ours and outcome.order_restored is None
        )
        restored = restore_orders(
            self.recovery.client,
            self._observer,
            self.recovery.journal,
            kept,
            Deadline.after(self.recovery.limits.read),
        )
        by_partition = {outcome.partition: outcome for outcome in restored}
        return tuple(by_partition.get(outcome.partition, outcome) for outcome in batch)

    def _finish(self, found: Remains) -> Iterator[tuple[PartitionOutcome, ...]]:
        if found.done:
            yield found.done
        course = Course()
        if found.led:
            # The designees' own word (R6), then the orders that are still ours.
            limits, observer = self.recovery.limits, self._observer
            targets = [part.target for part in found.led]
            confirmed = observer.confirm(targets, Deadline.after(limits.confirmation))
            self._note(confirmations(self.survey.view, confirmed))
            restored = self._restore(tuple(confirmed.values()), found.led)
            led = climb(observer, restored, Deadline.after(limits.ladder))
            course.learn(led)
            yield led
        if found.targets:
            rescue = self.recovery.rescue
            if rescue is not None:
                rescue = _WithoutRescued(rescue, found.rescued)
            for batch in replace(self.recovery, rescue=rescue).run(found.targets, course):
                # Where leaders are designated, an order written before is still to be put back.
                yield self._still_written(self._restore(batch, found.offline), found.offline)

    def _still_written(
        self, batch: tuple[PartitionOutcome, ...], parts: Sequence[JournalledPartition]
    ) -> tuple[PartitionOutcome, ...]:
        """*batch*, saying of which the order stands that was written before this was resumed."""
        ours = {part.target.partition for part in parts if part.ours}
        return tuple(
            order_left(outcome)
            if outcome.partition in ours and outcome.order_restored is None
            else outcome
            for outcome in batch
        )

    def _undo(self, found: Remains) -> Iterator[tuple[PartitionOutcome, ...]]:
        online = [part.target for part in found.led] + [part.target for part in found.done]
        rest = iter([*found.targets, *online])
        while batch := tuple(islice(rest, PARTITIONS_A_REQUEST)):
            if self.recovery.stop():
                yield tuple(
                    PartitionOutcome(target, RecoveryResult.NOT_ATTEMPTED, "stopped on request")
                    for target in batch
                )
                continue
            limits = self.recovery.limits
            only = {target.partition for target in batch}
            topics = sorted({partition.topic for partition in only})
            reading = self.recovery.client.reading()
            snapshot = reading.snapshot(Deadline.after(limits.read), topics, only)
            yield undo_orders(
                self.recovery.client,
                snapshot,
                self.recovery.journal,
                batch,
                Deadline.after(limits.election),
            )

    @property
    def _observer(self) -> Observer:
        return Observer(self.recovery.client.reading())


@dataclass(frozen=True, slots=True)
class _WithoutRescued:
    """A rescue without the partitions that were saved already."""

    rescue: Rescue
    rescued: Collection[TopicPartition]

    def needed(self, target: ElectionTarget) -> bool:
        return target.partition not in self.rescued and self.rescue.needed(target)

    def save(
        self, targets: Sequence[ElectionTarget], journal: ExecutionJournal
    ) -> Mapping[TopicPartition, str]:
        unsaved = [target for target in targets if target.partition not in self.rescued]
        return self.rescue.save(unsaved, journal)


def topics_of(view: JournalView) -> list[str]:
    """The topics that *view* is about."""
    named = set(view.plan.items) if view.plan is not None else set()
    for step in view.steps:
        named.update(step.items)
    return sorted({partition.topic for partition in named})


def ended_as(
    found: Remains, outcomes: Sequence[PartitionOutcome], *, undone: bool = False
) -> str | None:
    """How the journal records the end; None where the run was stopped and can be resumed."""
    if any(outcome.result is RecoveryResult.NOT_ATTEMPTED for outcome in outcomes):
        return None
    if found.left or not all(outcome.complete for outcome in outcomes):
        return PARTLY_FAILED
    return UNDONE if undone else SUCCEEDED
