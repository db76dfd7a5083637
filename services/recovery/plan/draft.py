"""A plan being edited: its edits, its file, and whether its evidence was read again.

A file is never overwritten with a plan that was not read from it, and a renewed plan has the
evidence that the cluster gives now.

The edits of a plan, one after the other, to be undone and redone. A pure value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.errors import EvidenceChanged
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.judgement.assessment import refusal
from breakglass.services.recovery.plan.check import (
    Checked,
    CheckStatus,
    check_one,
    led_evidence,
    require_cluster,
)
from breakglass.services.recovery.plan.document import (
    ChosenBy,
    Plan,
    PlanEntry,
    fingerprint,
    parse_plan,
    record_of,
    write_plan,
)
from breakglass.services.recovery.plan.edit import voided
from breakglass.services.recovery.plan.make import PlanTotals, adopt, recommended, totals_of
from breakglass.services.recovery.plan.partition_file import read_text
from breakglass.services.recovery.triage import Left
from breakglass.services.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.plan.document import PartitionRecord, PlanEvidence

REMEMBERED = 100
"""Edits that can be undone; older edits stay."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit, in words and figures."""

    what: str
    """``orders-3: b1 -> b2``, ``never b4: 14 partitions``."""
    before: PlanTotals
    after: PlanTotals
    voided: tuple[str, ...] = ()
    """Persons whose approvals of the earlier plan are void."""

    def __str__(self) -> str:
        """``orders-3: b1 -> b2; loses 50 -> 25; approvals void: ada``."""
        before, after = self.before, self.after
        changes = [
            ("elects", f"{before.elected:,}", f"{after.elected:,}"),
            ("loses", _price(before), _price(after)),
            ("unread", before.unread, after.unread),
        ]
        moved = [f"{name} {old} -> {new}" for name, old, new in changes if old != new]
        parts = [self.what, *(moved or [f"loses {_price(after)} as before"])]
        if self.voided:
            parts.append(f"approvals void: {', '.join(self.voided)}")
        return "; ".join(parts)


def _price(totals: PlanTotals) -> str:
    return "?" if totals.price is None else str(totals.price)


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """A plan as it is, as it was, and as it was before edits were undone."""

    plans: tuple[Plan, ...]
    edits: tuple[Edit, ...] = ()
    """``edits[n]`` led from ``plans[n]`` to ``plans[n + 1]``."""
    place: int = 0
    """Where in ``plans`` the present is."""

    @classmethod
    def of(cls, plan: Plan) -> PlanHistory:
        """*plan*, to which nothing has been done yet."""
        return cls((plan,))

    @property
    def present(self) -> Plan:
        return self.plans[self.place]

    @property
    def last(self) -> Edit | None:
        """The edit that made the present; None: there is nothing to undo."""
        return self.edits[self.place - 1] if self.place else None

    @property
    def next(self) -> Edit | None:
        """The edit that was undone; None: there is nothing to redo."""
        return self.edits[self.place] if self.place < len(self.edits) else None

    def edited(self, plan: Plan, what: str) -> PlanHistory:
        """The present becomes *plan*, by *what*; edits that were undone are dropped.

        Itself if *plan* is the present one, for nothing was edited.
        """
        before = self.present
        if plan is before:
            return self
        void = tuple([name for name in voided(plan) if name not in voided(before)])
        totals = self.last.after if self.last else totals_of(before)
        edit = Edit(what, totals, totals_of(plan), void)
        plans = (*self.plans[: self.place], before.packed(), plan)[-REMEMBERED - 1 :]
        edits = (*self.edits[: self.place], edit)[-REMEMBERED:]
        return PlanHistory(plans, edits, len(edits))

    def amended(self, plan: Plan) -> PlanHistory:
        """*plan* in place of the present one, as no step of its own: an approval is not undone."""
        return replace(self, plans=(*self.plans[: self.place], plan, *self.plans[self.place + 1 :]))

    def undo(self) -> PlanHistory:
        """The plan before the last edit; itself if there is none."""
        return replace(self, place=max(self.place - 1, 0))

    def redo(self) -> PlanHistory:
        """The plan after the edit that was undone last; itself if there is none."""
        return replace(self, place=min(self.place + 1, len(self.edits)))


