"""The line above the list: how it is looked at, what is marked, how far the reading has come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from breakglass.screens.widgets.replica_table import TablePiece
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.incident.listing import RowOrder
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

LONGEST_FILTER = 60
OLD_SECONDS = 60
"""Replicas are read again every half a minute, or less often where there are very many."""


@dataclass(frozen=True, slots=True)
class ListingFacts:
    """What the line says."""

    total: int = 0
    judged: int = 0
    kept: int = 0
    groups: int = 0
    filter: str = ""
    fault: str = ""
    """Why the filter that is being written cannot be read."""
    order: RowOrder = RowOrder.URGENCY
    marked: int = 0
    awaited: tuple[int, ...] = ()
    """Brokers that are still waited for."""
    silent: tuple[int, ...] = ()
    """Brokers that do not answer."""
    gone: tuple[int, ...] = ()
    """Brokers whose disks the operator has declared lost."""
    last_seen: str = ""
    """When the cluster was read, where what is listed may not be so by now."""
    figures_age: int = 0
    """Of the oldest figures of a replica, in seconds; 0: nothing out of the ordinary."""
    missing_acls: tuple[str, ...] = ()
    """For want of them less is known."""


class ListingLine(Widget):
    """One line, as much of it as fits."""

    DEFAULT_CSS = """
    ListingLine { height: 1; }
    """
    facts: reactive[ListingFacts] = reactive(ListingFacts())

    def render(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        for piece in _pieces(self.facts):
            text.append("  " if text else " ")
            style = role_style(self.app, piece.role) if piece.role else None
            text.append(bounded(piece.text, 200), style)
        return text


def _pieces(facts: ListingFacts) -> Iterator[TablePiece]:
    if facts.fault:
        yield TablePiece(facts.fault, Role.FAILED)
    if facts.last_seen:
        yield TablePiece(f"as last seen {facts.last_seen}", Role.STALE)
    if facts.marked:
        yield TablePiece(f"{facts.marked:,} marked", Role.MARKED)
    if facts.filter:
        shown = bounded(facts.filter, LONGEST_FILTER)
        yield TablePiece(f"filter: {shown} ({facts.kept:,} of {facts.total:,})", Role.DIFFERENT)
    if facts.judged < facts.total:
        yield TablePiece(f"reading: {facts.judged:,} of {facts.total:,}", Role.RUNNING)
    if facts.awaited:
        yield TablePiece(f"waiting for {_named(facts.awaited)}", Role.RUNNING)
    if facts.silent:
        yield TablePiece(f"no answer from {_named(facts.silent)}", Role.UNKNOWN)
    if facts.gone:
        yield TablePiece(f"declared gone: {_named(facts.gone)}", Role.DIFFERENT)
    if facts.figures_age:
        yield TablePiece(f"figures up to {age_text(facts.figures_age)} old (ctrl+r)", Role.STALE)
    if facts.missing_acls:
        first, *more = facts.missing_acls
        others = f" and {len(more):,} more" if more else ""
        yield TablePiece(f"missing ACL: {first}{others}", Role.UNKNOWN)
    if facts.order is not RowOrder.URGENCY:
        yield TablePiece(f"by {facts.order.value}", Role.MUTED)
    if facts.groups and not facts.filter:
        groups = "one group" if facts.groups == 1 else f"{facts.groups:,} groups"
        yield TablePiece(f"{facts.kept:,} in {groups}", Role.MUTED)


def _named(brokers: tuple[int, ...]) -> str:
    return ", ".join(f"b{broker}" for broker in brokers)
