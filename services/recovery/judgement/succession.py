"""Whom the controller would elect by itself, and what that would do (R1, R2, R14).

Source: PartitionChangeBuilder.electAnyLeader, canElectLastKnownLeader of Kafka 4.3.1: a live
member of the ISR, or of the ELR if the ISR is empty, in the order of the assignment; if both
are empty the last known leader, if it is one only; then, for topics that allow unclean
election, the first live replica of the assignment.

It runs when any broker is unfenced, when an assignment is altered, and on a timer, so it may
come at any moment, and no latest moment can be given either: the timer is the active
controller's (PeriodicTaskControlManager). It begins again with each new active controller,
has the controllers' own leader.imbalance.check.interval.seconds, which is not what brokers
answer to DescribeConfigs, waits five minutes after an error, and does not run at all where the
controllers have auto.leader.rebalance.enable=false.

The module also has what holds for the whole cluster while its partitions are judged, and the
hazards of starting a broker whose disk was not read. Being last in sync proves nothing about a
disk: brokers acknowledge records before they flush them (R26). And a broker that an election passed
over truncates its log when it starts (R27).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    Silent,
    TopicPartition,
    Unknown,
)
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.ranking import holds_records, live, log_rank
from breakglass.services.snapshot import Quorum
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.moments import time_text

AS_IT_WAS = "its unread disk lost nothing"
IF_AS_IT_WAS = f"if {AS_IT_WAS}"
"""The condition of every sentence that says what an unread log brings back."""
IF_AS_THEY_WERE = "if their unread disks lost nothing"

COPY_FIRST = "breakglass rescue --source log:DIR"
"""Saves what a log folder has."""
SAFE_WHEN = "breakglass can-start DIR"
"""Says what would be lost."""


def do_not_start(broker: int) -> str:
    """That *broker*, once it starts, truncates its logs to those of the leaders."""
    return f"do not start b{broker} before its log folders are saved: {COPY_FIRST}"


def check_first(broker: int) -> str:
    """That what *broker* alone has may be cut once it starts, and what says whether (R46)."""
    return f"check the disk of b{broker} before it starts: {SAFE_WHEN}"


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A broker that is not to be started before its log folders are saved, or read."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    """Partitions in which it would be cut, or may be."""
    at_ms: int
    """When it was passed over, or heard last; 0: not known."""
    source: str
    """How that is known."""
    proved: bool = True
    """False: it may have been passed over, and its disk alone says whether (R46)."""

    @property
    def act(self) -> str:
        """What to do before it is started."""
        return do_not_start(self.broker) if self.proved else check_first(self.broker)

    @property
    def sentence(self) -> str:
        """``an election passed b1 over in 5 partitions (journal ..., 12:00:03Z)``."""
        passed = "passed" if self.proved else "may have passed"
        at = f", {time_text(self.at_ms)}" if self.at_ms else ""
        return (
            f"an election {passed} b{self.broker} over in {partitions_text(len(self.partitions))} "
            f"({self.source}{at})"
        )

    @property
    def advice(self) -> str:
        """What to do before it is started, and why."""
        return f"{self.act}; {self.sentence}"


def rescue_before(broker: int) -> str:
    """The command that saves what *broker* cuts when it returns and leads."""
    return f"breakglass rescue --before-return {broker}"


_UNASKED_QUORUM = Unknown("the controller quorum was not asked")


@dataclass(frozen=True)
class Circumstances:
    """Facts beside the evidence of a single partition."""

    quorum: Quorum | Unknown = _UNASKED_QUORUM
    deadline_passed: bool = True
    """Brokers that have not answered by now count as silent (R15, --recovery-duration-ms)."""
    ruled_out: Mapping[int, str] = field(default_factory=dict)
    """Brokers that are never waited for, and why: ``declared lost``, ``came back EMPTY``.

    A broker that was seen EMPTY and stopped (R2) must be named here when the partition is read
    again: fenced and silent it looks like a leader worth waiting for.
    """

    copy_first: Mapping[int, PassedOver] = field(default_factory=dict)
    """Brokers whose log folders are saved, or read, before they start: an election passed them
    over, or may have, and their start cuts logs in partitions that have a leader (R27, R46)."""

    @property
    def words(self) -> tuple[str, ...]:
        """The facts that judgements depend on: while these are equal, judgements stay."""
        unknown = self.quorum.reason if isinstance(self.quorum, Unknown) else ""
        ruled_out = [f"{broker} {why}" for broker, why in sorted(self.ruled_out.items())]
        copied = [one.advice for _, one in sorted(self.copy_first.items())]
        return (self.quorum_lost, unknown, *ruled_out, *copied)

    @cached_property
    def quorum_lost(self) -> str:
        """Why no controller can elect anybody (R20); empty while one may."""
        return quorum_lost(self.quorum)


def quorum_lost(quorum: Quorum | Unknown) -> str:
    """Why no controller can elect anybody (R20); empty while one may."""
    if isinstance(quorum, Silent):
        return quorum.reason
    if isinstance(quorum, Quorum) and quorum.leader is None:
        return "the controller quorum has no leader"
    return ""


RESTORE_QUORUM = (
    "start the missing controllers with their own disks, and format none; breakglass quorum names "
    "them"
)


def without_quorum(lost: str, stops: str = "no election can work") -> str:
    """The sentence of every place that says that the quorum is *lost*, and what to do."""
    return f"{lost}, so {stops}: {RESTORE_QUORUM}"


UNASKED = Circumstances()
"""Nothing is known beside the evidence."""


@quickly_made
@dataclass(frozen=True, slots=True)
class SuccessionForecast:
    """What the controller does if nobody intervenes."""

    broker: int | None
    """Whom it elects; None: nobody."""
    reason: str


_NOBODY = SuccessionForecast(None, "none that it may elect is live")


def inheritors(state: PartitionState) -> tuple[int, ...]:
    """The brokers that the controller elects as soon as they are live, in its order.

    Each of them, intact, brings the partition back without an unclean election by us.
    """
    if state.isr:
        return tuple([broker for broker in state.assignment if broker in state.isr])
    if isinstance(state.elr, tuple) and state.elr:
        return tuple([broker for broker in state.assignment if broker in state.elr])
    last = state.last_known_elr
    return last if isinstance(last, tuple) and len(last) == 1 else ()


def heir(evidence: PartitionEvidence) -> ReplicaLog | None:
    """The live replica that the controller elects by itself, if there is one."""
    return first_heir(evidence, inheritors(evidence.state))


def first_heir(evidence: PartitionEvidence, brokers: tuple[int, ...]) -> ReplicaLog | None:
    """The live replica on the first of *brokers*, which are the partition's inheritors."""
    for broker in brokers:
        replica = evidence.replica(broker)
        if replica is not None and replica.fenced is False and live(replica):
            return replica
    return None


