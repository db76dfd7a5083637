"""A partition to recover, frozen before anything is sent, and the outcome of its election.

Where another replica than the designee was elected, the outcome names the cause only if evidence
proves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from uuid import UUID

from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.assessment import internal
from breakglass.services.recovery.judgement.ranking import Ranking, election_order, rank
from breakglass.services.recovery.judgement.succession import elected_by_order
from breakglass.services.snapshot import ClusterDescription


@quickly_made
@dataclass(frozen=True, slots=True)
class ElectionTarget:
    """A partition and the replica that is to lead it, with the evidence for the choice."""

    partition: TopicPartition
    topic_id: UUID
    designee: int
    order: tuple[int, ...]
    """The assignment to write: the designee, then the others by rank, worst last (R4); the order
    that there is where the controller takes none and elects the designee by it."""
    assignment: tuple[int, ...]
    """The controller's order when the evidence was read; put back afterwards."""
    leader_epoch: int
    log_end: int | None
    """The designee's log end offset; None when unread and chosen by hand (R16)."""
    min_insync_replicas: int | None
    """None when it could not be read."""
    live: tuple[int, ...]
    """Other assigned brokers that were not fenced when the price was counted. One that comes
    back later may hold more than anybody agreed to lose."""
    log_start: int | None = None
    """The designee's log start offset; None: unread, or by an older journal."""

    @property
    def internal(self) -> bool:
        return internal(self.partition)


class RecoveryResult(StrEnum):
    """How a partition's recovery ended."""

    ELECTED = "elected"
    """The designee leads, and said so itself."""
    ALREADY_ONLINE = "already online"
    """The partition has a leader already: a success, without an election."""
    ELECTED_ANOTHER = "elected another"
    REFUSED = "refused"
    """A guard said no; nothing was changed for this partition."""
    REORDERED = "order written, not elected"
    """Its assignment was written in another order, and then no election ran."""
    FAILED = "failed"
    """The controller answered with an error."""
    UNKNOWN = "unknown"
    """No answer, or the elected leader does not speak: it may or may not have happened."""
    NOT_ATTEMPTED = "not attempted"
    """The run stopped before its turn."""
    UNDONE = "undone"
    """Without leader as before, and in the order that it had."""


