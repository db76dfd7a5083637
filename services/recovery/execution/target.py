"""One partition to recover, frozen before anything is sent, and what came of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from uuid import UUID

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.precedence import internal


@dataclass(frozen=True, slots=True)
class ElectionTarget:
    """A partition and the replica that is to lead it, with what that rests on."""

    partition: TopicPartition
    topic_id: UUID
    designee: int
    order: tuple[int, ...]
    """The assignment to write: the designee, then the others by rank, worst last (R4)."""
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

    @property
    def internal(self) -> bool:
        return internal(self.partition)


class RecoveryResult(StrEnum):
    """How a partition's recovery ended."""

    ELECTED = "elected"
    """The designee leads, and said so itself."""
    ALREADY_ONLINE = "already online"
    """It has a leader: nothing was to be done, which is a success."""
    ELECTED_ANOTHER = "elected another"
    REFUSED = "refused"
    """A guard said no; nothing was changed for this partition."""
    REORDERED = "order written, not elected"
    """Its assignment was written in another order, and then no election was held."""
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

    ELECTED = 1
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

    def with_rung(self, rung: Rung) -> PartitionOutcome:
        """The same, seen to have climbed to *rung*."""
        return replace(self, rung=rung)


def refused(target: ElectionTarget, reason: str) -> PartitionOutcome:
    """Nothing is done about *target*, for that *reason*."""
    return PartitionOutcome(target, RecoveryResult.REFUSED, reason)


NO_ELECTION = (
    "its assignment order was changed and no election was held; `breakglass recover resume "
    "--write` elects it, with --undo it puts the order back"
)


def order_left(outcome: PartitionOutcome) -> PartitionOutcome:
    """*outcome* of a partition whose assignment may still have the order that was written.

    A refusal that came after the order was written is none: something was changed.
    """
    left = replace(outcome, order_restored=False)
    if outcome.result is not RecoveryResult.REFUSED:
        return left
    return replace(left, result=RecoveryResult.REORDERED, reason=f"{outcome.reason}: {NO_ELECTION}")


def exit_code(outcomes: Sequence[PartitionOutcome], others: Collection[RecoveryResult] = ()) -> int:
    """`exit_code_of` their results and *others*; 1 where only an order is left to be put back."""
    code = exit_code_of([*others, *(one.result for one in outcomes)])
    return 1 if code == 0 and not all(one.complete for one in outcomes) else code


def exit_code_of(results: Collection[RecoveryResult]) -> int:
    """0 all online, 4 something is unknown, 3 guards said no and nothing was changed, else 1."""
    failed = [one for one in results if one not in _SUCCESSES]
    if not failed:
        return 0
    if RecoveryResult.UNKNOWN in failed:
        return 4
    if (
        RecoveryResult.REFUSED in failed
        and _UNCHANGED.issuperset(failed)
        and _CHANGES.isdisjoint(results)
    ):
        return 3
    return 1


_SUCCESSES = (RecoveryResult.ELECTED, RecoveryResult.ALREADY_ONLINE, RecoveryResult.UNDONE)
_CHANGES = frozenset({RecoveryResult.ELECTED, RecoveryResult.UNDONE})
_UNCHANGED = frozenset({RecoveryResult.REFUSED, RecoveryResult.NOT_ATTEMPTED})