def hazards(evidence: PartitionEvidence, designee: int | None) -> tuple[int, ...]:
    """H of rule R1: replicas that a reorder would elect instead of *designee*.

    Members of ISR, ELR and last known ELR that are live or not known to be fenced. While there
    is one, nothing may be reordered. An unregistered broker cannot be elected before it is back.
    """
    return tuple(
        [
            replica.broker
            for replica in evidence.replicas
            if replica.role is not Role.STALE
            and replica.broker != designee
            and live(replica)
            and replica.broker not in evidence.unregistered
        ]
    )


def forecast(evidence: PartitionEvidence, circumstances: Circumstances) -> SuccessionForecast:
    """Whom the controller elects next by itself, and why (R2, R14)."""
    return forecast_with(evidence, circumstances, heir(evidence))


def forecast_with(
    evidence: PartitionEvidence, circumstances: Circumstances, next_leader: ReplicaLog | None
) -> SuccessionForecast:
    """`forecast` where the heir of *evidence* is known to be *next_leader*."""
    if circumstances.quorum_lost:
        return SuccessionForecast(None, "no controller quorum, so elections cannot work")
    if next_leader is not None:
        return SuccessionForecast(next_leader.broker, f"it is {ROLE_WORDS[next_leader.role]}")
    unclean = evidence.settings.unclean_election
    if isinstance(unclean, Unknown):
        return SuccessionForecast(None, f"unknown if unclean election is on: {unclean.reason}")
    first = first_live(evidence) if unclean else None
    if first is not None:
        return SuccessionForecast(first, BY_UNCLEAN_ELECTION)
    return _NOBODY


