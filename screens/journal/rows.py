"""The two tables: journals, newest first, and how the open one ended for each partition."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TypeAlias

from breakglass.screens.widgets.line_table import Cell, LineColumn
from breakglass.services.guard.journal import UnreadableJournal
from breakglass.services.guard.journal_view import UNKNOWN
from breakglass.services.incident.election_words import Sighting
from breakglass.services.recovery.execution.record import PARTLY_FAILED, SUCCEEDED, UNDONE
from breakglass.services.recovery.judgement.precedence import recovery_order
from breakglass.services.recovery.timeline.account import Account, Brief, ExecutionState, words_of
from breakglass.services.recovery.timeline.ending import NOTHING_SENT, PartitionEnding
from breakglass.services.recovery.timeline.text import UNTROUBLED
from breakglass.services.words.figures import count
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role

Journal: TypeAlias = Brief | UnreadableJournal | Sighting
"""What is listed: what was done from here, and what was seen from here."""


def key_of(journal: Journal) -> Hashable:
    """By which the cursor finds its line again."""
    if isinstance(journal, Sighting):
        return journal.seen_at_ms, journal.who, journal.sentence
    return path_of(journal)


def path_of(journal: Journal | None) -> Path | None:
    """Where the journal is; None for what was only seen."""
    return None if journal is None or isinstance(journal, Sighting) else journal.path


def journal_columns() -> tuple[LineColumn[Journal], ...]:
    """When, how it ended, what, outcomes, who."""
    return (
        LineColumn("Begun (UTC)", _begun),
        LineColumn("Result", _result, most=14),
        LineColumn("What", _what, shrinks=True, most=60),
        LineColumn("Outcomes", _outcomes, most=60),
        LineColumn("Loses", _loses, right=True, least_width=90),
        LineColumn("Who", _who, least_width=100, most=30),
    )


def ordered_endings(account: Account) -> list[PartitionEnding]:
    """What needs a look first, then in the order of recovery."""
    return sorted(account.endings, key=lambda one: (_well(one), recovery_order(one.partition)))


def ending_columns() -> tuple[LineColumn[PartitionEnding], ...]:
    """Partition, how it ended, leader, price, what was rescued, why."""
    return (
        LineColumn("Topic-partition", lambda one: Cell(str(one.partition)), shrinks=True, most=60),
        LineColumn("Result", lambda one: Cell(one.result, role_of(one))),
        LineColumn("Leader", _leader),
        LineColumn("Loses", lambda one: Cell(one.agreed or "-"), right=True, most=40),
        LineColumn("Rescued", _rescued, right=True, least_width=70),
        LineColumn("Why", _why, shrinks=True, most=100),
    )


def role_of(ending: PartitionEnding) -> Role | None:
    """How *ending* is drawn; the word says the same."""
    if ending.result == UNKNOWN:
        return Role.UNKNOWN
    if ending.result in UNTROUBLED:
        return Role.VERIFIED
    return None if ending.result == NOTHING_SENT else Role.FAILED


def _well(one: PartitionEnding) -> bool:
    return one.result in UNTROUBLED and not one.order_kept


def _leader(one: PartitionEnding) -> Cell:
    return Cell("-" if one.leader is None else f"b{one.leader}")


def _rescued(one: PartitionEnding) -> Cell:
    return Cell(count(sum(saved.records for saved in one.rescued)) if one.rescued else "-")


def _why(one: PartitionEnding) -> Cell:
    kept = "order not put back" if one.order_kept else ""
    return Cell("; ".join(filter(None, (one.reason, kept))))


def _begun(journal: Journal) -> Cell:
    if isinstance(journal, UnreadableJournal):
        return Cell(journal.path.stem)
    if isinstance(journal, Sighting):
        return Cell(time_text(journal.seen_at_ms).removesuffix("Z"))
    return Cell(time_text(journal.opened_at_ms).removesuffix("Z"))


def _result(journal: Journal) -> Cell:
    if isinstance(journal, UnreadableJournal):
        return Cell("unreadable", Role.UNKNOWN)
    if isinstance(journal, Sighting):
        return Cell("acknowledged") if journal.acknowledged_by else Cell("SEEN", Role.BOMB)
    return Cell(journal.result, result_role(journal))


def result_role(brief: Brief) -> Role:
    """How the result of *brief* is drawn."""
    if brief.state is ExecutionState.RUNNING:
        return Role.RUNNING
    if brief.unknown or brief.state is ExecutionState.INTERRUPTED:
        return Role.UNKNOWN
    ended = {SUCCEEDED: Role.VERIFIED, UNDONE: Role.VERIFIED, PARTLY_FAILED: Role.FAILED}
    return ended.get(brief.ended or "", Role.UNKNOWN)


def _what(journal: Journal) -> Cell:
    if isinstance(journal, Sighting):
        return Cell(journal.sentence)
    return Cell(journal.reason if isinstance(journal, UnreadableJournal) else journal.what)


def _outcomes(journal: Journal) -> Cell:
    if not isinstance(journal, Brief):
        return Cell("")
    return Cell(words_of(journal.counts), Role.UNKNOWN if journal.unknown else None)


def _loses(journal: Journal) -> Cell:
    return Cell(str(journal.stake) if isinstance(journal, Brief) else "")


def _who(journal: Journal) -> Cell:
    return Cell(journal.who if isinstance(journal, Brief | Sighting) else "")
