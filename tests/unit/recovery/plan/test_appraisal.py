"""A plan, ours or a bare one, against what a cluster says now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from breakglass.services.model import LogContents, PartitionEvidence, Unknown
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.appraisal import Appraisal, appraise
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.triage import Selection
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot
from tests.unit.recovery.plans import CLUSTER, GONE, LOSS, MADE_AT_MS, SAFE, planned
from tests.unit.recovery.replicas import log, offline


def held_against(
    plan: Plan, *offline_now: PartitionEvidence, online: Iterable[PartitionEvidence] = ()
) -> Appraisal:
    """*plan* where only these partitions exist: without leader, or led by their first replica."""
    led = [replace(evidence.state, leader=evidence.state.assignment[0]) for evidence in online]
    named = [*(evidence.partition for evidence in offline_now), *(state.partition for state in led)]
    selection = Selection(
        ClusterSnapshot(
            ClusterDescription(CLUSTER, (), names_fenced=True), Unknown("not asked"), (), MADE_AT_MS
        ),
        tuple(evidence.state for evidence in offline_now),
        tuple(led),
        tuple(leader for leader in plan.leaders if leader not in named),
    )
    return appraise(plan, selection, [assess(evidence, GONE) for evidence in offline_now])


def bare(leader: int, *evidence: PartitionEvidence) -> Plan:
    entries = [
        PlanEntry(topic=one.partition.topic, number=one.partition.partition, leader=leader)
        for one in evidence
    ]
    return Plan(entries=tuple(entries))


def statuses(appraisal: Appraisal) -> list[CheckStatus]:
    return [checked.status for checked in appraisal.checked]


def test_targets_rest_on_the_evidence_of_now() -> None:
    same = held_against(planned(SAFE, LOSS), SAFE, LOSS)
    assert (statuses(same), same.fine) == ([CheckStatus.UNCHANGED] * 2, True)
    assert [target.designee for target in same.targets()] == [2, 1]
    led_since = replace(SAFE, state=replace(SAFE.state, leader_epoch=11))
    appraisal = held_against(planned(SAFE), led_since)
    assert statuses(appraisal) == [CheckStatus.RERANKED]
    assert appraisal.targets()[0].leader_epoch == 11


def test_what_changed_is_refused_with_the_reason_and_the_rest_goes_on() -> None:
    shorter = offline(log(1, (0, 90)), log(2, (0, 99)), SAFE.replicas[2], number=1)
    appraisal = held_against(planned(SAFE, LOSS), shorter, LOSS)
    assert not appraisal.fine
    assert [str(target.partition) for target in appraisal.targets()] == ["orders-3"]
    (skipped,) = appraisal.skipped
    assert skipped.result is RecoveryResult.REFUSED
    assert skipped.reason.startswith("the log end of b2 was 100 and is 99")
    assert skipped.reason.endswith(": make the plan again")


def test_elections_of_a_bare_plan_that_cannot_be_held_say_why() -> None:
    gone = offline(log(1), number=8)
    whole = held_against(bare(1, SAFE, LOSS), SAFE, LOSS)
    assert statuses(whole) == [CheckStatus.NEW, CheckStatus.NEW]
    assert [target.designee for target in whole.targets()] == [1, 1]
    appraisal = held_against(bare(3, SAFE, LOSS, gone), SAFE, online=[LOSS])
    assert [(skipped.result, skipped.reason) for skipped in appraisal.skipped] == [
        (RecoveryResult.REFUSED, "b3 is fenced: choose another leader"),
        (RecoveryResult.ALREADY_ONLINE, "led by b2"),
        (RecoveryResult.REFUSED, "there is no such partition: leave it out of the plan"),
    ]
    assert appraisal.targets() == ()


def with_contents(
    evidence: PartitionEvidence, broker: int, found: LogContents
) -> PartitionEvidence:
    replicas = [
        replace(replica, contents=found) if replica.broker == broker else replica
        for replica in evidence.replicas
    ]
    return replace(evidence, replicas=tuple(replicas))


CORRUPT = LogContents(0, 40, 40, "its CRC differs")


def test_what_the_plan_knows_of_contents_counts_where_they_are_not_read_again() -> None:
    known = with_contents(SAFE, 2, CORRUPT)
    plan = planned(known)
    assert plan.records[SAFE.partition].loss_of(2).total == 60
    by_hand = bare(1, SAFE).model_copy(update={"breakglass": plan.breakglass})
    appraisal = held_against(by_hand, SAFE)
    assert statuses(appraisal) == [CheckStatus.UNCHANGED]
    assert appraisal.evidence[SAFE.partition].replica(2).corrupt_at == 40  # type: ignore[union-attr]


def test_damage_that_is_found_since_the_plan_was_made_stops_its_election() -> None:
    appraisal = held_against(planned(SAFE), with_contents(SAFE, 2, CORRUPT))
    (checked,) = appraisal.checked
    assert checked.status is CheckStatus.CHANGED
    assert checked.reason == "b2 no longer has its rank"
