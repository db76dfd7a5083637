"""The sentences of the screens of records: what is looked at, and what the cursor is on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from breakglass.screens.browse.subject import BrowseSubject
from breakglass.screens.diff.rows import fields_told
from breakglass.screens.diff.sheet import Titles, different_text
from breakglass.services.browse.query import RecordQuery
from breakglass.services.divergence.align import HunkTotals, PairKind, RecordPair
from breakglass.services.divergence.entry import RecordEntry, UnreadableRange
from breakglass.services.divergence.source import Extent
from breakglass.services.words.inert import CUT, bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.services.words.record_text import TextForm
from breakglass.themes.roles import Role

HEAD_LENGTH = 24
"""Of an address that does not fit: its kind, and a little of its place."""


def titles_of(subject: BrowseSubject) -> Titles:
    """What stands over the columns."""
    if subject.single:
        return Titles("epoch, time, key, value")
    one, other = subject.briefs
    return Titles(f"< {one}", f"> {other}", one, other)


def extent_text(extent: Extent | None) -> str:
    """``offsets 0 to 1,199``."""
    if extent is None:
        return "opening"
    if extent.start >= extent.end:
        return f"empty, the next offset is {extent.end:,}"
    return f"offsets {extent.start:,} to {extent.end - 1:,}"


def totals_text(subject: BrowseSubject, totals: HunkTotals | None) -> str:
    """What differs, by signs; how to count where nothing was."""
    if totals is None:
        return "Not counted yet: c counts."
    one, other = subject.briefs
    kinds = totals.kinds
    unread = f", ? {kinds[PairKind.UNREAD]:,} not read" if kinds[PairKind.UNREAD] else ""
    if not (kinds[PairKind.DIFFERENT] or kinds[PairKind.LEFT] or kinds[PairKind.RIGHT]):
        return f"No differences{unread}."
    return (
        f"{different_text(kinds[PairKind.DIFFERENT])}, < {kinds[PairKind.LEFT]:,} only in {one}, "
        f"> {kinds[PairKind.RIGHT]:,} only in {other}{unread}."
    )


def about(pair: RecordPair, subject: BrowseSubject, *, letters: bool = True) -> str:
    """What *pair* is, in words: ``offset 100: different in value (v)``."""
    one, other = subject.briefs
    for item, name in ((pair.left, one), (pair.right, other)):
        if isinstance(item, UnreadableRange):
            where = "" if subject.single else f" in {name}"
            return f"{_range(item)} cannot be read{where}: {item.reason}"
    if subject.single:
        return _alone(pair)
    if pair.kind is PairKind.DIFFERENT:
        return f"offset {pair.offset:,}: different in {fields_told(pair, letters=letters)}"
    only = one if pair.kind is PairKind.LEFT else other
    where = "the same in both" if pair.kind is PairKind.EQUAL else f"only in {only}"
    return f"offset {pair.offset:,}: {where}"


def _range(item: UnreadableRange) -> str:
    if item.end - item.start <= 1:
        return f"offset {item.start:,}"
    return f"offsets {item.start:,} to {item.end - 1:,}"


def _alone(pair: RecordPair) -> str:
    entry = pair.left
    if not isinstance(entry, RecordEntry):
        return ""
    headers = entry.headers.count
    size = "null" if entry.value is None else f"{entry.value.size:,} bytes"
    return (
        f"offset {entry.offset:,}, {time_text(entry.timestamp)}, value {size}, {headers:,} header"
        f"{'s' * (headers != 1)}"
    )


def names_of(subject: BrowseSubject, width: int) -> tuple[str, ...]:
    """The addresses in *width* columns, with the sign and the letter that stand for them."""
    left, right = subject.titles
    if subject.single:
        return (cropped(left, width),)
    one, other = subject.briefs
    return cropped(_named("<", one, left), width), cropped(_named(">", other, right), width)


def _named(sign: str, brief: str, address: str) -> str:
    """``< A backup:...``; what the address itself begins with is not said twice."""
    letter = f"{brief} " if len(brief) == 1 else ""
    return f"{sign} {letter}{address}"


def cropped(text: str, width: int) -> str:
    """The inert *text* in *width* characters: how it begins and, above all, how it ends."""
    shown = inert(text)
    if len(shown) <= width:
        return shown
    head = min(width // 3, HEAD_LENGTH)
    return shown[:head] + CUT + shown[len(shown) - max(width - head - len(CUT), 1) :]


QUERY_LENGTH = 60
NOTE_LENGTH = 400

Styles = Callable[[Role], Style]


@dataclass
class SubjectSummary:
    """What is known of a subject so far."""

    extent: Extent | None = None
    refused: bool = False
    """It could not be opened."""
    notes: tuple[str, ...] = ()
    totals: HunkTotals | None = None
    query: RecordQuery | None = None


def summary(
    subject: BrowseSubject,
    found: SubjectSummary,
    form: TextForm,
    marked: int,
    width: int,
    styles: Styles,
) -> Text:
    """The lines, *width* columns wide."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for name in names_of(subject, width - 2):
        text.append(f" {name}\n", styles(Role.HEADING))
    text.append(" not opened" if found.refused else f" {extent_text(found.extent)}, as {form}")
    if marked:
        text.append("  ").append(f"{marked:,} marked", styles(Role.MARKED))
    if found.query is not None:
        searched = bounded(found.query.text, QUERY_LENGTH)
        text.append("  ").append(f"search: {searched}", styles(Role.DIFFERENT))
    if not subject.single:
        told = totals_text(subject, found.totals)
        line = text.plain.rsplit("\n", 1)[-1]
        text.append(f"  {told}" if cell_len(line) + len(told) + 2 <= width else f"\n {told}")
    if found.notes:
        more = f" and {len(found.notes) - 1} more" if len(found.notes) > 1 else ""
        note = bounded(found.notes[0], NOTE_LENGTH)
        text.append(f"\n {note}{more}", styles(Role.UNKNOWN))
    return text
