"""What a replica has that the best replica lacks, in words beside its figures. Pure.

A reader takes "loses" for the loss of the replica whose line it is: each text names the best
one, or says what its replica adds to it.
"""

from __future__ import annotations

from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.loss import Loss, ReplicaLoss
from breakglass.services.words.contents import contents_text
from breakglass.services.words.figures import count


def against(assessment: Assessment, loss: Loss, replica: ReplicaLog) -> str:
    """``adds 50 past 100, committed up to 120``, ``adds nothing to b1``; why it was not read."""
    broker = replica.broker
    if broker == loss.candidate:
        place = "would be elected" if broker == assessment.designee else "ranks first"
        return place if replica.corrupt_at is None else f"{place}, {contents_text(replica)}"
    lost = loss.of(broker)
    if lost is None:
        return unread_reason(replica)
    best = f"b{loss.candidate}"
    parts = [part for part in (_tail(lost, replica, best), _head(lost, best)) if part]
    candidate = assessment.ranking.candidate(broker)
    remark = "" if candidate is None else candidate.remark
    return ", ".join([*parts, *([remark] if remark else [])]) or f"adds nothing to {best}"


def unread_reason(replica: ReplicaLog) -> str:
    """Why the log end is unknown; empty if it is known."""
    return replica.log_end.reason if isinstance(replica.log_end, Unknown) else ""


def parting_text(loss: Loss) -> str:
    """``b1 and b2 diverge at 100``: which replicas diverge from the chosen replica, and where."""
    parted = [
        dropped
        for dropped in loss.against
        if dropped.tail != 0 and isinstance(dropped.divergence, int)
    ]
    return "; ".join(
        [
            f"b{loss.candidate} and b{dropped.broker} diverge at {count(dropped.divergence)}"
            for dropped in parted
        ]
    )


def _tail(lost: ReplicaLoss, replica: ReplicaLog, best: str) -> str:
    if lost.whole_log:
        return f"ends before {best} starts: adds all it holds"
    if isinstance(lost.tail, Unknown):
        return f"may add records to {best}: {lost.tail.reason}"
    if not lost.tail:
        return ""
    return f"adds {count(lost.tail)} past {count(lost.divergence)}, {_committed(lost, replica)}"


def _committed(lost: ReplicaLoss, replica: ReplicaLog) -> str:
    """Up to where the records of a tail are proved to be committed (R29)."""
    if lost.committed_past_divergence is True:
        return f"committed up to {count(replica.high_watermark)}"
    return "not known if committed"


def _head(lost: ReplicaLoss, best: str) -> str:
    if isinstance(lost.head, Unknown):
        return f"may add records before {best} starts: {lost.head.reason}"
    return (
        f"adds {count(lost.head)} before {best} starts" if lost.head and not lost.whole_log else ""
    )
