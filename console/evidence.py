"""Reading evidence for a command: the last word of a triage, and on stderr whom it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from console.output import say

if TYPE_CHECKING:
    from services.kafka.read_client import ReadClient
    from services.recovery.appraisal import Appraisal
    from services.recovery.plan import Plan
    from services.recovery.triage import Triage


def final(found: Iterable[Triage]) -> Triage:
    """The last of *found*; says once for each broker that it is waited for."""
    told: set[int] = set()
    last: Triage | None = None
    for last in found:
        for broker in sorted(last.evidence.awaited - told):
            say(f"waiting: {last.evidence.silent[broker]}")
        told |= last.evidence.awaited
    assert last is not None, "a triage always yields"
    return last


def appraised(
    client: ReadClient, plan: Plan, source: str, duration: float, native_choice: str
) -> tuple[Appraisal, Triage]:
    """*plan*, which messages call *source*, against evidence read now.

    Brokers have *duration* seconds to answer. The plan elects somebody.

    Raises:
        WrongCluster: the plan was made for another cluster.
        Unreachable: no broker serves the cluster's metadata.
    """
    from services.kafka.deadline import Deadline
    from services.recovery.appraisal import appraise
    from services.recovery.plan_check import require_cluster
    from services.recovery.selection import select
    from services.recovery.triage import SNAPSHOT_SECONDS, judge

    # Before anything is asked about topics, which another cluster may not have or not show.
    described = client.describe(Deadline.after(SNAPSHOT_SECONDS))
    require_cluster(plan, described.cluster_id, source)
    selection = select(client, tuple(plan.leaders))
    judged = judge(client, selection.snapshot, selection.offline, duration, native_choice)
    found = final(judged)
    return appraise(plan, selection, found.assessments), found
