"""The widgets of a guarded screen, drawn from its state.

No consent is asked for what the terminal has no room to show.
The operator must see what is elected while typing its phrase: the headline, a line of the table,
the phrase and its field. All other texts share the lines that are left.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from breakglass.screens.elect import wording
from breakglass.screens.elect.state import ElectionRow, ElectionState, Phase, columns
from breakglass.screens.widgets.consent import ConsentPanel
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.words.inert import bounded, inert
from breakglass.themes.roles import Role, role_style

TABLE_LINES = 3
"""The header and two partitions."""
CANCEL_LINES = 1
LEAST_WIDTH = 40
"""Characters in which the table has who is elected."""
TOO_SMALL = "The terminal is too small to show what is elected: enlarge it to 80x24."


LONGEST_NOTE = 600
HEADLINE_LINES = 3
MOST_LINES = {"note": 4, "remarks": 5, "reason": 5}
"""Of each text around the table, in the order in which they get what room there is."""
SHORT_LINES = {"note": 2, "remarks": 3, "reason": 2}
"""The same on a screen of fewer lines than `TALL`."""
TALL = 24
PADDING = 2
"""Columns beside every text."""


class GuardedView(Vertical):
    """What is carried out, its partitions, and the way to agree to it or to leave."""

    DEFAULT_CSS = """
    GuardedView { height: 1fr; }
    GuardedView > Static { height: auto; padding: 0 1; }
    GuardedView > #headline { max-height: 3; text-style: bold; }
    GuardedView > #partitions { min-height: 3; }
    GuardedView > #after { height: auto; max-height: 9; padding: 0 1; }
    GuardedView > #consent { dock: bottom; height: auto; max-height: 14; padding: 0 1; }
    GuardedView #summary, GuardedView #ask { height: auto; }
    """

    def __init__(self, state: ElectionState) -> None:
        super().__init__()
        self.state = state
        self._texts: dict[str, str] = {}
        """What is shown, by place."""
        self.too_small = False
        """What is elected cannot be seen beside the phrase: nothing is asked for."""

    def compose(self) -> ComposeResult:
        yield Static(id="headline", markup=False)
        yield Static(id="remarks", markup=False)
        yield LineTable(
            columns(self.state.standing),
            key=lambda row: row.partition,
            empty="Reading.",
            id="partitions",
        )
        yield Static(id="reason", markup=False)
        yield Static(id="note", markup=False)
        yield VerticalScroll(Static(id="summary", markup=False), id="after")
        yield Vertical(Static(id="ask", markup=False), ConsentPanel("Back"), id="consent")

    @property
    def table(self) -> LineTable[ElectionRow]:
        return self.query_one("#partitions", LineTable)

    @property
    def consent(self) -> ConsentPanel:
        return self.query_one(ConsentPanel)

    def show(self) -> None:
        state = self.state
        self._put("headline", state.headline)
        self._put("remarks", "\n".join(state.remarks))
        if state.subject is not None:
            self.table.set_empty("Nothing is left.")
            self.table.set_rows(state.rows)
        self._show_reason()
        self._put("note", bounded(state.note, LONGEST_NOTE), state.note_role)
        self.query_one("#after").display = state.phase is Phase.DONE
        self._put("summary", "\n".join(state.summary))
        self._make_room()
        self._show_consent()

    def point_at(self, asked: ConsentPhrase | None) -> None:
        """Put the cursor on the partition that a phrase is asked for alone."""
        if asked is not None and asked.partition is not None:
            self.table.move_to(asked.partition)

    def on_resize(self) -> None:
        self.show()

    @on(LineTable.Moved)
    def _show_reason(self) -> None:
        self._put("reason", "\n".join(self.state.reason(self.table.current)))
        self._make_room()

    def _make_room(self) -> None:
        """Share the lines of the screen; refuse to ask where what is elected has none."""
        most = MOST_LINES if self.app.size.height >= TALL else SHORT_LINES
        wanted = [min(self._lines(self._texts.get(place, "")), most[place]) for place in most]
        asked = self.state.next_asked
        self.too_small = False
        if asked is not None:
            left = self.size.height - sum(self._needed(asked)) - TABLE_LINES - CANCEL_LINES
            self.too_small = left < 0 or self.size.width < LEAST_WIDTH
            for number, lines in enumerate(wanted):
                wanted[number] = max(min(lines, left), 0)
                left -= wanted[number]
        for place, lines in zip(most, wanted, strict=True):
            shown = self.query_one(f"#{place}")
            shown.display = lines > 0
            shown.styles.max_height = max(lines, 1)

    def _needed(self, asked: ConsentPhrase) -> Iterator[int]:
        """Lines of what has to be seen while the phrase is typed."""
        yield min(self._lines(self.state.headline), HEADLINE_LINES)
        yield self._lines(self._asking(asked).plain)
        yield self._lines(f"> {inert(asked.phrase)} ")

    def _lines(self, text: str) -> int:
        width = max(self.size.width - PADDING, 1)
        return len(Text(text).wrap(self.app.console, width)) if text else 0

    def _show_consent(self) -> None:
        state = self.state
        self.query_one("#consent").display = state.phase in (Phase.READING, Phase.REVIEW)
        asked = None if self.too_small else state.next_asked
        if self.too_small and self.consent.field.has_focus:
            self.consent.restart()
        self.consent.ask(None if asked is None else asked.phrase)
        ask = self.query_one("#ask", Static)
        told = self._ask()
        ask.display = bool(told)
        ask.update(told)

    def _ask(self) -> Text:
        state = self.state
        if self.too_small:
            return Text(TOO_SMALL, role_style(self.app, Role.FAILED))
        if state.next_asked is not None:
            return self._asking(state.next_asked)
        if not state.armed and state.phase is Phase.REVIEW:
            return Text(wording.read_only(state.doing), role_style(self.app, Role.READONLY))
        return Text()

    def _asking(self, asked: ConsentPhrase) -> Text:
        told = Text(wording.asking(asked, len(self.state.given) + 1, len(self.state.asked)))
        return told.append(inert(asked.phrase), role_style(self.app, Role.HEADING))

    def _put(self, place: str, text: str, role: Role | None = None) -> None:
        """Show *text*, inert, line by line; nothing takes no room."""
        shown = self.query_one(f"#{place}", Static)
        shown.display = bool(text)
        lines = self._texts[place] = "\n".join(inert(line) for line in text.split("\n"))
        shown.update(Text(lines, role_style(self.app, role)))
