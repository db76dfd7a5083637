"""The two tables: journals, newest first, and how the open one ended for each partition."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TypeAlias

from breakglass.screens.widgets.facts import Fact
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.guard.journal import UnreadableJournal
from breakglass.services.guard.journal_view import UNKNOWN
from breakglass.services.incident.election_words import Sighting
from breakglass.services.recovery.execution.record import PARTLY_FAILED, SUCCEEDED, UNDONE
from breakglass.services.recovery.judgement.assessment import recovery_order
from breakglass.services.recovery.timeline.account import Account, Brief, ExecutionState, words_of
from breakglass.services.recovery.timeline.ending import NOTHING_SENT, PartitionEnding
from breakglass.services.recovery.timeline.moments import digest_text
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
    return sorted(
        account.endings,
        key=lambda ending: (
            ending.result in UNTROUBLED and not ending.order_kept,
            recovery_order(ending.partition),
        ),
    )


def ending_columns() -> tuple[LineColumn[PartitionEnding], ...]:
    """Partition, how it ended, leader, price, what was rescued, why."""
    return (
        LineColumn(
            "Topic-partition",
            lambda ending: Cell(str(ending.partition)),
            shrinks=True,
            most=60,
            tail="-",
        ),
        LineColumn("Result", lambda ending: Cell(ending.result, role_of(ending))),
        LineColumn("Leader", _leader),
        LineColumn("Loses", lambda ending: Cell(ending.agreed or "-"), right=True, most=40),
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


def _leader(ending: PartitionEnding) -> Cell:
    return Cell("-" if ending.leader is None else f"b{ending.leader}")


def _rescued(ending: PartitionEnding) -> Cell:
    return Cell(count(sum(saved.records for saved in ending.rescued)) if ending.rescued else "-")


def _why(ending: PartitionEnding) -> Cell:
    kept = "order not put back" if ending.order_kept else ""
    return Cell("; ".join(filter(None, (ending.reason, kept))))


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


def journal_facts(journal: Journal | None, asking: bool, armed: bool) -> tuple[Fact, ...]:
    """The sentences; *asking*: the cluster is being asked about it."""
    if journal is None:
        return ()
    if isinstance(journal, UnreadableJournal):
        return (Fact("Unreadable", (LinePart(journal.reason, Role.FAILED),)),)
    if isinstance(journal, Sighting):
        return tuple(_of_sighting(journal))
    return tuple(_facts(journal, asking, armed))


def _of_sighting(seen: Sighting) -> Iterator[Fact]:
    noted = seen.acknowledged_by
    yield Fact("Seen", (LinePart(f"{seen.sentence}.", None if noted else Role.BOMB),))
    told = f"by {noted}" if noted else "by nobody yet: ! acknowledges it"
    yield Fact("Acknowledged", (LinePart(told, None if noted else Role.UNKNOWN),))


def _facts(brief: Brief, asking: bool, armed: bool) -> Iterator[Fact]:
    people = ", then ".join(dict.fromkeys((brief.who, *brief.resumed_by)))
    yield Fact("Who", (LinePart(f"{people}, until {time_text(brief.last_at_ms)}"),))
    price = f"loses {brief.stake}" if brief.stake.said else ""
    digest = f"digest {digest_text(brief.digest)}" if brief.digest else ""
    cost = ", ".join(filter(None, (price, digest)))
    if cost:
        yield Fact("Agreed to", (LinePart(cost),))
    following = tuple(_next(brief, asking, armed))
    if following:
        yield Fact("Next", following)


def _next(brief: Brief, asking: bool, armed: bool) -> Iterator[LinePart]:
    if brief.state is ExecutionState.RUNNING:
        yield LinePart("the journal is being written now", Role.RUNNING)
        return
    if asking:
        yield LinePart("asking the cluster what became of it", Role.RUNNING)
    elif brief.checkable:
        what = f"{brief.unknown:,} partition{'s' * (brief.unknown != 1)} unknown"
        yield LinePart(what, Role.UNKNOWN)
        yield LinePart(": u asks the cluster again")
    if brief.resumable:
        how = "" if armed else " (with --write)"
        what = "r puts the settings back" if brief.owes else "r resumes it"
        yield LinePart(f"{'; ' if asking or brief.checkable else ''}{what}{how}")