def first_live(evidence: PartitionEvidence) -> int | None:
    """Whom an unclean election takes when nobody inherits: the first live in the assignment."""
    for broker in evidence.state.assignment:
        replica = evidence.replica(broker)
        if replica is not None and replica.fenced is False and live(replica):
            return broker
    return None


def elected_by_order(evidence: PartitionEvidence) -> int | None:
    """Whom an unclean election takes by the assignment as it is; None where that is not known.

    Brokers that are fenced or not registered are passed over (R32).
    """
    for broker in evidence.state.assignment:
        replica = evidence.replica(broker)
        if replica is not None and broker not in evidence.unregistered and live(replica):
            return broker if replica.fenced is False else None
    return None


def unregistered_text(evidence: PartitionEvidence) -> str:
    """Why nobody can be put first beside an unregistered broker, and the ways out (R12, R32)."""
    strangers = ", ".join(f"b{broker}" for broker in evidence.unregistered)
    first = elected_by_order(evidence)
    text = f"{strangers} in the assignment is not registered, so the controller refuses a reorder"
    if first is None:
        return f"{text}: start {strangers} once"
    return (
        f"{text}, and an election takes b{first}, the first live replica of the assignment: start "
        f"{strangers} once, or stop b{first}, wait until it is fenced, read again"
    )


BY_UNCLEAN_ELECTION = (
    "unclean.leader.election.enable=true: the first live replica of the assignment"
)

ROLE_WORDS = {
    Role.ISR: "in the ISR",
    Role.ELR: "in the ELR",
    Role.LAST_KNOWN_ELR: "the last known leader",
    Role.STALE: "stale",
}
"""Roles in the words of sentences."""


def shortfall(evidence: PartitionEvidence, successor: ReplicaLog) -> str:
    """What the readable *successor* would destroy if elected (R2); empty if nothing.

    It is EMPTY, or another replica holds committed records that it lacks, or it ranks below
    another. An ISR or ELR member may rank below a replica with a longer uncommitted tail: that
    election is clean, and the tail was never promised, so it is no alarm.
    """
    others = [
        replica
        for replica in evidence.replicas
        if replica.broker != successor.broker and not isinstance(replica.log_end, Unknown)
    ]
    if not holds_records(successor):
        fuller = next((other for other in others if holds_records(other)), None)
        if fuller is not None:
            return f"b{successor.broker} is back EMPTY and b{fuller.broker} holds records"
        floor = evidence.unread_floor
        if isinstance(floor, int) and floor > 0:
            return f"b{successor.broker} is back EMPTY and offset {floor} was reached before"
        if successor.log_end == 0 and len(others) + 1 < len(evidence.replicas):
            return f"b{successor.broker} is EMPTY and not every other replica could be read"
        return ""
    trusted = successor.role is Role.ISR or successor.role is Role.ELR
    for other in others:
        if holds_records(other):
            lack = _lack(successor, other, trusted)
            if lack:
                return lack
    return ""


def _lack(successor: ReplicaLog, other: ReplicaLog, trusted: bool) -> str:
    parting, mark = divergence(successor, other), other.high_watermark
    named = f"b{successor.broker}"
    if isinstance(parting, int) and isinstance(mark, int):
        if mark > parting:
            return f"{named} lacks records that b{other.broker} knows as committed"
        if trusted:
            return ""
    if _ranks_below(successor, other):
        return f"{named} is below b{other.broker}"
    return ""


def _ranks_below(log: ReplicaLog, other: ReplicaLog) -> bool:
    """Compares by rank where both epochs are known, else by log end alone."""
    if log.last_written_epoch is None or other.last_written_epoch is None:
        return False
    if isinstance(log.epochs, Unknown) or isinstance(other.epochs, Unknown):
        return log_rank(log)[1] < log_rank(other)[1]
    return log_rank(log) < log_rank(other)
