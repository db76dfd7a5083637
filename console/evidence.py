"""What commands say of the evidence that they act on.

Replicas, silent brokers, missing ACLs, elections that were observed, and groups that committed past
the end of a log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from breakglass.console.output import columns, print_table, say
from breakglass.console.wiring import deadline_after
from breakglass.services import patience
from breakglass.services.errors import StorageError
from breakglass.services.guard.lock import clusters_in
from breakglass.services.incident.row import unread_reason
from breakglass.services.recovery.judgement.assessment import Verb
from breakglass.services.recovery.judgement.succession import SAFE_WHEN
from breakglass.services.session import Effort
from breakglass.services.state_folder import state_folder
from breakglass.services.words.figures import (
    contents_text,
    count,
    epochs_text,
    loss_text,
    partitions_text,
)
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import PartitionEvidence, ReplicaLog, TopicPartition
    from breakglass.services.recovery.guarded.aftermath import GroupPastEnd
    from breakglass.services.recovery.plan.document import Plan
    from breakglass.services.recovery.plan.make import Appraisal
    from breakglass.services.recovery.triage import Triage
    from breakglass.services.snapshot import ClusterSnapshot


SHOWN_ACLS = 3
"""Of one kind; the rest is counted."""


def say_missing_acls(found: Triage) -> None:
    """Say which ACLs this user would need to see everything, or why it sees nothing."""
    if not found.snapshot.partitions:
        say("this user is shown no topic: grant DESCRIBE on topics, unless the cluster has none")
    say_acls(found.evidence.missing_acls)


def say_remembered(found: Triage) -> None:
    """Say whom elections passed over, and what of journals and memory could not be read."""
    for one in found.passed_over:
        say(one.advice)
    to_start = {
        assessment.action.broker
        for assessment in found.assessments
        if assessment.action.verb is Verb.START and assessment.action.broker is not None
    }
    for broker in sorted(to_start):
        say_follows(found.around or found.snapshot, broker)
    for trouble in found.troubles:
        say(f"? {trouble}")


def say_follows(snapshot: ClusterSnapshot, broker: int) -> bool:
    """Say what the start of *broker* cuts of its own, if others lead by now (R27)."""
    follows = snapshot.led_without(broker)
    if follows:
        say(
            f"b{broker} is out of sync in {partitions_text(follows)} that others lead: what it "
            f"alone has there is cut when it starts; {SAFE_WHEN} says what"
        )
    return follows > 0


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
    named: set[int] = set()
    last: Triage | None = None
    for last in found:
        for broker in sorted(last.evidence.awaited - named):
            say(f"waiting: {last.evidence.silent[broker]}")
        named |= last.evidence.awaited
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
    from breakglass.services.recovery.plan.check import require_cluster
    from breakglass.services.recovery.plan.make import appraise
    from breakglass.services.recovery.triage import judge, select

    # Before anything is asked about topics, which another cluster may not have or not show.
    described = client.describe(deadline_after(patience.SNAPSHOT))
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


def compare_with_memory(client: ReadClient, found: Triage) -> None:
    """Look what became of partitions that were offline when they were heard last."""
    from breakglass.services.incident.witness import compare_with_memory
    from breakglass.services.recovery.remembered.recollection import Recollection

    try:
        known = Recollection(found.snapshot.cluster_id)
        compare_with_memory(client, found.snapshot, known)
    except StorageError as error:
        say(f"? {error}")


def came_back(clusters: Iterable[str], since_ms: int = 0) -> str:
    """What came back without an election of ours, in any cluster if none is named; or empty."""
    from breakglass.services.recovery.remembered.store import FOLDER, ReplicaMemory

    times = {
        partition: at_ms
        for cluster_id in clusters or clusters_in(state_folder() / FOLDER)
        for (_, partition), at_ms in ReplicaMemory(cluster_id).returned().items()
        if at_ms >= since_ms
    }
    if not times:
        return ""
    more = f" and {len(times) - 1:,} more partitions" if len(times) > 1 else ""
    at = time_text(max(times.values()))
    return f"{min(times)}{more} came back without an election from here, seen at {at}"


def say_saved(found: Triage) -> None:
    """Say where records are saved that an election left out, and nobody has acknowledged."""
    from breakglass.services.incident.elections_seen import Observations, unacknowledged
    from breakglass.services.incident.witness import saved_before
    from breakglass.services.recovery.guarded.rescue_choice import all_folders

    try:
        seen = list(unacknowledged(Observations(found.snapshot.cluster_id).load()))
    except StorageError:
        return  # `say_observed` says why.
    states = {state.partition: state for state in found.snapshot.partitions}
    saved = saved_before(seen, states, all_folders(found.snapshot.cluster_id))
    for partition, end, path in dict.fromkeys(
        (it.partition, it.log_end, path) for it, path in saved
    ):
        say(f"{partition}: records from {end:,} on are saved in {path}")


def say_observed(*cluster_ids: str) -> None:
    """Say what is not acknowledged; a file that cannot be read is reported, and stops nothing."""
    from breakglass.services.incident.elections_seen import (
        Observations,
        alarm_lines,
        unacknowledged,
    )

    shown = False
    for cluster_id in cluster_ids:
        try:
            seen = unacknowledged(Observations(cluster_id).load())
        except StorageError as error:
            say(str(error))
            continue
        for line in alarm_lines(seen):
            shown = True
            say(f"SEEN: {line}.")
    if shown:
        say("Take note of it: breakglass journal list --observed --acknowledge")


def say_past_end(found: Iterable[GroupPastEnd], unread: Iterable[str], moment: str) -> None:
    """One line for each group, saying where its consumers go on at *moment*.

    Groups that could not be read are named as well (R33).
    """
    for reason in unread:
        say(f"? {reason}, when this was read: `breakglass after groups list` looks again")
    by_group: dict[str, list[GroupPastEnd]] = {}
    for past in found:
        by_group.setdefault(past.group, []).append(past)
    for group, held in by_group.items():
        first = held[0]
        more = f" (and past {len(held) - 1:,} more)" if len(held) > 1 else ""
        say(
            f"group {group}: committed {first.committed:,} on {first.partition}, whose log ends at "
            f"{first.log_end:,}{more}: {moment} its consumers go on there if they track leader "
            "epochs; others meet OFFSET_OUT_OF_RANGE and start where auto.offset.reset says; "
            "`breakglass after groups reset` moves it to where the log that it has read ends"
        )


COLUMNS = columns(
    "Topic-partition",
    ">Broker",
    "Role",
    "State",
    ">Start",
    ">HW",
    ">LEO",
    ">Epoch now",
    "Written epochs",
    "Newest",
    ">If chosen loses",
    "Contents",
    "Remark",
)


def print_replicas(found: Triage, led: Iterable[PartitionEvidence] = ()) -> None:
    """Print a row for every replica of every partition of *found*, and of those that are *led*."""
    rows = [
        _row(
            assessment.partition,
            candidate.replica,
            assessment.designee,
            loss_text(assessment.loss_of(candidate.broker)),
            candidate.remark or candidate.eligibility.reason,
        )
        for assessment in found.assessments
        for candidate in assessment.ranking.candidates
    ]
    rows += [
        _row(
            evidence.partition,
            replica,
            evidence.state.leader,
            "-",
            "leads" if replica.broker == evidence.state.leader else unread_reason(replica),
        )
        for evidence in led
        for replica in evidence.replicas
    ]
    if rows:
        print_table(COLUMNS, rows)
    for assessment in found.assessments:
        for reason in assessment.reasons:
            say(f"{assessment.partition}: {reason}")


def _row(
    partition: TopicPartition, replica: ReplicaLog, marked: int | None, loses: str, remark: str
) -> tuple[object, ...]:
    """*marked* is the broker that is proposed, or leads."""
    return (
        partition,
        f"{'*' if replica.broker == marked else ''}{replica.broker}",
        replica.role.value,
        _state(replica),
        count(replica.log_start),
        count(replica.high_watermark),
        count(replica.log_end),
        count(replica.leader_epoch),
        epochs_text(replica.epochs),
        time_text(replica.newest_ms),
        loses,
        contents_text(replica),
        remark,
    )


def _state(replica: ReplicaLog) -> str:
    if replica.log_dir_online is False:
        return "log dir offline"
    if replica.fenced is True:
        return "fenced" if replica.reachable else "fenced, silent"
    return "ok" if replica.reachable else "silent"
