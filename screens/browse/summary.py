"""The lines above the records: what is looked at, how much of it, what was found of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from breakglass.screens.browse.subject import BrowseSubject
from breakglass.screens.browse.wording import extent_text, names_of, totals_text
from breakglass.services.browse.query import RecordQuery
from breakglass.services.divergence.hunks import HunkTotals
from breakglass.services.divergence.source import Extent
from breakglass.services.words.inert import bounded
from breakglass.services.words.record_text import TextForm
from breakglass.themes.roles import Role

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
