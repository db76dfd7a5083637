"""The JSON forms of what commands report. Each has a schema version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from breakglass.console.output import members, of_partition
from breakglass.services.model import EpochHistory, LogDir, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from breakglass.services.model import PartitionEvidence, ReplicaLog
    from breakglass.services.recovery.execution.target import PartitionOutcome, Skipped
    from breakglass.services.recovery.guarded.aftermath import GivenUp
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.judgement.loss import Loss
    from breakglass.services.recovery.rescue.spans import RescuedPartition
    from breakglass.services.recovery.triage import Triage

SCHEMA = 1

PARTITIONS = "partitions"
"""The array of a triage's JSON form, its last member."""


def triage_head(found: Triage) -> dict[str, Any]:
    """What a triage says of the cluster as a whole."""
    snapshot, summary = found.snapshot, found.summary
    return {
        "schema": SCHEMA,
        **members(snapshot, "cluster_id observed_at_ms quorum brokers"),
        "native_rpc": found.native.reason,
        "missing_acls": found.evidence.missing_acls,
        "silent": {str(broker): reason for broker, reason in found.evidence.silent.items()},
        "groups_unread": found.evidence.groups_unread,
        "headline": summary.headline,
        "alarm": summary.alarm,
        "passed_over": found.passed_over,
        "counts": {verdict.value: number for verdict, number in summary.counts.items()},
    }


def triage_partitions(found: Triage, *, brief: bool = False) -> Iterator[dict[str, Any]]:
    """Each partition with the evidence and its replicas; *brief*: what to do and what it loses."""
    for assessment, evidence in zip(found.assessments, found.evidence.partitions, strict=True):
        judged = {
            **of_partition(assessment.partition),
            "verdict": assessment.verdict.value,
            "action": str(assessment.action),
            "designated_leader": assessment.designee,
            "automatable": assessment.automatable,
            "leader_epoch": evidence.state.leader_epoch,
            "loses": None if assessment.loss is None else _loss(assessment.loss),
            "unread_at_least": assessment.unread.at_least,
            "unproved": assessment.unproved,
            "cut_by_return": (
                None
                if assessment.cut_by_return is None
                else {
                    "broker": assessment.cut_by_return.broker,
                    "held_by": assessment.cut_by_return.holders,
                    "records": assessment.cut_by_return.records,
                    "at_least": assessment.cut_by_return.at_least,
                    "approximate": assessment.cut_by_return.approximate,
                    "rescue": assessment.cut_by_return.command,
                }
            ),
            "heard": {"answered": assessment.heard[0], "replicas": assessment.heard[1]},
        }
        yield judged if brief else {**judged, **_grounds(assessment)}


def _grounds(assessment: Assessment) -> dict[str, Any]:
    """Why a partition is judged as it is."""
    return {
        "unread_source": assessment.unread.source,
        "unread": assessment.unread.replicas,
        "unheard": assessment.unheard,
        "gone": assessment.gone,
        "reasons": assessment.reasons,
        "replicas": [
            {
                **_replica(candidate.replica),
                "loses_if_chosen": _loss(assessment.loss_of(candidate.broker)),
                "remark": candidate.remark or candidate.eligibility.reason,
            }
            for candidate in assessment.ranking.candidates
        ],
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {
        "records": loss.total,
        "committed": loss.records.committed,
        "unproven": loss.records.unproven,
        "approximate": loss.approximate,
    }


def led_partitions(led: Iterable[PartitionEvidence]) -> list[dict[str, Any]]:
    """Partitions that have a leader, with their replicas."""
    return [
        {
            **of_partition(evidence.partition),
            "leader": evidence.state.leader,
            "leader_epoch": evidence.state.leader_epoch,
            "replicas": [_replica(replica) for replica in evidence.replicas],
        }
        for evidence in led
    ]


def _replica(replica: ReplicaLog) -> dict[str, Any]:
    epochs = replica.epochs
    return {
        "broker": replica.broker,
        "role": replica.role.value,
        "fenced": replica.fenced,
        "reachable": replica.reachable,
        "log_dir_online": replica.log_dir_online,
        "copy": _copy(replica),
        **members(replica, "log_start high_watermark log_end leader_epoch"),
        "written_epochs": _epochs(epochs),
        "newest_ms": replica.newest_ms,
        "contents": replica.contents,
        "source": replica.source.value,
        "observed_at_ms": replica.observed_at_ms,
    }


def _copy(replica: ReplicaLog) -> dict[str, Any] | None:
    """The copy of a move between directories that has not finished."""
    beside = replica.log_dir.copy if isinstance(replica.log_dir, LogDir) else None
    copy = replica.only_copy or beside
    if copy is None:
        return None
    only = replica.only_copy is not None
    return {"path": copy.path, "bytes": copy.size, "behind": copy.behind, "only": only}


def _epochs(epochs: EpochHistory | Unknown) -> object:
    if isinstance(epochs, Unknown):
        return epochs
    return [{"epoch": span.epoch, "start": span.start, "end": span.end} for span in epochs.ranges]


def outcomes_document(
    cluster_id: str, outcomes: Sequence[PartitionOutcome], skipped: Sequence[Skipped] = ()
) -> dict[str, Any]:
    """What came of an execution, partition by partition; *skipped* were never part of it."""
    held = [outcome.complete for outcome in outcomes] + [outcome.succeeded for outcome in skipped]
    return {
        "schema": SCHEMA,
        "cluster_id": cluster_id,
        "succeeded": all(held),
        "partitions": [*map(_skipped, skipped), *map(_outcome, outcomes)],
    }


def given_up_brokers(found: Sequence[GivenUp]) -> list[dict[str, Any]]:
    """Brokers whose unread logs elections gave up, each with what not to do."""
    return [members(broker, "broker advice partitions") for broker in found]


def rescued_partitions(results: Sequence[RescuedPartition]) -> list[dict[str, Any]]:
    """Each partition, with what was saved from which replica and where it is."""
    return [
        {
            **of_partition(result.partition),
            "designated_leader": result.designee,
            "rescued": result.whole,
            "reason": result.reason,
            "saved": result.saved,
        }
        for result in results
    ]


def _outcome(outcome: PartitionOutcome) -> dict[str, Any]:
    return {
        **of_partition(outcome.partition),
        "designated_leader": outcome.target.designee,
        **members(outcome, "result reason leader leader_epoch"),
        "rung": None if outcome.rung is None else str(outcome.rung),
        "records": outcome.held,
        **members(outcome, "not_yet_readable order_restored"),
    }


def _skipped(skipped: Skipped) -> dict[str, Any]:
    unknown = ("leader_epoch", "rung", "records", "not_yet_readable", "order_restored")
    return {
        **of_partition(skipped.partition),
        "designated_leader": skipped.designee,
        **members(skipped, "result reason leader"),
        **dict.fromkeys(unknown),
    }
