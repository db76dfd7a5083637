"""A recovery plan: whom to elect for each partition, and the evidence for it.

The document is the one KIP-1275 defines, ``{"partitions": [{"topic", "partition",
"designatedLeader"}]}``, with one more key at the top, ``breakglass``, that Kafka's own tools
ignore. A plan never changes: edits make another one. Imports pydantic, so it is imported only
where plans are used.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any
from unicodedata import normalize

from pydantic import BaseModel, ConfigDict, Field

from breakglass.services.model import CONTENTS_UNREAD, PartitionEvidence, TopicPartition, Unknown
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.inputs import abandoned
from breakglass.services.recovery.judgement.loss import UnreadRecords, unread_bound
from breakglass.services.recovery.plan.partition_file import canonical, digest_of_parts, spoken

SCHEMA = 1
"""Version of the object under ``breakglass``; greater versions are refused."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class PlanEntry(_Frozen):
    """One election, as KIP-1275 has it."""

    topic: str
    number: int = Field(validation_alias="partition", serialization_alias="partition")
    leader: int = Field(validation_alias="designatedLeader", serialization_alias="designatedLeader")

    @cached_property
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


@quickly_made
@dataclass(frozen=True, slots=True)
class RecordedLoss:
    """The loss of one choice at the time of the plan."""

    broker: int
    total: int | Unknown
    committed: int | Unknown
    uncommitted: int | Unknown
    """Of the others it is not known whether they are committed (R29); the name is the file's."""
    approximate: bool = False
    abandons: tuple[int, ...] = ()
    """Brokers whose unread logs the choice gives up."""


class PartitionRecord(_Frozen):
    """What a plan remembers of one partition, elected or left out."""

    evidence: PartitionEvidence
    verdict: str
    action: str
    ranking: tuple[int, ...]
    """All replicas, best first; replicas that cannot be recommended come last."""
    losses: tuple[RecordedLoss, ...]
    """The loss of each replica that could be read."""
    unread_at_least: int | Unknown
    restorers: tuple[int, ...] = ()
    """Brokers that would each bring the partition back whole, once started."""
    unheard: tuple[int, ...] = ()
    """Other brokers that may each hold more than the best replica, once started."""
    gone: tuple[int, ...] = ()
    """Brokers of the assignment that were declared gone."""
    reasons: tuple[str, ...]
    automatable: bool
    chosen_by: ChosenBy | None = None
    """None: the partition is left out."""
    left_out: str = ""
    """Why the partition is left out."""

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition

    def facts(self) -> dict[str, Any]:
        """The record as JSON, without the moments at which replicas were read."""
        moments = {"evidence": {"replicas": {"__all__": {"observed_at_ms"}}}}
        facts = self.model_dump(mode="json", exclude=moments)
        for replica, log in zip(facts["evidence"]["replicas"], self.evidence.replicas, strict=True):
            # Fields that earlier plans lack are left out, so that those plans keep their digests.
            if log.contents == CONTENTS_UNREAD:
                del replica["contents"]
            if log.last_heard is None:
                del replica["last_heard"]
        return facts

    @cached_property
    def _packed(self) -> bytes:
        """The facts as canonical JSON, cut where each of those stands that edits change; packed.

        It is most of the work of a digest, so it is done once: a copy under another decision
        takes it along. It is long, and much of it is the same in all records.
        """
        facts = self.facts()
        chosen_by, left_out = _DECIDED
        first = canonical({name: facts[name] for name in facts if name < chosen_by})
        second = canonical({name: facts[name] for name in facts if chosen_by < name < left_out})
        third = canonical({name: facts[name] for name in facts if name > left_out})
        pieces = (f'{first[:-1]},"{chosen_by}":', f',{second[1:-1]},"{left_out}":', f",{third[1:]}")
        return zlib.compress(_CUT.join(pieces).encode("ascii"), FAST)

    @property
    def canonical_facts(self) -> str:
        """The facts as canonical JSON."""
        first, second, third = zlib.decompress(self._packed).decode("ascii").split(_CUT)
        return f"{first}{_canonical(self.chosen_by)}{second}{_canonical(self.left_out)}{third}"

    @cached_property
    def unread(self) -> UnreadRecords:
        """What is known of records that only unread replicas can hold."""
        return unread_bound(self.evidence)

    @property
    def comes_back_whole(self) -> bool:
        """The partition needs no election if a broker is started, or waited for."""
        return self.verdict == Verdict.WAIT and bool(self.restorers)

    def decided(self, chosen_by: ChosenBy | None, left_out: str) -> PartitionRecord:
        """The same facts under another decision."""
        return self.model_copy(update={"chosen_by": chosen_by, "left_out": left_out})

    def loss_of(self, broker: int) -> RecordedLoss:
        """The loss of electing *broker*; Unknown if its log could not be read."""
        for loss in self.losses:
            if loss.broker == broker:
                return loss
        replica = self.evidence.replica(broker)
        why = replica.log_end if replica is not None else None
        unknown = why if isinstance(why, Unknown) else Unknown(f"b{broker} was not read")
        return RecordedLoss(
            broker=broker,
            total=unknown,
            committed=unknown,
            uncommitted=unknown,
            abandons=tuple(sorted(abandoned(self.evidence, broker))),
        )