class Rung(IntEnum):
    """How far a recovered partition has come (R7)."""

    ANNOUNCED = 1
    """The controller's metadata names the designee."""
    SERVING = 2
    """The designee itself answers as leader of the new epoch (R6)."""
    READABLE = 3
    """The high watermark has reached the log end offset of the election."""
    WRITABLE = 4
    """The ISR is large enough for acks=all."""
    REDUNDANT = 5
    """Another replica is in sync: this leader may die."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class ElectedReach:
    """How far consumers read an elected partition, as its leader and the metadata said (R30)."""

    high_watermark: int | None
    """None: not known."""
    in_sync: int
    """Number of replicas in the ISR."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An election that does not run, as the outcome that it already has."""

    partition: TopicPartition
    designee: int | None
    """None where no leader was chosen."""
    result: RecoveryResult
    reason: str
    leader: int | None
    """The leader, where there is one."""

    @property
    def succeeded(self) -> bool:
        return self.result is RecoveryResult.ALREADY_ONLINE


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The result for one partition."""

    target: ElectionTarget
    result: RecoveryResult
    reason: str = ""
    """Why, and what to do or check next; empty for a plain success."""
    leader: int | None = None
    """Who leads now, as far as was observed."""
    leader_epoch: int | None = None
    rung: Rung | None = None
    reach: ElectedReach | None = None
    """None: it was not looked at."""
    order_restored: bool | None = None
    """None where no other order was written; False where one may still stand."""

    @property
    def partition(self) -> TopicPartition:
        return self.target.partition

    @property
    def succeeded(self) -> bool:
        return self.result in _SUCCESSES

    @property
    def complete(self) -> bool:
        """It succeeded, and its assignment has the order that it had."""
        return self.succeeded and self.order_restored is not False

    @property
    def held(self) -> int | None:
        """Number of records in the log that was elected; None: not known."""
        start, end = self.target.log_start, self.target.log_end
        return None if start is None or end is None else max(0, end - start)

    @property
    def not_yet_readable(self) -> int | None:
        """How many of them consumers do not get to read yet (R30); None: not known."""
        if self.rung is None or self.result is not RecoveryResult.ELECTED:
            return None
        if self.rung >= Rung.READABLE:
            return 0
        end = self.target.log_end
        mark = None if self.reach is None else self.reach.high_watermark
        if end is None or mark is None:
            return None
        return max(0, end - max(mark, self.target.log_start or 0))

    def with_rung(self, rung: Rung, reach: ElectedReach | None = None) -> PartitionOutcome:
        """The outcome, seen to have climbed to *rung*, and to be readable as *reach* says."""
        return replace(self, rung=rung, reach=reach)


def refused(target: ElectionTarget, reason: str) -> PartitionOutcome:
    """The outcome of a *target* that a guard refused for *reason*."""
    return PartitionOutcome(target, RecoveryResult.REFUSED, reason)


NO_ELECTION = (
    "its assignment order was changed and no election was held; `breakglass recover resume "
    "--write` elects it, with --undo it puts the order back"
)


def order_left(outcome: PartitionOutcome) -> PartitionOutcome:
    """*outcome* of a partition whose assignment may still have the order that was written.

    A refusal after the order was written is a failure, because something was changed.
    """
    left = replace(outcome, order_restored=False)
    if outcome.result is not RecoveryResult.REFUSED:
        return left
    return replace(left, result=RecoveryResult.REORDERED, reason=f"{outcome.reason}: {NO_ELECTION}")


def exit_code(outcomes: Sequence[PartitionOutcome], others: Collection[RecoveryResult] = ()) -> int:
    """`exit_code_of` their results and *others*; 1 where only an order is left to be put back."""
    code = exit_code_of([*others, *(outcome.result for outcome in outcomes)])
    return 1 if code == 0 and not all(outcome.complete for outcome in outcomes) else code


def exit_code_of(results: Collection[RecoveryResult]) -> int:
    """0 all online, 4 something is unknown, 3 guards said no and nothing was changed, else 1."""
    failed = [result for result in results if result not in _SUCCESSES]
    if not failed:
        return 0
    if RecoveryResult.UNKNOWN in failed:
        return 4
    if (
        RecoveryResult.REFUSED in failed
        and frozenset({RecoveryResult.REFUSED, RecoveryResult.NOT_ATTEMPTED}).issuperset(failed)
        and frozenset({RecoveryResult.ELECTED, RecoveryResult.UNDONE}).isdisjoint(results)
    ):
        return 3
    return 1


_SUCCESSES = (RecoveryResult.ELECTED, RecoveryResult.ALREADY_ONLINE, RecoveryResult.UNDONE)


def target_of(
    evidence: PartitionEvidence, designee: int, ranking: Ranking | None = None
) -> ElectionTarget:
    """The target that makes *designee* lead, with the whole ranking as its order (R4).

    *ranking* saves ranking the replicas again.
    """
    replica = evidence.replica(designee)
    log_end = replica.log_end if replica is not None else None
    log_start = replica.log_start if replica is not None else None
    minimum = evidence.settings.min_insync_replicas
    return ElectionTarget(
        partition=evidence.partition,
        topic_id=evidence.state.topic_id,
        designee=designee,
        order=_order(evidence, ranking or rank(evidence), designee),
        assignment=evidence.state.assignment,
        leader_epoch=evidence.state.leader_epoch,
        log_end=log_end if isinstance(log_end, int) else None,
        min_insync_replicas=minimum if known(minimum) else None,
        live=live_beside(evidence, designee),
        log_start=log_start if isinstance(log_start, int) else None,
    )


def _order(evidence: PartitionEvidence, ranking: Ranking, designee: int) -> tuple[int, ...]:
    """The order to write; as it is, where none can be written and none is needed (R32)."""
    if evidence.unregistered and elected_by_order(evidence) == designee:
        return evidence.state.assignment
    return election_order(evidence, ranking, designee)


def live_beside(evidence: PartitionEvidence, designee: int) -> tuple[int, ...]:
    """Assigned brokers other than *designee* that were not fenced when this was read."""
    return tuple(
        replica.broker
        for replica in evidence.replicas
        if replica.broker != designee and replica.fenced is not True
    )


@dataclass(frozen=True, slots=True)
class Clues:
    """What was seen of one partition after another replica was elected."""

    partition: TopicPartition
    state: PartitionState | None = None
    """None where the partition is gone."""
    brokers: ClusterDescription | None = None
    order_written: bool = False
    """The controller accepted our order before."""
    led_before: bool = False
    """The controller answered our election by saying that the partition had a leader."""
    unclean: bool | Unknown | None = None
    """Whether the controller elects replicas of the topic uncleanly; None: not read."""
    others: Sequence[str] = ()
    """Who else acted on this partition, by their journals: ``ann@bastion (journal FILE)``."""


def explained(outcome: PartitionOutcome, clues: Clues) -> PartitionOutcome:
    """*outcome* with the causes that *clues* prove, where it is a mismatch."""
    if outcome.result is not RecoveryResult.ELECTED_ANOTHER:
        return outcome
    designee, leader = outcome.target.designee, outcome.leader
    causes = "; ".join(_causes(outcome, clues)) or unknown_cause(leader)
    return replace(outcome, reason=f"{causes}; {what_to_do(designee, leader)}")


def unknown_cause(leader: int | None) -> str:
    """The sentence where no cause is proved."""
    return f"b{leader} was elected; the cause is not known"


def what_to_do(designee: int, leader: int | None) -> str:
    """How to keep what the designee holds, whatever the cause."""
    return (
        f"what b{designee} holds beyond b{leader} is being cut off: stop b{designee} now if it "
        "holds more"
    )


def _causes(outcome: PartitionOutcome, clues: Clues) -> Iterator[str]:
    target, leader = outcome.target, outcome.leader
    foreign = _foreign_order(outcome, clues)
    if clues.others:
        yield f"{' and '.join(clues.others)} elected b{leader}"
    elif foreign or (
        # No ISR or ELR elects a replica that was unfenced all the time, only a request does: the
        # look before sending had refused the election of a member of these (R1).
        clues.led_before and clues.unclean is False and outcome.leader in outcome.target.live
    ):
        yield f"another operator or tool elected b{leader}"
    if foreign:
        yield foreign
    if clues.led_before:
        yield f"b{leader} led already when this recovery asked for the election"
    if leader is not None and leader not in target.live:
        yield f"b{leader} was elected: it was fenced when the price was counted, and came back"
    if clues.brokers is not None and clues.brokers.fenced(target.designee) is True:
        yield f"b{target.designee} is fenced, so that b{leader} was elected"


def _foreign_order(outcome: PartitionOutcome, clues: Clues) -> str:
    """What proves that somebody else wrote the order; empty where nothing does."""
    if clues.state is None:
        return ""
    target, now = outcome.target, clues.state.assignment
    ours = target.order if clues.order_written else target.assignment
    if now in (ours, target.order):
        return ""
    return f"the assignment is {list(now)}, and not {list(ours)} as this recovery left it"
