"""Reading evidence for a command: the last word of a triage, and on stderr whom it waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from breakglass.console.output import say
from breakglass.services.contents_effort import Effort

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.plan.document import Plan
    from breakglass.services.recovery.triage import Triage


SHOWN_ACLS = 3
"""Of one kind; the rest is counted."""


def say_missing_acls(found: Triage) -> None:
    """Say what this user would need to be told everything, or why it is told nothing."""
    if not found.snapshot.partitions:
        say("this user is shown no topic: grant DESCRIBE on topics, unless the cluster has none")
    say_acls(found.evidence.missing_acls)


def say_acls(missing: Iterable[str]) -> None:
    """Say which ACLs are *missing*, a few of each kind by name."""
    kinds: dict[str, list[str]] = {}
    for acl in missing:
        operation, _, resource = acl.partition(" on ")
        kind = f"{operation} on {resource.partition(' ')[0]}"
        kinds.setdefault(kind, []).append(acl)
    for kind, acls in kinds.items():
        for acl in acls[:SHOWN_ACLS]:
            say(f"missing ACL: {acl}")
        if len(acls) > SHOWN_ACLS:
            say(f"missing ACL: {kind}, {len(acls) - SHOWN_ACLS:,} more")


def final(found: Iterable[Triage]) -> Triage:
    """The last of *found*; says who is waited for, once each, and which ACLs are missing."""
    told: set[int] = set()
    last: Triage | None = None
    for last in found:
        for broker in sorted(last.evidence.awaited - told):
            say(f"waiting: {last.evidence.silent[broker]}")
        told |= last.evidence.awaited
    assert last is not None, "a triage always yields"
    say_missing_acls(last)
    return last


def appraised(
    client: ReadClient,
    plan: Plan,
    source: str,
    duration: float,
    native_choice: str,
    gone: Collection[int] = (),
    contents: Effort = Effort.BUDGET,
) -> tuple[Appraisal, Triage]:
    """*plan*, which messages call *source*, against evidence read now.

    Brokers have *duration* seconds to answer; those of *gone* are not worth waiting for. The plan
    elects somebody, whose *contents* are read.

    Raises:
        WrongCluster: the plan was made for another cluster.
        Unreachable: no broker serves the cluster's metadata.
    """
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.recovery.plan.appraisal import appraise
    from breakglass.services.recovery.plan.check import require_cluster
    from breakglass.services.recovery.selection import select
    from breakglass.services.recovery.triage import SNAPSHOT_SECONDS, judge

    # Before anything is asked about topics, which another cluster may not have or not show.
    described = client.describe(Deadline.after(SNAPSHOT_SECONDS))
    require_cluster(plan, described.cluster_id, source)
    selection = select(client, tuple(plan.leaders))
    judged = judge(
        client,
        selection.snapshot,
        selection.offline,
        duration,
        native_choice,
        gone,
        contents=contents,
        chosen=lambda evidence: plan.leaders.get(evidence.partition),
    )
    found = final(judged)
    return appraise(plan, selection, found.assessments), found
