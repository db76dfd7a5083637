"""What can be done to a draft, each with the sentence that says what it did.

They run in a thread, one after the other, and this module imports the plan: the screen reaches
it through `screens.plan.desk` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.screens.plan.desk import DraftChanged
from breakglass.services.errors import Refused, UsageError
from breakglass.services.recovery.plan import edit
from breakglass.services.recovery.plan.draft import (
    FROM_EDITOR,
    Draft,
    Edit,
    PresentEvidence,
    open_plan,
    present_of,
    save_plan,
    tally,
)
from breakglass.services.recovery.plan.edit import WANTED, approve, notes_of, voided, with_notes
from breakglass.services.recovery.plan.edit_form import Problem, read_back, render_form
from breakglass.services.recovery.plan.make import (
    as_recommended,
    make_plan,
    plan_rows,
    recommended,
    totals_of,
)
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import clock_text

if TYPE_CHECKING:
    from breakglass.services.incident.incident import Incident
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.plan.check import CheckStatus
    from breakglass.services.recovery.plan.document import Plan
    from breakglass.services.recovery.plan.make import PlanRow, PlanTotals


Done = tuple[Draft, str]
"""The draft afterwards, and what was done to it."""

NOTHING = "Nothing to change."


def make(incident: Incident, partitions: Sequence[TopicPartition]) -> Done:
    """A plan of *partitions*, or of all that are offline."""
    wanted = partitions or [row.partition for row in incident.rows]
    if not wanted:
        seen = clock_text(incident.read_at_ms)
        raise UsageError(f"No partition was offline at {seen}: there is nothing to plan.")
    plan = make_plan(
        incident.assessments(wanted), incident.snapshot.cluster_id, incident.read_at_ms
    )
    unread = len(wanted) - len(plan.records)
    missing = f"{partitions_text(unread)} not read yet: not in the plan" if unread else ""
    return Draft.made(plan), missing


def open_file(path: Path) -> Done:
    """The plan in *path*."""
    plan, opened = open_plan(path)
    by_hand = "; changed outside Breakglass since it was written" if plan.altered else ""
    return Draft.read(plan, opened), f"opened {path}: {totals_of(plan)}{by_hand}"


def elect(draft: Draft, partition: TopicPartition, broker: int) -> Done:
    """Designate *broker*."""
    before = draft.plan.leaders.get(partition)
    if before == broker:
        return draft, NOTHING
    plan = edit.set_leader(draft.plan, partition, broker)
    was = "left out" if before is None else f"b{before}"
    return _edited(draft, plan, f"{partition}: {was} -> b{broker}")


def out_or_in(draft: Draft, partitions: Collection[TopicPartition]) -> Done:
    """Leave *partitions* out; if all of them are out already, take them in."""
    if any(partition in draft.plan.leaders for partition in partitions):
        return leave_out(draft, partitions, "")
    return take_in(draft, partitions)


def leave_out(draft: Draft, partitions: Collection[TopicPartition], reason: str) -> Done:
    """Elect nobody for *partitions*."""
    elected = [partition for partition in partitions if partition in draft.plan.leaders]
    if not elected:
        return draft, NOTHING
    plan = edit.exclude_all(draft.plan, elected, reason or edit.BY_HAND)
    return _edited(draft, plan, f"{named(elected)}: left out")


def take_in(draft: Draft, partitions: Collection[TopicPartition]) -> Done:
    """Elect the recommended replica of those of *partitions* that are left out."""
    out = [partition for partition in partitions if partition not in draft.plan.leaders]
    records = draft.plan.records
    able = [
        partition
        for partition in out
        if partition in records and recommended(records[partition]) is not None
    ]
    if out and not able:
        raise Refused("Nobody is recommended to lead: choose a leader (l).")
    plan = as_recommended(draft.plan, frozenset(able))
    return _edited(draft, plan, f"{named(able)}: taken in")


RULES: Mapping[str, Callable[[Plan, Collection[int], edit.Partitions], Plan]] = {
    "least loss": lambda plan, _, only: edit.least_loss(plan, only),
    "prefer": edit.prefer,
    "never": lambda plan, brokers, only: edit.never(plan, *brokers, only=only),
    "without waiting": lambda plan, _, only: edit.without_waiting(plan, only),
    "as recommended": lambda plan, _, only: as_recommended(plan, only),
}
"""By the names that the list of rules has for them."""


def rule(
    draft: Draft, name: str, brokers: Collection[int], only: Collection[TopicPartition] | None
) -> Done:
    """Apply the rule *name*, for *brokers* where it is about some, to *only* or to all."""
    plan = RULES[name](draft.plan, brokers, only)
    changed = _differing(draft.plan, plan)
    about = f" {', '.join(f'b{broker}' for broker in sorted(brokers))}" if brokers else ""
    return _edited(draft, plan, f"{name}{about}: {named(changed)}")


def write_notes(draft: Draft, notes: Sequence[str]) -> Done:
    """Keep *notes* in place of those it had."""
    return _edited(draft, with_notes(draft.plan, notes), "notes changed")


def undo(draft: Draft) -> Done:
    """Undo the last edit."""
    last = draft.history.last
    if last is None:
        return draft, "Nothing to undo."
    return draft.undone(), str(Edit(f"undone: {last.what}", last.after, last.before))


def redo(draft: Draft) -> Done:
    """Redo what was undone."""
    again = draft.history.next
    if again is None:
        return draft, "Nothing to redo."
    return draft.redone(), f"again: {again}"


def agree(draft: Draft, name: str, heard: str, at_ms: int) -> Done:
    """Write down that *name* approves, who read *heard* out loud as the digest, or was here.

    Raises:
        Refused: *heard* is another digest.
        UsageError: there is nothing to approve, or no name.
    """
    plan = draft.plan
    if plan.breakglass is None:
        raise UsageError("The plan has no evidence to approve yet: read everything again (ctrl+r).")
    read_out = "-".join(heard.lower().replace("-", " ").split())
    if read_out and read_out not in (plan.spoken_digest, plan.digest):
        raise Refused(
            f"They read out {bounded(read_out, 40)} but this plan is {plan.spoken_digest}: the "
            f"plans differ, so nothing was approved. Compare them."
        )
    after = approve(plan, name, at_ms)
    if after is plan:
        return draft, f"{name} approved it already: one person counts once."
    count = len(after.approvals)
    return draft.amended(after), f"{name} approves {plan.spoken_digest}: {count} of {WANTED}"


def save(draft: Draft, path: Path) -> Done:
    """Write it to *path*."""
    opened = save_plan(draft.plan, path, draft.opened)
    return draft.saved_to(opened), f"saved to {path}"


def hold(draft: Draft, incident: Incident) -> Done:
    """Check each election against what was read now."""
    after = draft.held_against(_present(draft, incident))
    dropped = "".join(
        [
            f"; dropped {dismissal.partition}: {dismissal.reason}"
            for dismissal in after.dismissed[:3]
        ]
    )
    return after, f"read again and checked{dropped}{_unmoved(draft.checked_at_ms, incident)}"


def renew(draft: Draft, incident: Incident) -> Done:
    """Rest it on what was read now."""
    if draft.plan.breakglass is None:
        return hold(draft, incident)
    after = draft.renewed(_present(draft, incident))
    unmoved = _unmoved(draft.plan.breakglass.made_at_ms, incident)
    return after, f"{after.history.last}{unmoved}"


def write_out(draft: Draft) -> str:
    """The draft as a text to be edited by hand."""
    if draft.plan.breakglass is None:
        raise UsageError(
            "The plan has no evidence yet: read everything again (ctrl+r), then edit it."
        )
    return render_form(draft.plan)


def take_back(draft: Draft, text: str) -> DraftChanged | tuple[Problem, ...]:
    """The draft as edited in *text*, or what is wrong with that."""
    plan = read_back(text, draft.plan)
    if isinstance(plan, tuple):
        return plan
    changed = _differing(draft.plan, plan)
    what = f"edited as a text: {named(changed)}" if changed else "edited as a text"
    return viewed(_edited(draft, plan, what, FROM_EDITOR))


def _differing(before: Plan, after: Plan) -> list[TopicPartition]:
    """The partitions of *before* for which *after* elects another, or nobody."""
    return [
        partition
        for partition in before.records
        if before.leaders.get(partition) != after.leaders.get(partition)
    ]


def _edited(draft: Draft, plan: Plan, what: str, stale: str = "") -> Done:
    after = draft.edited(plan, what, stale)
    return (draft, NOTHING) if after is draft else (after, str(after.history.last))


def _unmoved(before_ms: int | None, incident: Incident) -> str:
    """Why the time that is shown did not move, where it did not."""
    if before_ms is None or incident.read_at_ms > before_ms:
        return ""
    return "; the clock of this machine stands still"


def _present(draft: Draft, incident: Incident) -> PresentEvidence:
    plan = draft.plan
    wanted = list(dict.fromkeys((*plan.leaders, *plan.records)))
    judged = incident.assessments(wanted)
    return present_of(plan, incident.snapshot, judged, incident.read_at_ms)


def named(partitions: Sequence[TopicPartition]) -> str:
    """``orders-3``, ``14 partitions``."""
    return str(partitions[0]) if len(partitions) == 1 else partitions_text(len(partitions))


@dataclass(frozen=True, slots=True)
class PlanView:
    """One state of the draft."""

    draft: Draft
    rows: tuple[PlanRow, ...]
    totals: PlanTotals
    spoken: str
    """The digest, to be read out loud."""
    approved: tuple[str, ...]
    wanted: int
    """How many persons are to approve."""
    void: tuple[str, ...]
    """Who had agreed to an earlier digest."""
    notes: tuple[str, ...]
    statuses: Mapping[CheckStatus, int]
    """How many elections stood how when everything was read again; empty before that."""
    departing: int
    """Partitions that are treated otherwise than recommended."""


def viewed(done: Done) -> DraftChanged:
    """What was *done*, to be shown."""
    draft, said = done
    return DraftChanged(view_of(draft), said)


def view_of(draft: Draft) -> PlanView:
    """Work out what is shown of *draft*: some tens of milliseconds for 2,000 partitions."""
    plan = draft.plan
    rows = plan_rows(plan, draft.checked)
    return PlanView(
        draft,
        rows,
        totals_of(plan),
        plan.spoken_digest,
        tuple([approval.by for approval in plan.approvals]),
        WANTED,
        voided(plan),
        notes_of(plan),
        tally([row.checked for row in rows if row.checked is not None]),
        sum(row.departs for row in rows),
    )
