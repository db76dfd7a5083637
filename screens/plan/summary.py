"""What holds for the whole plan, above its rows; and what holds for one row, below them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.screens.plan.view import PlanView
    from breakglass.services.recovery.plan.rows import PlanRow

SAID_LENGTH = 300
NAME_LENGTH = 40
CHANGED_SINCE = "the cluster has changed since: ctrl+r checks it"


class PlanSummary(Widget):
    """Digest, totals, file, approvals, the last edit, and whether it must be read again."""

    DEFAULT_CSS = """
    PlanSummary { height: auto; max-height: 7; }
    """

    view: reactive[PlanView | None] = reactive(None, layout=True)
    said: reactive[str] = reactive("", layout=True)
    """What was done last."""
    failed: reactive[bool] = reactive(False)
    """That was refused."""
    outdated: reactive[bool] = reactive(False, layout=True)
    """The cluster was read again since the plan was made or checked."""
    showing: reactive[str] = reactive("", layout=True)
    """Which rows are shown and marked; empty: all and none."""

    def render(self) -> Text:
        text = Text(no_wrap=False)
        for number, (line, role) in enumerate(self._lines()):
            style = role_style(self.app, role) if role else None
            text.append("\n " if number else " ").append(inert(line), style)
        return text

    def _lines(self) -> Iterator[tuple[str, Role | None]]:
        if self.view is not None:
            view = self.view
            left = view.totals.left_out
            out = f"; leaves out {left:,}" if left else ""
            yield f"{view.spoken}  {view.totals}{out}", Role.HEADING
            yield "  ".join(_standing(view)), None
            yield from _freshness(self.view, outdated=self.outdated)
        if self.showing:
            yield self.showing, Role.MARKED
        if self.said:
            yield bounded(self.said, SAID_LENGTH), Role.FAILED if self.failed else None


def _standing(view: PlanView) -> Iterator[str]:
    draft = view.draft
    name = "in no file" if draft.opened is None else bounded(draft.opened.path.name, NAME_LENGTH)
    yield f"{name} (not saved)" if draft.unsaved and draft.opened else name
    if draft.plan.breakglass is not None:
        yield f"made {time_text(draft.plan.breakglass.made_at_ms)}"
    approved = f"approved {len(view.approved)} of {view.wanted}"
    yield f"{approved}: {bounded(', '.join(view.approved), 60)}" if view.approved else approved
    if view.void:
        yield f"void: {bounded(', '.join(view.void), 40)}"
    if view.notes:
        yield f"{len(view.notes)} note{'s' * (len(view.notes) != 1)}"
    if view.departing:
        yield f"{view.departing:,} ≠ best"


def _freshness(view: PlanView, *, outdated: bool) -> Iterator[tuple[str, Role | None]]:
    draft = view.draft
    if draft.plan.breakglass is None:
        yield "NO EVIDENCE: a file in Kafka's format; ctrl+r reads it", Role.STALE
    elif draft.stale:
        yield f"STALE: {draft.stale}; ctrl+r reads everything again", Role.STALE
    elif view.statuses:
        role = Role.VERIFIED if all(status.fine for status in view.statuses) else Role.STALE
        counts = ", ".join(f"{number:,} {status}" for status, number in view.statuses.items())
        yield f"checked {time_text(draft.checked_at_ms)}: {counts}", role
        if outdated:
            yield CHANGED_SINCE, Role.STALE
    elif outdated:
        yield CHANGED_SINCE, Role.STALE


class RowDetail(Widget):
    """The row under the cursor in full sentences."""

    DEFAULT_CSS = """
    RowDetail { height: 3; }
    """

    row: reactive[PlanRow | None] = reactive(None)

    def render(self) -> Text:
        row = self.row
        if row is None:
            return Text("")
        text = Text(" ", no_wrap=False)
        text.append(inert(bounded(f"{row.partition}", 80)), role_style(self.app, Role.HEADING))
        text.append(inert(bounded(f": {_sentence(row)}", SAID_LENGTH)))
        if row.checked is not None and row.checked.reason:
            role = Role.STALE if not row.checked.status.fine else Role.MUTED
            said = bounded(row.checked.reason, SAID_LENGTH)
            text.append(f"\n {row.checked.status}: {said}", role_style(self.app, role))
        return text


def _sentence(row: PlanRow) -> str:
    why = f": {row.why}" if row.why else ""
    if row.leader is None:
        return f"left out{why}" if row.why != "left out by hand" else row.why
    by = f" by {row.chosen_by}" if row.chosen_by else ""
    return f"elects b{row.leader}{by}{f'; {row.why}' if row.why else ''}"