_CUT = "\n"
"""Stands in no canonical JSON."""
FAST = 1
"""zlib's level: higher levels save little and take several times as long."""
_DECIDED = ("chosen_by", "left_out")
"""The fields of a record that edits change; all others come from the cluster."""


@lru_cache(4096)
def _canonical(value: str | None) -> str:
    """`canonical` of values that many records share: reasons, topics."""
    return canonical(value)


class Approval(_Frozen):
    """A person's agreement to a plan as it was then."""

    by: str
    at_ms: int
    digest: str
    seal: str = ""
    """`Plan.seal` of what the person read; earlier versions gave none, and their approvals count
    no more."""


class PlanEvidence(_Frozen):
    """The object under ``breakglass``."""

    schema_version: int = Field(
        default=SCHEMA, validation_alias="schema", serialization_alias="schema"
    )
    cluster_id: str
    made_at_ms: int
    records: tuple[PartitionRecord, ...]
    notes: tuple[str, ...] = ()
    approvals: tuple[Approval, ...] = ()
    digest: str = ""
    """The digest as it was written; `Plan.digest` is the present one."""
    seal: str = ""
    """The seal as it was written; plans of earlier versions have none."""


class Plan(_Frozen):
    """The whole document. Without ``breakglass`` it is a bare plan in Kafka's format."""

    entries: tuple[PlanEntry, ...] = Field(
        validation_alias="partitions", serialization_alias="partitions"
    )
    breakglass: PlanEvidence | None = None

    @cached_property
    def leaders(self) -> Mapping[TopicPartition, int]:
        """The designated leader of each partition, in the plan's order."""
        return {entry.partition: entry.leader for entry in self.entries}

    @cached_property
    def records(self) -> Mapping[TopicPartition, PartitionRecord]:
        """The record of each partition, including partitions that are left out."""
        return (
            {record.partition: record for record in self.breakglass.records}
            if self.breakglass
            else {}
        )

    @property
    def left_out(self) -> tuple[PartitionRecord, ...]:
        """Partitions that were looked at and are not elected."""
        return tuple(
            record for record in self.records.values() if record.partition not in self.leaders
        )

    @property
    def cluster_id(self) -> str | None:
        """The cluster the plan was made for; None for a bare plan."""
        return self.breakglass.cluster_id if self.breakglass else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what will be done and the evidence it rests on, in hexadecimal.

        Cluster id, partitions, leaders and the records of these partitions; neither time nor
        notes nor approvals, nor partitions that are left out, nor the order of entries. So two
        persons who plan from the same facts can compare it; `seal` is of what they read.
        """
        return digest_of_parts(self._canonical_parts())

    def _canonical_parts(self) -> Iterator[str]:
        """Canonical JSON: ``{"cluster_id", "elections": [[topic, partition, leader, facts]]}``."""
        yield f'{{"cluster_id":{canonical(self.cluster_id)},"elections":['
        comma = ""
        for partition, leader in sorted(self.leaders.items()):
            record = self.records.get(partition)
            facts = "null" if record is None else record.canonical_facts
            topic = _canonical(partition.topic)
            yield f"{comma}[{topic},{partition.partition},{leader},{facts}]"
            comma = ","
        yield "]}"

    @cached_property
    def seal(self) -> str:
        """SHA-256 over all that a person reads in the plan, whom it elects and all else.

        The digest, and what it leaves out: times, notes and the partitions that are left out.
        """
        made, notes = (it.made_at_ms, it.notes) if (it := self.breakglass) else (None, ())

        def lines() -> Iterator[str]:
            yield canonical([self.digest, made, list(notes)])
            for partition, record in sorted(self.records.items()):
                times = [log.observed_at_ms for log in record.evidence.replicas]
                yield canonical([partition.topic, partition.partition, times])
                if partition not in self.leaders:
                    yield record.canonical_facts

        return digest_of_parts(f"{line}\n" for line in lines())

    @property
    def spoken_digest(self) -> str:
        """The digest in three speakable groups."""
        return spoken(self.digest)

    @property
    def altered(self) -> bool:
        """The file was changed after its digest was written, by hand or by another program."""
        written = self.breakglass
        return written is not None and (
            written.digest not in ("", self.digest)
            or (written.seal != "" and written.seal != self.seal)
        )

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """Approvals of this very plan, one of each person; an edit voids those before it."""
        given = self.breakglass.approvals if self.breakglass else ()
        valid: list[Approval] = []
        for approval in given:
            if (approval.digest, approval.seal) == (self.digest, self.seal) and not any(
                same_person(approval.by, it.by) for it in valid
            ):
                valid.append(approval)
        return tuple(valid)

    def with_evidence(self, **changes: object) -> Plan:
        """The same elections with *changes* of what stands under ``breakglass``, if it does."""
        if self.breakglass is None:
            return self
        return Plan(entries=self.entries, breakglass=self.breakglass.model_copy(update=changes))

    def packed(self) -> Plan:
        """The same plan without all that was worked out from it, to be kept for later."""
        return Plan(entries=self.entries, breakglass=self.breakglass)


def same_person(name: str, other: str) -> bool:
    """Whether two names are one person's, however they are written."""
    return _person(name) == _person(other)


