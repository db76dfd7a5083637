"""Taking up a journal again: what is left is finished under the guards of any election, or undone.

The journal may be a colleague's. What it announced without an outcome may or may not have
happened: the cluster is asked, and the journal told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from breakglass.services.guard.journal_view import JournalView
from breakglass.services.kafka.election_client import PARTITIONS_A_REQUEST
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import AUTO, STOCK, NativeRpc
from breakglass.services.model import ClusterSnapshot, PartitionEvidence, TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.course import Course
from breakglass.services.recovery.execution.ladder import climb
from breakglass.services.recovery.execution.record import (
    PARTLY_FAILED,
    SUCCEEDED,
    UNDONE,
    ExecutionJournal,
)
from breakglass.services.recovery.execution.restore_order import restore_orders
from breakglass.services.recovery.execution.run import Recovery, Rescue
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    order_left,
)
from breakglass.services.recovery.execution.undo_order import undo_orders
from breakglass.services.recovery.triage import SNAPSHOT_SECONDS, judge
from breakglass.services.recovery.unfinished import (
    JournalledPartition,
    Remains,
    Settlement,
    confirmations,
    remains,
    settlements,
    unless_dearer,
)


@dataclass(frozen=True, slots=True)
class JournalSurvey:
    """A journal, and what the cluster says now of all that it is about."""

    view: JournalView
    snapshot: ClusterSnapshot
    remains: Remains
    """As the metadata has it: what there is to undo."""
    evidence: Mapping[TopicPartition, PartitionEvidence]
    """Read now, of the partitions without leader."""
    native: NativeRpc

    @property
    def to_finish(self) -> Remains:
        """The same, without elections that would cost another price than was agreed to."""
        return unless_dearer(self.remains, self.evidence)


def survey(
    client: ReadClient, view: JournalView, duration: float, native_choice: str = AUTO
) -> JournalSurvey:
    """Find out what is left of *view*; brokers have *duration* seconds to tell their logs.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
        WrongCluster: the journal is of another cluster.
    """
    snapshot = client.snapshot(Deadline.after(SNAPSHOT_SECONDS), topics_of(view))
    left = remains(view, snapshot)
    wanted = {one.partition for one in left.targets}
    offline = [one for one in snapshot.offline if one.partition in wanted]
    if not offline:
        return JournalSurvey(view, snapshot, left, {}, STOCK)
    designees = {one.partition: one.designee for one in left.targets}
    *_, found = judge(
        client,
        snapshot,
        offline,
        duration,
        native_choice,
        chosen=lambda evidence: designees.get(evidence.partition),
    )
    evidence = {one.partition: one.evidence for one in found.assessments}
    return JournalSurvey(view, snapshot, left, evidence, found.native)


@dataclass(frozen=True, slots=True)
class Resume:
    """What a resumed journal is carried on with; *recovery* writes into that journal.

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

        Elections are not undone: what has a leader is told as refused.
        """
        found = self.survey.remains
        self._settle()
        yield from self._undo(found)

    def _settle(self) -> None:
        states = {one.partition: one for one in self.survey.snapshot.partitions}
        self._note(settlements(self.survey.view, states))

    def _note(self, settled: Iterator[Settlement]) -> None:
        for request, items in settled:
            self.recovery.journal.outcome(request, items)

    def _confirm(self, led: Sequence[JournalledPartition]) -> tuple[PartitionOutcome, ...]:
        """The designees' own word (R6), then the orders that are still ours."""
        limits, observer = self.recovery.limits, self._observer
        targets = [one.target for one in led]
        confirmed = observer.confirm(targets, Deadline.after(limits.confirmation))
        self._note(confirmations(self.survey.view, confirmed))
        restored = self._restore(tuple(confirmed.values()), led)
        return climb(observer, restored, Deadline.after(limits.ladder))

    def _restore(
        self, batch: tuple[PartitionOutcome, ...], parts: Sequence[JournalledPartition]
    ) -> tuple[PartitionOutcome, ...]:
        """*batch* with the orders put back that were written before, and nobody put back yet."""
        ours = {one.target.partition for one in parts if one.ours}
        kept = tuple(one for one in batch if one.partition in ours and one.order_restored is None)
        restored = restore_orders(
            self.recovery.client,
            self._observer,
            self.recovery.journal,
            kept,
            Deadline.after(self.recovery.limits.read),
        )
        by_partition = {one.partition: one for one in restored}
        return tuple(by_partition.get(one.partition, one) for one in batch)

    def _finish(self, found: Remains) -> Iterator[tuple[PartitionOutcome, ...]]:
        if found.done:
            yield found.done
        course = Course()
        if found.led:
            led = self._confirm(found.led)
            course.learn(led)
            yield led
        if found.targets:
            yield from self._elect(found, course)

    def _elect(self, found: Remains, course: Course) -> Iterator[tuple[PartitionOutcome, ...]]:
        rescue = self.recovery.rescue
        if rescue is not None:
            rescue = _WithoutRescued(rescue, found.rescued)
        for batch in replace(self.recovery, rescue=rescue).run(found.targets, course):
            # Where leaders are designated, an order written before them is still to be put back.
            yield self._still_written(self._restore(batch, found.offline), found.offline)

    def _still_written(
        self, batch: tuple[PartitionOutcome, ...], parts: Sequence[JournalledPartition]
    ) -> tuple[PartitionOutcome, ...]:
        """*batch*, saying of which the order stands that was written before this was resumed."""
        ours = {part.target.partition for part in parts if part.ours}
        return tuple(
            order_left(one) if one.partition in ours and one.order_restored is None else one
            for one in batch
        )

    def _undo(self, found: Remains) -> Iterator[tuple[PartitionOutcome, ...]]:
        online = [one.target for one in found.led] + [one.target for one in found.done]
        rest = iter([*found.targets, *online])
        while batch := tuple(islice(rest, PARTITIONS_A_REQUEST)):
            if self.recovery.stop():
                yield tuple(
                    PartitionOutcome(one, RecoveryResult.NOT_ATTEMPTED, "stopped on request")
                    for one in batch
                )
                continue
            limits = self.recovery.limits
            only = {one.partition for one in batch}
            topics = sorted({one.topic for one in only})
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
    """A rescue of all but what has been saved already."""

    rescue: Rescue
    rescued: Collection[TopicPartition]

    def needed(self, target: ElectionTarget) -> bool:
        return target.partition not in self.rescued and self.rescue.needed(target)

    def save(
        self, targets: Sequence[ElectionTarget], journal: ExecutionJournal
    ) -> Mapping[TopicPartition, str]:
        unsaved = [one for one in targets if one.partition not in self.rescued]
        return self.rescue.save(unsaved, journal)


def topics_of(view: JournalView) -> list[str]:
    """The topics that *view* is about."""
    named = set(view.plan.items) if view.plan is not None else set()
    for step in view.steps:
        named.update(step.items)
    return sorted({one.topic for one in named})


def ended_as(
    found: Remains, outcomes: Sequence[PartitionOutcome], *, undone: bool = False
) -> str | None:
    """How the journal records the end; None where the run was stopped and can be resumed."""
    if any(outcome.result is RecoveryResult.NOT_ATTEMPTED for outcome in outcomes):
        return None
    if found.left or not all(outcome.complete for outcome in outcomes):
        return PARTLY_FAILED
    return UNDONE if undone else SUCCEEDED
