"""The JSON forms of what commands report. Each has a schema version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakglass.services.model import EpochHistory, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from breakglass.services.model import ReplicaLog
    from breakglass.services.recovery.execution.target import PartitionOutcome
    from breakglass.services.recovery.guarded.given_up import GivenUp
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.judgement.loss import Loss
    from breakglass.services.recovery.plan.appraisal import Skipped
    from breakglass.services.recovery.rescue.results import RescuedPartition
    from breakglass.services.recovery.triage import Triage

SCHEMA = 1

PARTITIONS = "partitions"
"""The array of a triage's JSON form, its last member."""


def triage_head(found: Triage) -> dict[str, Any]:
    """What a triage says of the cluster as a whole."""
    from breakglass.services.recovery.judgement.summary import summarize

    snapshot, summary = found.snapshot, summarize(found.assessments, found.snapshot.quorum)
    return {
        "schema": SCHEMA,
        "cluster_id": snapshot.cluster_id,
        "observed_at_ms": snapshot.observed_at_ms,
        "quorum": snapshot.quorum,
        "brokers": snapshot.brokers,
        "native_rpc": found.native.reason,
        "missing_acls": found.evidence.missing_acls,
        "silent": {str(broker): reason for broker, reason in found.evidence.silent.items()},
        "headline": summary.headline,
        "alarm": summary.alarm,
        "counts": {verdict.value: number for verdict, number in summary.counts.items()},
    }


def triage_partitions(found: Triage, *, brief: bool = False) -> Iterator[dict[str, Any]]:
    """Each partition with the evidence and its replicas; *brief*: what to do and what it loses."""
    for one, evidence in zip(found.assessments, found.evidence.partitions, strict=True):
        judged = _judged(one, evidence.state.leader_epoch)
        yield judged if brief else {**judged, **_grounds(one)}


def _judged(one: Assessment, leader_epoch: int) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "verdict": one.verdict.value,
        "action": str(one.action),
        "designated_leader": one.designee,
        "automatable": one.automatable,
        "leader_epoch": leader_epoch,
        "loses": None if one.loss is None else _loss(one.loss),
        "unread_at_least": one.unread.at_least,
        "heard": {"answered": one.heard[0], "replicas": one.heard[1]},
    }


def _grounds(one: Assessment) -> dict[str, Any]:
    """Why a partition is judged as it is."""
    return {
        "unread_source": one.unread.source,
        "unread": one.unread.replicas,
        "unheard": one.unheard,
        "gone": one.gone,
        "reasons": one.reasons,
        "replicas": [
            _replica(candidate.replica, one, candidate.remark or candidate.eligibility.reason)
            for candidate in one.ranking.candidates
        ],
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {
        "records": loss.total,
        "committed": loss.records.committed,
        "uncommitted": loss.records.uncommitted,
        "approximate": loss.approximate,
    }


def _replica(replica: ReplicaLog, assessment: Assessment, remark: str) -> dict[str, Any]:
    loss = assessment.loss_of(replica.broker)
    epochs = replica.epochs
    return {
        "broker": replica.broker,
        "role": replica.role.value,
        "fenced": replica.fenced,
        "reachable": replica.reachable,
        "log_dir_online": replica.log_dir_online,
        "log_start": replica.log_start,
        "high_watermark": replica.high_watermark,
        "log_end": replica.log_end,
        "leader_epoch": replica.leader_epoch,
        "written_epochs": _epochs(epochs),
        "newest_ms": replica.newest_ms,
        "contents": replica.contents,
        "source": replica.source.value,
        "observed_at_ms": replica.observed_at_ms,
        "loses_if_chosen": _loss(loss),
        "remark": remark,
    }


def _epochs(epochs: EpochHistory | Unknown) -> object:
    if isinstance(epochs, Unknown):
        return epochs
    return [{"epoch": one.epoch, "start": one.start, "end": one.end} for one in epochs.ranges]


def outcomes_document(
    cluster_id: str, outcomes: Sequence[PartitionOutcome], skipped: Sequence[Skipped] = ()
) -> dict[str, Any]:
    """What came of an execution, partition by partition; *skipped* were never part of it."""
    held = [one.complete for one in outcomes] + [one.succeeded for one in skipped]
    return {
        "schema": SCHEMA,
        "cluster_id": cluster_id,
        "succeeded": all(held),
        "partitions": [*map(_skipped, skipped), *map(_outcome, outcomes)],
    }


def rescue_document(cluster_id: str, results: Sequence[RescuedPartition]) -> dict[str, Any]:
    """What came of a rescue, partition by partition."""
    return {
        "schema": SCHEMA,
        "cluster_id": cluster_id,
        "succeeded": all(one.whole for one in results),
        "partitions": rescued_partitions(results),
    }


def given_up_brokers(found: Sequence[GivenUp]) -> list[dict[str, Any]]:
    """Brokers whose unread logs elections gave up, each with what not to do."""
    return [
        {
            "broker": one.broker,
            "advice": one.advice,
            "partitions": [{"topic": it.topic, "partition": it.partition} for it in one.partitions],
        }
        for one in found
    ]


def rescued_partitions(results: Sequence[RescuedPartition]) -> list[dict[str, Any]]:
    """Each partition, with what was saved from which replica and where it is."""
    return [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "designated_leader": one.designee,
            "rescued": one.whole,
            "reason": one.reason,
            "saved": one.saved,
        }
        for one in results
    ]


def _outcome(one: PartitionOutcome) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "designated_leader": one.target.designee,
        "result": one.result.value,
        "reason": one.reason,
        "leader": one.leader,
        "leader_epoch": one.leader_epoch,
        "rung": None if one.rung is None else str(one.rung),
        "order_restored": one.order_restored,
    }


def _skipped(one: Skipped) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "designated_leader": one.designee,
        "result": one.result.value,
        "reason": one.reason,
        "leader": one.leader,
        "leader_epoch": None,
        "rung": None,
        "order_restored": None,
    }
