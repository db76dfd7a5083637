"""Why another replica than the designee was elected: only what is proved. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from breakglass.services.model import ClusterDescription, PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult


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
    """Whether the controller elects replicas of the topic uncleanly by itself; None: not read."""
    others: Sequence[str] = ()
    """Who else acted on this partition, as journals tell: ``ann@bastion (journal FILE)``."""


def explained(outcome: PartitionOutcome, clues: Clues) -> PartitionOutcome:
    """*outcome* with the causes that *clues* prove, where it is a mismatch."""
    if outcome.result is not RecoveryResult.ELECTED_ANOTHER:
        return outcome
    designee, leader = outcome.target.designee, outcome.leader
    causes = "; ".join(_causes(outcome, clues)) or unknown_cause(leader)
    return replace(outcome, reason=f"{causes}; {what_to_do(designee, leader)}")


def unknown_cause(leader: int | None) -> str:
    """What is said where nothing is proved."""
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
    elif foreign or _asked_for(outcome, clues):
        yield f"another operator or tool elected b{leader}"
    if foreign:
        yield foreign
    if clues.led_before:
        yield f"b{leader} led already when this recovery asked for the election"
    if leader is not None and leader not in target.live:
        yield f"b{leader} was elected: it was fenced when the price was counted, and came back"
    if clues.brokers is not None and clues.brokers.fenced(target.designee) is True:
        yield f"b{target.designee} is fenced, so that b{leader} was elected"


def _asked_for(outcome: PartitionOutcome, clues: Clues) -> bool:
    """Nobody but a request elects a replica that was unfenced all the time, and no ISR or ELR has.

    The look before sending had refused the election of a member of these (R1).
    """
    return clues.led_before and clues.unclean is False and outcome.leader in outcome.target.live


def _foreign_order(outcome: PartitionOutcome, clues: Clues) -> str:
    """What proves that somebody else wrote the order; empty where nothing does."""
    if clues.state is None:
        return ""
    target, now = outcome.target, clues.state.assignment
    ours = target.order if clues.order_written else target.assignment
    if now in (ours, target.order):
        return ""
    return f"the assignment is {list(now)}, and not {list(ours)} as this recovery left it"