def _person(name: str) -> str:
    return " ".join(normalize("NFKC", name).casefold().split())


def record_of(
    assessment: Assessment, chosen_by: ChosenBy | None = None, left_out: str = ""
) -> PartitionRecord:
    """The record of *assessment* in a plan."""
    readable = [
        replica.broker
        for replica in assessment.evidence.replicas
        if isinstance(replica.log_end, int)
    ]
    return PartitionRecord(
        evidence=assessment.evidence,
        verdict=assessment.verdict.value,
        action=str(assessment.action),
        ranking=assessment.ranking.brokers,
        losses=tuple(_recorded(assessment, broker) for broker in readable),
        unread_at_least=assessment.unread.at_least,
        restorers=assessment.restorers,
        unheard=assessment.unheard,
        gone=assessment.gone,
        reasons=assessment.reasons,
        automatable=assessment.automatable,
        chosen_by=chosen_by,
        left_out=left_out,
    )


def _recorded(assessment: Assessment, broker: int) -> RecordedLoss:
    loss = assessment.loss_of(broker)
    records = loss.records
    return RecordedLoss(
        broker=loss.candidate,
        total=records.total,
        committed=records.committed,
        uncommitted=records.unproven,
        approximate=loss.approximate,
        abandons=tuple(sorted(abandoned(assessment.evidence, broker))),
    )
