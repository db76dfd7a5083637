"""The table of replicas: what each one holds, and what it would lose against the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakglass.console.output import Column, print_table, say
from breakglass.services.words.contents import contents_text
from breakglass.services.words.figures import count, epochs_text, loss_text
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.model import ReplicaLog
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.triage import Triage

COLUMNS = (
    Column("Topic-partition"),
    Column("Broker", right=True),
    Column("Role"),
    Column("State"),
    Column("Start", right=True),
    Column("HW", right=True),
    Column("LEO", right=True),
    Column("Epoch now", right=True),
    Column("Written epochs"),
    Column("Newest"),
    Column("If chosen loses", right=True),
    Column("Contents"),
    Column("Remark"),
)


def print_replicas(found: Triage) -> None:
    """Print a row for every replica of every partition of *found*."""
    rows = [
        _row(assessment, candidate.replica, candidate.remark or candidate.eligibility.reason)
        for assessment in found.assessments
        for candidate in assessment.ranking.candidates
    ]
    if rows:
        print_table(COLUMNS, rows)
    for assessment in found.assessments:
        for reason in assessment.reasons:
            say(f"{assessment.partition}: {reason}")


def _row(assessment: Assessment, replica: ReplicaLog, remark: str) -> tuple[object, ...]:
    chosen = "*" if replica.broker == assessment.designee else ""
    return (
        assessment.partition,
        f"{chosen}{replica.broker}",
        replica.role.value,
        _state(replica),
        count(replica.log_start),
        count(replica.high_watermark),
        count(replica.log_end),
        count(replica.leader_epoch),
        epochs_text(replica.epochs),
        time_text(replica.newest_ms),
        loss_text(assessment.loss_of(replica.broker)),
        contents_text(replica),
        remark,
    )


def _state(replica: ReplicaLog) -> str:
    if replica.log_dir_online is False:
        return "log dir offline"
    if replica.fenced is True:
        return "fenced" if replica.reachable else "fenced, silent"
    return "ok" if replica.reachable else "silent"
