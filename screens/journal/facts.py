"""What is said of the journal under the cursor: when, who, what it cost, what can be done next."""

from __future__ import annotations

from collections.abc import Iterator

from breakglass.screens.journal.rows import Journal
from breakglass.screens.widgets.facts import Fact
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.guard.journal import UnreadableJournal
from breakglass.services.incident.election_words import Sighting
from breakglass.services.recovery.timeline.account import Brief, ExecutionState
from breakglass.services.recovery.timeline.moments import digest_text
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role


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
        yield LinePart("it is being written right now", Role.RUNNING)
        return
    if asking:
        yield LinePart("asking the cluster what became of it", Role.RUNNING)
    elif brief.checkable:
        what = f"{brief.unknown:,} partition{'s' * (brief.unknown != 1)} unknown"
        yield LinePart(what, Role.UNKNOWN)
        yield LinePart(": u asks the cluster again")
    if brief.resumable:
        how = "" if armed else " (with --write)"
        yield LinePart(f"{'; ' if asking or brief.checkable else ''}r takes it up again{how}")
