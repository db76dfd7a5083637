"""A plan on the table: its edits, its file, and whether what it rests on was read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.check import Checked
from breakglass.services.recovery.plan.history import PlanHistory
from breakglass.services.recovery.plan.make import Dismissed, adopt
from breakglass.services.recovery.plan.present import PresentEvidence, check_present, renew

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan, PlanEvidence
    from breakglass.services.recovery.plan.opened import OpenedFile

FROM_FILE = "opened from a file"
FROM_EDITOR = "edited as a text"
TAKEN_BACK = "taken back to earlier evidence"


@dataclass(frozen=True, slots=True)
class Draft:
    """What a session of editing works on. A value: each act makes another one."""

    history: PlanHistory
    stale: str = ""
    """Why everything must be read again before its elections; empty if it need not."""
    checked: Mapping[TopicPartition, Checked] = field(default_factory=dict)
    """How each election stood when everything was read again."""
    checked_at_ms: int | None = None
    opened: OpenedFile | None = None
    """The file it was read from or written to; None: there is none yet."""
    saved: PlanEvidence | None = None
    """What that file has."""
    dismissed: tuple[Dismissed, ...] = ()
    """Elections of a bare plan that were dropped when it got its evidence."""

    @classmethod
    def made(cls, plan: Plan) -> Draft:
        """*plan*, made of evidence just read."""
        return cls(PlanHistory.of(plan))

    @classmethod
    def read(cls, plan: Plan, opened: OpenedFile) -> Draft:
        """*plan* out of a file: what it rests on is of another day."""
        return cls(PlanHistory.of(plan), FROM_FILE, opened=opened, saved=plan.breakglass)

    @property
    def plan(self) -> Plan:
        return self.history.present

    @property
    def unsaved(self) -> bool:
        """No file has it as it is now."""
        return self.opened is None or self.plan.breakglass is not self.saved

    @property
    def barrier(self) -> str:
        """Why its elections cannot be begun; empty if they can."""
        if not self.plan.leaders:
            return "it elects nobody"
        if self.plan.breakglass is None:
            return "it has no evidence yet: read everything again"
        return f"it was {self.stale}: read everything again" if self.stale else ""

    def edited(self, plan: Plan, what: str, stale: str = "") -> Draft:
        """The plan becomes *plan*, by *what*; *stale* says why it must be read again then."""
        if plan is self.plan:
            return self
        return replace(self, history=self.history.edited(plan, what), stale=stale or self.stale)

    def amended(self, plan: Plan) -> Draft:
        """*plan* in place of the present one, not to be undone."""
        return replace(self, history=self.history.amended(plan))

    def undone(self) -> Draft:
        """Without the last edit."""
        return self._moved(self.history.undo())

    def redone(self) -> Draft:
        """With the edit that was undone last."""
        return self._moved(self.history.redo())

    def saved_to(self, opened: OpenedFile) -> Draft:
        """Now in the file *opened*."""
        return replace(self, opened=opened, saved=self.plan.breakglass)

    def held_against(self, present: PresentEvidence) -> Draft:
        """Checked against *present*; a bare plan gets its evidence from there."""
        waits = len([one for one in self.plan.leaders if one in present.unheard])
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
        """Resting on the evidence of *present*, as an edit."""
        what = "evidence of now taken"
        return self.edited(renew(self.plan, present), what).held_against(present)

    def _moved(self, history: PlanHistory) -> Draft:
        if _same_evidence(self.plan, history.present):
            return replace(self, history=history)
        return replace(self, history=history, stale=TAKEN_BACK, checked={})


def _same_evidence(one: Plan, other: Plan) -> bool:
    """The very same: edits hand it on, and only reading again brings other evidence."""
    pairs = zip(one.records.values(), other.records.values(), strict=True)
    return all(before.evidence is after.evidence for before, after in pairs)
