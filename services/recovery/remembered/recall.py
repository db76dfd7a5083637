"""What was heard of a replica earlier, put beside what is read now. Pure.

An unread replica is one of four: its log is read now; it was heard before, and nothing contradicts
it; what was heard contradicts its start, for it was EMPTY or below the others; or it was never
heard. What was heard while the partition was without the same leader bounds the log from above
(`judgement.heard_before`). It proves nothing about what is on the disk now: a power cut takes
records that were acknowledged and not flushed (R26).
"""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.model import Forfeited, PartitionEvidence, ReplicaLog, Role, Unknown
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.succession import shortfall
from breakglass.services.recovery.remembered.heard import Heard, HeardLog
from breakglass.services.words.moments import time_text


def recalled(evidence: PartitionEvidence, heard: Heard) -> PartitionEvidence:
    """*evidence* with what was *heard* of the replicas that cannot be read now."""
    silent = {
        replica.broker
        for replica in evidence.replicas
        if isinstance(replica.log_end, Unknown) and replica.broker in heard
    }
    if not silent:
        return evidence
    # As if each silent replica still had the log that it reported last.
    replicas = [
        _as_now(heard[replica.broker].log, replica)
        if isinstance(replica.log_end, Unknown) and replica.broker in heard
        else replica
        for replica in evidence.replicas
    ]
    together = replace(evidence, replicas=tuple(replicas))
    return replace(
        evidence,
        replicas=tuple(
            [
                _recalled(replica, replica.log_end, heard[replica.broker], together)
                if replica.broker in silent and isinstance(replica.log_end, Unknown)
                else replica
                for replica in evidence.replicas
            ]
        ),
    )


def _as_now(log: ReplicaLog, replica: ReplicaLog) -> ReplicaLog:
    """The *log* that was heard, with the role that the metadata gives *replica* now."""
    return replace(
        log, role=replica.role, fenced=replica.fenced, log_dir_online=replica.log_dir_online
    )


def _recalled(
    replica: ReplicaLog, silence: Unknown, heard: HeardLog, together: PartitionEvidence
) -> ReplicaLog:
    log = _as_now(heard.log, replica)
    bound = replica.last_heard
    if bound is None and heard.silent_since(together.state):
        bound = log
    at = time_text(heard.at_ms)
    harm = _harm(heard, log, together)
    if harm:
        reason = f"electing it would destroy what others hold ({harm}), as it reported at {at}"
        return replace(
            replica, log_end=Forfeited(f"{reason}; now {silence.reason}"), last_heard=bound
        )
    damaged = "" if log.corrupt_at is None else f", corrupt at {log.corrupt_at:,}"
    ended = f"its log ended at {log.log_end:,}{damaged} when it was last read, at {at}"
    return replace(
        replica, log_end=replace(silence, reason=f"{silence.reason}; {ended}"), last_heard=bound
    )


def _harm(heard: HeardLog, log: ReplicaLog, together: PartitionEvidence) -> str:
    """What the log that was heard lacks of the others; empty where its start does no harm.

    A replica that came into the ISR, the ELR or the lead after it was heard has caught up since.
    One that is stale stays EMPTY for as long as nobody has read anything else of it.
    """
    if log.role is Role.STALE:
        fuller = any(
            other.broker != log.broker
            and not isinstance(other.log_end, Unknown)
            and holds_records(other)
            for other in together.replicas
        )
        return f"b{log.broker} was EMPTY" if fuller and not holds_records(log) else ""
    return shortfall(together, log) if heard.silent_since(together.state) else ""