@dataclass(frozen=True, slots=True)
class PresentEvidence:
    """The present evidence for the partitions of a plan."""

    cluster_id: str
    read_at_ms: int
    assessments: Mapping[TopicPartition, Assessment]
    """Assessments of partitions that are offline and were read."""
    online: Mapping[TopicPartition, PartitionEvidence]
    """States of partitions that have a leader."""
    unheard: frozenset[TopicPartition]
    """Partitions that are offline and not read yet."""

    def evidence(self, partition: TopicPartition) -> PartitionEvidence | None:
        """What is known of *partition*; None: there is no such partition."""
        judged = self.assessments.get(partition)
        return judged.evidence if judged is not None else self.online.get(partition)


def present_of(
    plan: Plan, snapshot: ClusterSnapshot, assessments: Iterable[Assessment], read_at_ms: int
) -> PresentEvidence:
    """The evidence in *snapshot* and its *assessments* for the partitions of *plan*.

    Raises:
        WrongCluster: the plan was made for another cluster.
    """
    require_cluster(plan, snapshot.cluster_id, "the plan")
    wanted = {*plan.leaders, *plan.records}
    judged = {
        assessment.partition: assessment
        for assessment in assessments
        if assessment.partition in wanted
    }
    states = [state for state in snapshot.partitions if state.partition in wanted]
    online = {state.partition: led_evidence(state) for state in states if not state.offline}
    unheard = frozenset(
        [state.partition for state in states if state.offline and state.partition not in judged]
    )
    return PresentEvidence(snapshot.cluster_id, read_at_ms, judged, online, unheard)


def check_present(plan: Plan, present: PresentEvidence) -> dict[TopicPartition, Checked]:
    """Each election of *plan*, which has evidence, against *present*; not those unheard."""
    return {
        partition: check_one(plan.records[partition], leader, present.evidence(partition))
        for partition, leader in plan.leaders.items()
        if partition not in present.unheard
    }


def renew(plan: Plan, present: PresentEvidence) -> Plan:
    """*plan*, which has evidence, resting on that of *present*.

    Who was elected by rank is elected by the rank of now. A choice by hand or by rule is kept
    where that replica can still be elected. What was left out stays out, for nobody asked for
    its election. What is online or gone is left out, and what was not heard stays as it is.
    """
    evidence = plan.breakglass
    if evidence is None:
        raise ValueError("a bare plan is adopted and not renewed")
    leaders: dict[TopicPartition, int] = {}
    records: list[PartitionRecord] = []
    for record in evidence.records:
        before = plan.leaders.get(record.partition)
        renewed, leader = _renewed(record, before, present)
        records.append(renewed)
        if leader is not None:
            leaders[record.partition] = leader
    entries = [
        PlanEntry(topic=partition.topic, number=partition.partition, leader=leader)
        for partition, leader in leaders.items()
    ]
    changes = {
        "records": tuple(records),
        "made_at_ms": present.read_at_ms,
        "digest": "",
        "seal": "",
    }
    return Plan(entries=tuple(entries), breakglass=evidence.model_copy(update=changes))


def _renewed(
    record: PartitionRecord, leader: int | None, present: PresentEvidence
) -> tuple[PartitionRecord, int | None]:
    partition = record.partition
    if partition in present.unheard:
        return record, leader
    found = present.assessments.get(partition)
    if found is None:
        return record.decided(None, _away(partition, present)), None
    if leader is None:
        return record_of(found, left_out=record.left_out), None
    fresh = record_of(found, record.chosen_by)
    if record.chosen_by is ChosenBy.RANK:
        best = recommended(fresh)
        reason = found.barred or found.reasons[0]
        return (fresh, best) if best is not None else (fresh.decided(None, reason), None)
    barred = refusal(found.evidence, leader)
    return (fresh.decided(None, barred), None) if barred else (fresh, leader)


def _away(partition: TopicPartition, present: PresentEvidence) -> str:
    online = present.online.get(partition)
    if online is None:
        return "there is no such partition any more"
    return f"b{online.state.leader} leads it by now"


def tally(checked: Iterable[Checked]) -> dict[CheckStatus, int]:
    """How many elections stand how, in the order of `CheckStatus`."""
    found = list(checked)
    counts = {status: sum(checked.status is status for checked in found) for status in CheckStatus}
    return {status: number for status, number in counts.items() if number}


FROM_FILE = "opened from a file"
FROM_EDITOR = "edited as a text"
TAKEN_BACK = "taken back to earlier evidence"


