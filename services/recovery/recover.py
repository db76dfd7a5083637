"""One guarded recovery, after consent: rescue what will be cut off, elect, confirm, look after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.errors import StorageError
from services.guard.journal import Journal
from services.kafka.cluster.open_transactions import OpenTransaction, read_open_transactions
from services.kafka.election_client import ElectionClient
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition, Unknown
from services.recovery.execution.confirm import Observer
from services.recovery.execution.course import Course
from services.recovery.execution.journal_space import journal_bytes
from services.recovery.execution.limits import ExecutionLimits
from services.recovery.execution.others import others_at_work
from services.recovery.execution.record import ExecutionJournal
from services.recovery.execution.routes import RouteChoice
from services.recovery.execution.run import Execution
from services.recovery.execution.target import ElectionTarget, PartitionOutcome, RecoveryResult

AFTER_SECONDS = 5.0


class Rescue(Protocol):
    """Saves what elections cut off (services/recovery/rescue)."""

    def needed(self, target: ElectionTarget) -> bool:
        """Whether electing *target* cuts off anything that may be saved."""

    def save(
        self, targets: Sequence[ElectionTarget], journal: ExecutionJournal
    ) -> Mapping[TopicPartition, str]:
        """Save what electing *targets* cuts off; a reason for each that was not saved whole."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a recovery works with."""

    client: ElectionClient
    journal: Journal
    choose_route: RouteChoice
    rescue: Rescue | None = None
    """None: what is cut off is lost (`--without-rescue`)."""
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    stop: Callable[[], bool] = lambda: False
    begin: Callable[[Sequence[ElectionTarget]], None] = lambda _: None
    """Told of each batch before anything is sent for it."""

    def run(
        self, targets: Sequence[ElectionTarget], course: Course | None = None
    ) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Rescue and elect *targets*; yields the outcomes of each batch as it ends.

        Partitions that lose nothing do not wait until others are rescued, except for internal
        topics, which come first in any case (R17). *course* is what was found out before.
        Space for what the journal will say is reserved before anything is sent.

        Raises:
            StorageError: the journal's disk has no room for it; nothing was sent.
        """
        rescue, course = self.rescue, course or Course()
        space = journal_bytes(targets, rescued=rescue is not None, limits=self.limits)
        self.journal.reserve(space)
        first = [t for t in targets if t.internal or rescue is None or not rescue.needed(t)]
        early = {one.partition for one in first}
        for wave in (first, [one for one in targets if one.partition not in early]):
            if wave:
                yield from self._rescue_and_elect(wave, course)

    def _rescue_and_elect(
        self, targets: Sequence[ElectionTarget], course: Course
    ) -> Iterator[tuple[PartitionOutcome, ...]]:
        ready = [target for target in targets if not course.why_not(target)]
        lost = self._save(ready, course)
        stopped = self.stop()
        held = tuple(
            _held(one, lost[one.partition], stopped=stopped)
            for one in targets
            if one.partition in lost
        )
        if held:
            yield held
        execution = Execution(
            self.client,
            Observer(self.client.reading()),
            self.choose_route(self.client),
            self.journal,
            self.limits,
            self.stop,
            begin=self.begin,
            course=course,
            others=lambda partition: others_at_work(
                self.journal.path, self.journal.cluster_id, partition
            ),
        )
        yield from execution.run([one for one in targets if one.partition not in lost])

    def _save(
        self, targets: Sequence[ElectionTarget], course: Course
    ) -> Mapping[TopicPartition, str]:
        """Rescue what electing *targets* cuts off; why partitions were not saved whole.

        What cannot be journalled must not be sent: then nothing more is elected.
        """
        if self.rescue is None or not targets:
            return {}
        try:
            return self.rescue.save(targets, self.journal)
        except StorageError as error:
            course.halt(f"stopped because every other election would fail alike: {error}")
            return {}


def _held(target: ElectionTarget, reason: str, *, stopped: bool) -> PartitionOutcome:
    """What is not elected because its tail is not saved; one that was *stopped* can be resumed."""
    if stopped:
        return PartitionOutcome(target, RecoveryResult.NOT_ATTEMPTED, f"not rescued: {reason}")
    told = f"not rescued: {reason}; put that right, or accept the loss with --without-rescue"
    return PartitionOutcome(target, RecoveryResult.REFUSED, told)


def open_transactions_after(
    read: ReadClient, outcomes: Sequence[PartitionOutcome]
) -> tuple[OpenTransaction, ...] | Unknown:
    """Transactions left open on recovered partitions: read_committed readers stop there (R18)."""
    leaders = {
        one.partition: one.leader
        for one in outcomes
        if one.result is RecoveryResult.ELECTED and one.leader is not None
    }
    if not leaders:
        return ()
    deadline = Deadline.after(AFTER_SECONDS)
    coordinators = sorted(set(leaders.values()))
    return read_open_transactions(read.sender, leaders, coordinators, deadline)


@dataclass(frozen=True, slots=True)
class GroupPastEnd:
    """A consumer group that committed past the end of a recovered partition (R19)."""

    partition: TopicPartition
    group: str
    committed: int
    log_end: int


def groups_past_end(
    targets: Sequence[ElectionTarget],
    committed: Mapping[TopicPartition, Mapping[str, int] | Unknown],
) -> tuple[GroupPastEnd, ...]:
    """Groups of *targets* that will meet OFFSET_OUT_OF_RANGE after the election."""
    return tuple(
        GroupPastEnd(one.partition, group, offset, one.log_end)
        for one in targets
        if one.log_end is not None
        for group, offset in sorted(_groups(committed.get(one.partition)).items())
        if offset > one.log_end
    )


def _groups(committed: Mapping[str, int] | Unknown | None) -> Mapping[str, int]:
    return {} if committed is None or isinstance(committed, Unknown) else committed
