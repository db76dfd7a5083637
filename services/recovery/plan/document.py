"""A recovery plan: whom to elect for each partition, and the evidence for it.

The document is the one KIP-1275 defines, ``{"partitions": [{"topic", "partition",
"designatedLeader"}]}``, with one more key at the top, ``breakglass``, that Kafka's own tools
ignore. A plan never changes: edits make another one. Imports pydantic, so it is imported only
where plans are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from services.model import PartitionEvidence, TopicPartition, Unknown
from services.recovery.judgement.assessment import Assessment
from services.recovery.judgement.loss import Loss
from services.recovery.plan.digest import digest_of, spoken

SCHEMA = 1
"""Version of what stands under ``breakglass``; a greater one is refused."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Entry(_Frozen):
    """One election, as KIP-1275 has it."""

    topic: str
    number: int = Field(validation_alias="partition", serialization_alias="partition")
    leader: int = Field(validation_alias="designatedLeader", serialization_alias="designatedLeader")

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)


class ChosenBy(StrEnum):
    """How the designated leader of a partition came to be chosen."""

    RANK = "rank"
    """The best replica by the ranking."""
    RULE = "rule"
    """A rule of the operator for many partitions."""
    HAND = "hand"
    """The operator, for this partition."""


class RecordedLoss(_Frozen):
    """The loss of one choice at the time of the plan."""

    broker: int
    total: int | Unknown
    committed: int | Unknown
    uncommitted: int | Unknown
    approximate: bool = False


class PartitionRecord(_Frozen):
    """What a plan remembers of one partition, elected or left out."""

    evidence: PartitionEvidence
    verdict: str
    action: str
    ranking: tuple[int, ...]
    """All replicas, best first; those that cannot be recommended last."""
    losses: tuple[RecordedLoss, ...]
    """For each replica that could be read."""
    unread_at_least: int | Unknown
    reasons: tuple[str, ...]
    automatable: bool
    chosen_by: ChosenBy | None = None
    """None: the partition is left out."""
    left_out: str = ""
    """Why it is left out."""

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition

    def facts(self) -> dict[str, Any]:
        """All of it as JSON, but for the moments at which replicas were read."""
        moments = {"evidence": {"replicas": {"__all__": {"observed_at_ms"}}}}
        return self.model_dump(mode="json", exclude=moments)

    def loss_of(self, broker: int) -> RecordedLoss:
        """The loss of electing *broker*; Unknown if its log could not be read."""
        for loss in self.losses:
            if loss.broker == broker:
                return loss
        replica = self.evidence.replica(broker)
        why = replica.log_end if replica is not None else None
        unknown = why if isinstance(why, Unknown) else Unknown(f"b{broker} was not read")
        return RecordedLoss(broker=broker, total=unknown, committed=unknown, uncommitted=unknown)


class Approval(_Frozen):
    """Somebody's agreement to one digest."""

    by: str
    at_ms: int
    digest: str


class PlanEvidence(_Frozen):
    """What stands under ``breakglass``."""

    schema_version: int = Field(
        default=SCHEMA, validation_alias="schema", serialization_alias="schema"
    )
    cluster_id: str
    made_at_ms: int
    records: tuple[PartitionRecord, ...]
    notes: tuple[str, ...] = ()
    approvals: tuple[Approval, ...] = ()
    digest: str = ""
    """As it was written; `Plan.digest` is what it is now."""


class Plan(_Frozen):
    """The whole document. Without ``breakglass`` it is a bare plan in Kafka's form."""

    entries: tuple[Entry, ...] = Field(
        validation_alias="partitions", serialization_alias="partitions"
    )
    breakglass: PlanEvidence | None = None

    @cached_property
    def leaders(self) -> Mapping[TopicPartition, int]:
        """The designated leader of each partition, in the plan's order."""
        return {entry.partition: entry.leader for entry in self.entries}

    @cached_property
    def records(self) -> Mapping[TopicPartition, PartitionRecord]:
        """What is remembered of each partition, those left out included."""
        return {one.partition: one for one in self.breakglass.records} if self.breakglass else {}

    @property
    def left_out(self) -> tuple[PartitionRecord, ...]:
        """Partitions that were looked at and are not elected."""
        return tuple(one for one in self.records.values() if one.partition not in self.leaders)

    @property
    def cluster_id(self) -> str | None:
        """The cluster the plan was made for; None for a bare plan."""
        return self.breakglass.cluster_id if self.breakglass else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what will be done and the evidence it rests on, in hexadecimal.

        Cluster id, partitions, leaders and the records of these partitions; neither time nor
        notes nor approvals, nor partitions that are left out, nor the order of entries.
        """
        elections = [
            [entry.topic, entry.number, entry.leader, self._recorded(entry.partition)]
            for entry in sorted(self.entries, key=lambda entry: entry.partition)
        ]
        return digest_of({"cluster_id": self.cluster_id, "elections": elections})

    def _recorded(self, partition: TopicPartition) -> Any:
        record = self.records.get(partition)
        return None if record is None else record.facts()

    @property
    def spoken_digest(self) -> str:
        """The digest in three speakable groups."""
        return spoken(self.digest)

    @property
    def altered(self) -> bool:
        """The file was changed after its digest was written, by hand or by another program."""
        return self.breakglass is not None and self.breakglass.digest not in ("", self.digest)

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """Approvals of this very digest; an edit voids those before it."""
        given = self.breakglass.approvals if self.breakglass else ()
        return tuple(one for one in given if one.digest == self.digest)


def record_of(
    assessment: Assessment, chosen_by: ChosenBy | None = None, left_out: str = ""
) -> PartitionRecord:
    """What a plan remembers of *assessment*."""
    readable = [one.broker for one in assessment.evidence.replicas if isinstance(one.log_end, int)]
    return PartitionRecord(
        evidence=assessment.evidence,
        verdict=assessment.verdict.value,
        action=str(assessment.action),
        ranking=assessment.ranking.brokers,
        losses=tuple(_recorded(assessment.loss_of(broker)) for broker in readable),
        unread_at_least=assessment.unread.at_least,
        reasons=assessment.reasons,
        automatable=assessment.automatable,
        chosen_by=chosen_by,
        left_out=left_out,
    )


def _recorded(loss: Loss) -> RecordedLoss:
    records = loss.records
    return RecordedLoss(
        broker=loss.candidate,
        total=records.total,
        committed=records.committed,
        uncommitted=records.uncommitted,
        approximate=loss.approximate,
    )