@dataclass(frozen=True, slots=True)
class Draft:
    """The state of an editing session: a value, of which each act makes another."""

    history: PlanHistory
    stale: str = ""
    """Why everything must be read again before its elections; empty if it need not."""
    checked: Mapping[TopicPartition, Checked] = field(default_factory=dict)
    """How each election stood when everything was read again."""
    checked_at_ms: int | None = None
    opened: OpenedFile | None = None
    """The file it was read from or written to; None: there is none yet."""
    saved: PlanEvidence | None = None
    """The plan in that file."""
    dismissed: tuple[Left, ...] = ()
    """Elections of a bare plan that were dropped when it got its evidence."""

    @classmethod
    def made(cls, plan: Plan) -> Draft:
        """A draft of *plan*, made of evidence just read."""
        return cls(PlanHistory.of(plan))

    @classmethod
    def read(cls, plan: Plan, opened: OpenedFile) -> Draft:
        """A draft of *plan* from a file, whose evidence is old."""
        return cls(PlanHistory.of(plan), FROM_FILE, opened=opened, saved=plan.breakglass)

    @property
    def plan(self) -> Plan:
        return self.history.present

    @property
    def unsaved(self) -> bool:
        """No file has the present plan."""
        return self.opened is None or self.plan.breakglass is not self.saved

    @property
    def barrier(self) -> str:
        """Why its elections cannot be begun; empty if they can."""
        if not self.plan.leaders:
            return "it elects no leader"
        if self.plan.breakglass is None:
            return "it has no evidence yet: read everything again"
        return f"it was {self.stale}: read everything again" if self.stale else ""

    def edited(self, plan: Plan, what: str, stale: str = "") -> Draft:
        """The draft with *plan*, by *what*; *stale* says why its evidence must be read again."""
        if plan is self.plan:
            return self
        return replace(self, history=self.history.edited(plan, what), stale=stale or self.stale)

    def amended(self, plan: Plan) -> Draft:
        """*plan* in place of the present one, not to be undone."""
        return replace(self, history=self.history.amended(plan))

    def undone(self) -> Draft:
        """The draft without the last edit."""
        return self._moved(self.history.undo())

    def redone(self) -> Draft:
        """The draft with the edit that was undone last."""
        return self._moved(self.history.redo())

    def saved_to(self, opened: OpenedFile) -> Draft:
        return replace(self, opened=opened, saved=self.plan.breakglass)

    def held_against(self, present: PresentEvidence) -> Draft:
        """The draft checked against *present*; a bare plan gets its evidence there."""
        waits = len([partition for partition in self.plan.leaders if partition in present.unheard])
        stale = f"read again but for {waits:,} of its partitions" if waits else ""
        if self.plan.breakglass is not None:
            return replace(
                self,
                stale=stale,
                checked=check_present(self.plan, present),
                checked_at_ms=present.read_at_ms,
            )
        if waits:
            return replace(self, stale=stale)
        judged = present.assessments.values()
        plan, dismissed = adopt(self.plan, judged, present.cluster_id, present.read_at_ms)
        adopted = replace(self, history=PlanHistory.of(plan), dismissed=dismissed)
        return adopted.held_against(present)

    def renewed(self, present: PresentEvidence) -> Draft:
        """The draft renewed with the evidence of *present*, as an edit."""
        what = "evidence of now taken"
        return self.edited(renew(self.plan, present), what).held_against(present)

    def _moved(self, history: PlanHistory) -> Draft:
        # The very same: edits hand it on, and only reading again brings other evidence.
        pairs = zip(self.plan.records.values(), history.present.records.values(), strict=True)
        if all(before.evidence is after.evidence for before, after in pairs):
            return replace(self, history=history)
        return replace(self, history=history, stale=TAKEN_BACK, checked={})


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file as it was when it was read or written last."""

    path: Path
    fingerprint: str
    """The digest of its text."""


def open_plan(path: Path) -> tuple[Plan, OpenedFile]:
    """The plan in *path*, and the file as it is.

    Raises: MalformedInput, UnsupportedSchema, StorageError.
    """
    text = read_text(path)
    return parse_plan(text, str(path)), OpenedFile(path, fingerprint([text]))


def save_plan(plan: Plan, path: Path, opened: OpenedFile | None) -> OpenedFile:
    """Write *plan* to a new file at *path*, or over *opened* if that is it and still the same.

    Raises:
        UsageError: another file is at *path*; it is kept.
        EvidenceChanged: the file was changed since it was read; it is kept.
        StorageError: it cannot be read or written.
    """
    if opened is None or not path.exists() or not path.samefile(opened.path):
        written = write_plan(plan, path)
    else:
        if fingerprint([read_text(path)]) != opened.fingerprint:
            raise EvidenceChanged(
                f"{path} was changed by somebody else in between, so nothing was written: save "
                "under another name and compare."
            )
        # Of a link, what it leads to is replaced and not the link.
        written = write_plan(plan, path.resolve(), replace=True)
    return OpenedFile(path, written)
