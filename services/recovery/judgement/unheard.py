"""Which replicas nobody has heard, and what proves that one of them holds no more than another.

A replica whose log is unread may hold records that no other replica does, whatever its role.
The one proof is that the replica itself told its log while the partition was as it is now
(`heard_before`), and that this log is a prefix of what can be read of the candidate's.

Metadata proves nothing here. Leader epoch, ISR, ELR and last known leader say who was in sync
last, not where another replica left off: one that left the ISR earlier may have led an earlier
epoch, and keeps what it took then, with acks=1 or as the only member of an ISR of
min.insync.replicas=1. With min.insync.replicas of two or more, members of the ELR hold every
committed record, but a replica outside may still hold uncommitted ones past the high watermark.
A high watermark of the candidate bounds what is committed from below, never from above. And
the history of ISR and ELR is in no answer of a broker: DescribeTopicPartitions tells the last.
"""

from __future__ import annotations

from collections.abc import Collection

from breakglass.services.model import Forfeited, PartitionEvidence, ReplicaLog, Unknown
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.readable import readable
from breakglass.services.recovery.judgement.succession import inheritors
from breakglass.services.words.moments import time_text


def proof_of_no_more(
    evidence: PartitionEvidence, replica: ReplicaLog, candidate: ReplicaLog
) -> str:
    """The sentence that proves that unread *replica* holds no more than *candidate*, or nothing."""
    told, candidate = replica.last_heard, readable(candidate)
    if told is None or told.leader_epoch != evidence.state.leader_epoch:
        return ""
    when = f"b{replica.broker} reported its log at {time_text(told.observed_at_ms)}"
    if not holds_records(told):
        return f"{when}, without a leader since: it had no records"
    if not _begins_no_later(candidate, told):
        return ""
    if divergence(told, candidate) != told.log_end:
        return ""
    return f"{when}, without a leader since: it held no more than b{candidate.broker}"


def abandoned(evidence: PartitionEvidence, broker: int | None) -> tuple[int, ...]:
    """Brokers whose log is unread and not proved to hold no more than that of *broker*.

    In the order of the assignment. Electing *broker* gives up whatever they hold beyond it,
    whether they are gone or not. Without *broker*, or while its own log is unread, nothing is
    proved.
    """
    candidate = None if broker is None else evidence.replica(broker)
    return tuple(
        [
            replica.broker
            for replica in _by_assignment(evidence)
            if replica.broker != broker
            and isinstance(replica.log_end, Unknown)
            and not (candidate is not None and proof_of_no_more(evidence, replica, candidate))
        ]
    )


def unheard(
    evidence: PartitionEvidence, broker: int, gone: Collection[int]
) -> tuple[ReplicaLog, ...]:
    """The abandoned replicas of an election of *broker* that can still be heard.

    Not those of brokers declared *gone*, nor those on a log directory that is offline, nor those
    that are better left down.
    """
    left = abandoned(evidence, broker)
    return tuple(
        [
            replica
            for replica in _by_assignment(evidence)
            if replica.broker in left and _can_be_heard(replica, gone)
        ]
    )


def out_of_reach(
    evidence: PartitionEvidence, broker: int, gone: Collection[int]
) -> tuple[ReplicaLog, ...]:
    """The abandoned replicas of an election of *broker* that starting theirs does not bring.

    They are on a log directory that is offline, or on a broker that is better left down; nobody
    declared them *gone*.
    """
    left = abandoned(evidence, broker)
    return tuple(
        [
            replica
            for replica in _by_assignment(evidence)
            if replica.broker in left
            and replica.broker not in gone
            and not _can_be_heard(replica, gone)
        ]
    )


def absent_inheritors(evidence: PartitionEvidence, gone: Collection[int]) -> tuple[ReplicaLog, ...]:
    """Replicas that would each bring the partition back whole: the controller elects them."""
    replicas = [evidence.replica(broker) for broker in inheritors(evidence.state)]
    return tuple(
        [
            one
            for one in replicas
            if one is not None
            and one.broker not in evidence.unregistered
            and _can_be_heard(one, gone)
        ]
    )


def passed_over(evidence: PartitionEvidence, broker: int, gone: Collection[int]) -> str:
    """What an election of *broker* does not wait for, and what to do instead; empty if nothing."""
    whole = [one.broker for one in absent_inheritors(evidence, gone) if one.broker != broker]
    more = [one.broker for one in unheard(evidence, broker, gone) if one.broker not in whole]
    said = []
    if whole:
        said.append(f"{_either(whole)} would bring it back whole")
    if more:
        said.append(f"{_either(more)} may hold more")
    if not said:
        return ""
    every = [*whole, *more]
    which = "it" if len(every) == 1 else "each"
    declared = " ".join(f"--gone {one}" for one in every)
    return f"{' and '.join(said)}: start {which}, or declare {which} gone ({declared})"


def _by_assignment(evidence: PartitionEvidence) -> list[ReplicaLog]:
    """Of several replicas that metadata does not tell apart, the first assigned comes first."""
    assignment = evidence.state.assignment
    return sorted(
        evidence.replicas,
        key=lambda replica: (replica.broker not in assignment, _place(assignment, replica.broker)),
    )


def _place(assignment: tuple[int, ...], broker: int) -> int:
    return assignment.index(broker) if broker in assignment else broker


def _either(brokers: Collection[int]) -> str:
    return " or ".join(f"b{broker}" for broker in brokers)


def _can_be_heard(replica: ReplicaLog, gone: Collection[int]) -> bool:
    """Starting or reconnecting its broker makes the replica tell its log."""
    return (
        replica.broker not in gone
        and replica.log_dir_online is not False
        and not isinstance(replica.log_end, Forfeited)
    )


def _begins_no_later(candidate: ReplicaLog, told: ReplicaLog) -> bool:
    """The head of what was *told* is in the candidate's log as well."""
    ours, theirs = candidate.log_start, told.log_start
    if isinstance(ours, Unknown):
        return False
    return ours == 0 or (isinstance(theirs, int) and ours <= theirs)
