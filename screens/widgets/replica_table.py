"""What each replica of a partition holds, against the best one, and why that is the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from breakglass.screens.messages import CopyAsked
from breakglass.screens.page import Page
from breakglass.services.incident.row import against, parting_text, unread_reason
from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.loss import Loss
from breakglass.services.recovery.judgement.ranking import contents_read
from breakglass.services.words.figures import contents_text, count, epochs_text
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import moment_text
from breakglass.themes.roles import Role, Words, role_style

GONE = "declare it gone"
"""How reasons say it."""
LONGEST_REASON = 600
"""Characters of one reason; a broker's own words are in some."""
LEAST_AGAINST = 14
MOST_AGAINST = 40
"""Cells for which the time of the newest record gives way."""
LEAST_WIDTH = 20
COPIED_WIDTH = 200
GAP = "  "


Line = tuple[Words, ...]
MakeLines = Callable[[int], Iterable[Line]]
"""Folds lines for so many cells."""


class ReplicaTable(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines about one partition, made to fit; scrolls where they are more than there is room."""

    DEFAULT_CSS = """
    ReplicaTable { scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._make: MakeLines = lambda _: ()
        self._lines: Sequence[Line] = ()
        self._folded_to = 0
        """The width that the lines were made for."""

    @property
    def lines(self) -> Sequence[Line]:
        """What is shown, as it was folded for the width there is."""
        return self._lines

    def show(self, make: MakeLines, *, top: bool = True) -> None:
        """Show what *make* says instead, from the top; it is asked again when the width changes."""
        self._make = make
        if self.size.width:
            self._fold()
        if top:
            self.scroll_to(y=0, animate=False, immediate=True)

    def on_resize(self) -> None:
        if self.size.width != self._folded_to:
            self._fold()

    def _fold(self) -> None:
        self._folded_to = self.size.width
        self._lines = tuple(self._make(max(self._folded_to - 1, LEAST_WIDTH)))
        self.virtual_size = Size(0, len(self._lines))
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number, width = y + self.scroll_offset.y, self.size.width
        base = self.rich_style
        if number >= len(self._lines):
            return Strip.blank(width, base)
        segments = [
            Segment(inert(words.text), base + role_style(self.app, words.role))
            for words in self._lines[number]
        ]
        return Strip(segments).adjust_cell_length(width, base)


class TextPage(Page):
    """Lines alone, to be read at leisure and copied. Subclasses say `lines`."""

    COPIED: ClassVar[str]
    """What is copied, as the notice names it."""
    DEFAULT_CSS = """
    TextPage ReplicaTable { height: 1fr; }
    """

    def body(self) -> Iterator[Widget]:
        yield ReplicaTable()

    def on_mount(self) -> None:
        self.query_one(ReplicaTable).focus()

    def lines(self, width: int) -> Iterable[Line]:
        """What is shown, in *width* cells."""
        raise NotImplementedError

    def draw(self) -> None:
        self.query_one(ReplicaTable).show(self.lines, top=False)

    def action_copy(self) -> None:
        text = plain_text(self.lines(COPIED_WIDTH))
        self.app.post_message(CopyAsked(text, self.COPIED))


def partition_lines(assessment: Assessment, width: int, *, gone_by: str = "") -> list[Line]:
    """Everything that matters about one partition, for *width* cells.

    *gone_by* is the key by which brokers are declared gone here, if there is one.
    """
    reasons: Iterable[str] = assessment.reasons
    if gone_by:
        reasons = [reason.replace(GONE, f"{GONE} ({gone_by})") for reason in reasons]
    best = assessment.best
    loss = None if best is None else assessment.loss_of(best)
    replicas = [candidate.replica for candidate in assessment.ranking.candidates]
    # How far the contents of replicas were read, of those that were read at all.
    contents = [
        f"b{replica.broker} {contents_text(replica)}"
        for replica in replicas
        if contents_read(replica)
    ]
    return [
        *_title(assessment, loss, width),
        *replica_lines(assessment, loss, width),
        *reason_lines(reasons, width),
        *reason_lines([f"contents: {', '.join(contents)}"] if contents else [], width),
    ]


def plain_text(lines: Iterable[Line]) -> str:
    """*lines* as they are copied."""
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines)


def reason_lines(reasons: Iterable[str], width: int) -> Iterator[Line]:
    """Sentences, folded."""
    for reason in reasons:
        folded = wrap(bounded(reason, LONGEST_REASON), max(width - 3, 10))
        for number, part in enumerate(folded):
            yield (Words(f" {'-' if not number else ' '} {part}"),)


def _title(assessment: Assessment, loss: Loss | None, width: int) -> Iterator[Line]:
    """Name and parting, on a line of its own where there is no room."""
    state = assessment.evidence.state
    name = bounded(str(assessment.partition), max(width // 2, 10))
    about = (
        f"  leader epoch {state.leader_epoch}  assignment {','.join(map(str, state.assignment))}"
    )
    line = (Words(f" {name}", Role.HEADING), Words(about))
    parting = "" if loss is None else parting_text(loss)
    if len(name) + len(about) + len(parting) + 3 <= width:
        yield (*line, Words(f"  {parting}", Role.DIVERGED))
        return
    yield line
    if parting:
        yield (Words(f" {parting}", Role.DIVERGED),)


def replica_lines(assessment: Assessment, loss: Loss | None, width: int) -> list[Line]:
    """A header, and a line for each replica in the order of the ranking."""
    titles = list(TITLES)
    titles[-1] = "against" if loss is None else f"against b{loss.candidate}"
    rows = [
        _row(assessment, loss, candidate.replica) for candidate in assessment.ranking.candidates
    ]
    columns = _fitting(titles, rows, width)
    widths = [_width(column, titles, rows) for column in columns]
    header = _aligned([Words(titles[column], Role.HEADING) for column in columns], columns, widths)
    return [header, *(_line(row, columns, widths, width) for row in rows)]


TITLES = ("  Broker", "Role", "Start", "HW", "LEO", "Epochs", "Newest", "against")
RIGHT = frozenset((2, 3, 4))
AGAINST = len(TITLES) - 1
NEWEST = 6
GIVE_WAY = (NEWEST, 5, 2, 3)
"""Columns that are left out where there is no room for all, in that order."""


def _row(assessment: Assessment, loss: Loss | None, replica: ReplicaLog) -> list[Words]:
    chosen = replica.broker == assessment.designee
    unread = unread_reason(replica)
    verdict = unread if loss is None else against(assessment, loss, replica)
    lost = None if loss is None else loss.of(replica.broker)
    role = Role.LOST if lost is not None and lost.tail else None
    if unread:
        _, *standing = _standing(replica)
        role, verdict = Role.UNKNOWN, f"?: {', '.join([*standing, verdict])}"
    elif chosen:
        role = Role.DESIGNEE
    # `stale`, `last, fenced`; of a silent one the rest stands before the reason.
    return [
        Words(f"{'>' if chosen else ' '} {replica.broker}", Role.DESIGNEE if chosen else None),
        Words(replica.role.value if unread_reason(replica) else ", ".join(_standing(replica))),
        _figure(count(replica.log_start)),
        _figure(count(replica.high_watermark)),
        _figure(count(replica.log_end)),
        _figure(epochs_text(replica.epochs)),
        _figure(moment_text(replica.newest_ms, replica.observed_at_ms)),
        Words(verdict, role),
    ]


def _standing(replica: ReplicaLog) -> Iterator[str]:
    yield replica.role.value
    if replica.fenced is True:
        yield "fenced"
    elif isinstance(replica.fenced, Unknown):
        yield "fenced?"
    if replica.log_dir_online is False:
        yield "dir offline"


def _figure(text: str) -> Words:
    return Words(text, Role.UNKNOWN if text == "?" else None)


def _fitting(titles: Sequence[str], rows: Sequence[Sequence[Words]], width: int) -> list[int]:
    columns = list(range(len(titles)))
    wanted = min(_width(AGAINST, titles, rows), MOST_AGAINST)
    for column in GIVE_WAY:
        others = sum(_width(held, titles, rows) + len(GAP) for held in columns if held != AGAINST)
        if others + (wanted if column == NEWEST else LEAST_AGAINST) <= width:
            break
        columns.remove(column)
    return columns


def _width(column: int, titles: Sequence[str], rows: Sequence[Sequence[Words]]) -> int:
    """Of a column; what a silent replica does not tell has its reason in its place."""
    told = [row[column].text for row in rows if column < 2 or not _silent(row)]
    return max(map(cell_len, (titles[column], *told)))


def _silent(row: Sequence[Words]) -> bool:
    return row[AGAINST].text.startswith("?: ")


def _line(row: Sequence[Words], columns: Sequence[int], widths: Sequence[int], width: int) -> Line:
    """A silent replica's line is its broker, its role and the reason."""
    if not _silent(row):
        line = _aligned([row[column] for column in columns], columns, widths)
    else:
        kept = [column for column in columns if column < 2]
        line = (*_aligned([row[column] for column in kept], kept, widths), row[AGAINST])
    return _cut(line, width)


def _aligned(cells: Sequence[Words], columns: Sequence[int], widths: Sequence[int]) -> Line:
    pieces: list[Words] = []
    for cell, column, wide in zip(cells, columns, widths, strict=False):
        pad = " " * (wide - cell_len(cell.text))
        text = pad + cell.text if column in RIGHT else cell.text + pad
        pieces += [Words(text, cell.role), Words(GAP)]
    return tuple(pieces)


def _cut(line: Line, width: int) -> Line:
    """*line* in *width* cells; what is cut ends with a sign."""
    left, kept = width, []
    for words in line:
        if cell_len(words.text.rstrip()) > left:
            kept.append(Words(words.text[: max(left - 1, 0)] + "…", words.role))
            break
        kept.append(words)
        left -= cell_len(words.text)
    return tuple(kept)
