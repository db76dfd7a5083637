"""A recovery plan and its file: whom to elect for each partition, and the evidence for it.

The document is the one KIP-1275 defines, ``{"partitions": [{"topic", "partition",
"designatedLeader"}]}``, with one more key at the top, ``breakglass``, that Kafka's own tools
ignore; bare ones in the form of KIP-1275 are read as well. A plan never changes: edits make another
one. Imports pydantic, so it is imported only where plans are used.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema, UsageError
from breakglass.services.model import CONTENTS_UNREAD, PartitionEvidence, TopicPartition, Unknown
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.inputs import abandoned
from breakglass.services.recovery.judgement.loss import UnreadRecords, unread_bound
from breakglass.services.recovery.plan.partition_file import (
    Election,
    UnreadableJson,
    canonical,
    digest_of_parts,
    elections_of,
    load_json,
    parse_json,
    spoken,
)
from breakglass.services.regular_file import replacing
from breakglass.services.rights import file_mode, open_new

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


def parse_plan(text: str, source: str) -> Plan:
    """The plan in *text*, which messages call *source*: one of ours, or in Kafka's format.

    Raises:
        MalformedInput: no JSON (with line and column), or which entry is wrong and how.
        UnsupportedSchema: written by a later release.
    """
    plan = _read_by_line(text, source)
    return _read_whole(text, source) if plan is None else plan


def _read_whole(text: str, source: str) -> Plan:
    plan = _plan(parse_json(text, source, bare_keys=True), source)
    if plan.breakglass is not None:
        _refuse_contradictions(plan, source)
    return plan


def _plan(document: object, source: str) -> Plan:
    # A plan of ours may elect nobody, a bare plan may not.
    ours = isinstance(document, dict) and document.get("breakglass") is not None
    nobody = ours and isinstance(document, dict) and document.get("partitions") == []
    elections = () if nobody else elections_of(document, source)
    entries = tuple(
        _entry(number, election, source) for number, election in enumerate(elections, start=1)
    )
    if not isinstance(document, dict) or document.get("breakglass") is None:
        return Plan(entries=entries)
    return Plan(entries=entries, breakglass=_evidence(document["breakglass"], source))


RECORDS = '\n "records": ['
LAST = "\n ]}}\n"
"""Around the records in the text of a plan, which has a line for each of them."""


def _read_by_line(text: str, source: str) -> Plan | None:
    """The plan of *text* as `rendered` yields it; None where it is not, or not a valid plan.

    Of a plan of 200,000 partitions the whole as dictionaries would take gigabytes. What is wrong
    with a text is found by `_read_whole`.
    """
    begin = text.find(RECORDS)
    if begin < 0 or not text.endswith(LAST):
        return None
    try:
        document = load_json(f"{text[:begin]}{RECORDS}]}}}}")
        section = document.get("breakglass") if isinstance(document, dict) else None
        if not isinstance(section, dict) or section.get("records") != []:
            return None
        plan = _plan(document, source)
        records = tuple(_records(text, begin + len(RECORDS), len(text) - len(LAST), source))
    except (json.JSONDecodeError, UnreadableJson):
        return None
    plan = plan.with_evidence(records=records)
    _refuse_contradictions(plan, source)
    return plan


def _records(text: str, start: int, end: int, source: str) -> Iterator[PartitionRecord]:
    """The records that stand in ``text[start:end]``, each in a line.

    Raises: JSONDecodeError, UnreadableJson, MalformedInput.
    """
    number = 0
    while start < end:
        stop = text.find(BETWEEN, start + 1, end)
        line = text[start : end if stop < 0 else stop]
        load_json(line)  # Of two values of one key, which it refuses, pydantic takes the last.
        try:
            yield PartitionRecord.model_validate_json(line, strict=True)
        except ValidationError as error:
            raise _invalid(error, source, "records", number) from error
        start = end if stop < 0 else stop + 1
        number += 1


BETWEEN = ",\n  "


def write_plan(plan: Plan, path: Path, *, replace: bool = False) -> str:
    """Write *plan*, with its digest, to a new file; with *replace* over the old one, at once.

    Returns the `fingerprint` of the file's text.

    Raises:
        UsageError: the file exists already; it is left as it is.
        StorageError: it cannot be written.
    """
    try:
        return _write_over(plan, path) if replace else _write_new(plan, path)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already and is kept: name another file.") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that can."
        ) from error


def rendered(plan: Plan) -> Iterator[str]:
    """The pieces of *plan* as JSON, one line for each election and one for each record.

    A large plan is never in memory as a whole text.
    """
    yield '{"partitions": '
    yield from _lines(entry.model_dump(by_alias=True) for entry in plan.entries)
    evidence = plan.breakglass
    if evidence is None:
        yield "}\n"
        return
    head = evidence.model_copy(update={"digest": plan.digest, "seal": plan.seal, "records": ()})
    fields = head.model_dump(mode="json", by_alias=True, exclude={"records"})
    yield ',\n"breakglass": {'
    yield from (f"\n {json.dumps(key)}: {json.dumps(value)}," for key, value in fields.items())
    yield '\n "records": '
    yield from _lines(record.model_dump(mode="json") for record in evidence.records)
    yield "}}\n"


def _lines(values: Iterable[dict[str, object]]) -> Iterator[str]:
    before = "[\n  "
    for value in values:
        yield before + json.dumps(value)
        before = BETWEEN
    yield "[]" if before != BETWEEN else "\n ]"


def fingerprint(text: Iterable[str]) -> str:
    """The digest of a text in pieces, which says whether a file was changed."""
    found = hashlib.sha256()
    for piece in text:
        found.update(piece.encode())
    return found.hexdigest()


def _write_new(plan: Plan, path: Path) -> str:
    with open(path, "xb", opener=open_new) as file:
        written = _write(plan, file)
        file.flush()
        os.fsync(file.fileno())
    return written


def _write_over(plan: Plan, path: Path) -> str:
    mode = path.stat().st_mode if path.exists() else file_mode()
    with replacing(path, stat.S_IMODE(mode)) as file:
        return _write(plan, file)


def _write(plan: Plan, file: BinaryIO) -> str:
    found = hashlib.sha256()
    for piece in rendered(plan):
        encoded = piece.encode()
        found.update(encoded)
        file.write(encoded)
    return found.hexdigest()


def _entry(number: int, election: Election, source: str) -> PlanEntry:
    partition, leader = election.partition, election.designated
    if leader is None:
        raise MalformedInput(
            f'{source}, entry {number} ({partition}): it has no "designatedLeader": name the '
            "broker to elect or drop the entry."
        )
    return PlanEntry(topic=partition.topic, number=partition.partition, leader=leader)


def _evidence(section: object, source: str) -> PlanEvidence:
    schema = section.get("schema") if isinstance(section, dict) else None
    if isinstance(schema, bool) or not isinstance(schema, int):
        raise MalformedInput(
            f'{source}: "breakglass" has no schema version: take the file as it was written, or '
            "drop that key to use it as a bare plan."
        )
    if schema > SCHEMA or schema < 1:
        raise UnsupportedSchema(
            f"{source} has plan schema {schema} and this release reads {SCHEMA}: use the release "
            "that wrote it, or make the plan again."
        )
    try:
        return PlanEvidence.model_validate_json(json.dumps(section), strict=True)
    except ValidationError as error:
        raise _invalid(error, source) from error


def _invalid(error: ValidationError, source: str, *within: int | str) -> MalformedInput:
    """What is wrong with the part that stands *within* the evidence."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = "".join(
        (f"[{step}]" if isinstance(step, int) else f".{step}") for step in (*within, *first["loc"])
    )
    wrong = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    return MalformedInput(
        f"{source}: breakglass{where}: {wrong}: take the file as it was written, or drop that key "
        "to use it as a bare plan."
    )


def _refuse_contradictions(plan: Plan, source: str) -> None:
    """Refuse values that no reading of the plan could make right."""
    evidence = plan.breakglass
    if evidence is not None and len(plan.records) < len(evidence.records):
        raise MalformedInput(f"{source} records a partition twice: make the plan again.")
    for number, entry in enumerate(plan.entries, start=1):
        named = f"{source}, entry {number} ({entry.partition})"
        record = plan.records.get(entry.partition)
        if record is None:
            raise MalformedInput(
                f"{named}: the plan has no evidence for it: make the plan again with it, or drop "
                'the key "breakglass" to use the file as a bare plan.'
            )
        assignment = record.evidence.state.assignment
        if entry.leader not in assignment or record.evidence.replica(entry.leader) is None:
            brokers = ", ".join(map(str, assignment))
            raise MalformedInput(
                f"{named}: designatedLeader {entry.leader} is not in its assignment {brokers}: "
                "name one of those brokers."
            )
