"""The sentences of the screens of records: what is looked at, and what the cursor is on."""

from __future__ import annotations

from breakglass.screens.browse.subject import BrowseSubject
from breakglass.screens.diff.rows import fields_told
from breakglass.screens.diff.sheet import Titles
from breakglass.screens.diff.summary import different_text
from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.entry import RecordEntry, UnreadableRange
from breakglass.services.divergence.hunks import HunkTotals
from breakglass.services.divergence.source import Extent
from breakglass.services.words.inert import CUT, inert
from breakglass.services.words.moments import time_text

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
        return f"no offsets, the next one is {extent.end:,}"
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
