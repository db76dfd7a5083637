"""The widgets of a guarded screen, drawn from its state."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from screens.elect import wording
from screens.elect.phase import Phase
from screens.elect.rows import ElectionRow, columns
from screens.elect.state import State
from screens.widgets.consent import Consent
from screens.widgets.line_table import LineTable
from services.words.inert import bounded, inert
from themes.roles import Role, role_style

LONGEST_NOTE = 600


class GuardedView(Vertical):
    """What is carried out, its partitions, and the way to agree to it or to leave."""

    DEFAULT_CSS = """
    GuardedView { height: 1fr; }
    GuardedView > Static { height: auto; padding: 0 1; }
    GuardedView > #headline { max-height: 3; text-style: bold; }
    GuardedView > #remarks { max-height: 5; }
    GuardedView > #partitions { min-height: 3; }
    GuardedView > #reason { max-height: 5; }
    GuardedView > #note { max-height: 4; }
    GuardedView > #after { height: auto; max-height: 9; padding: 0 1; }
    GuardedView > #consent { dock: bottom; height: auto; max-height: 14; padding: 0 1; }
    GuardedView #summary, GuardedView #ask { height: auto; }
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state

    def compose(self) -> ComposeResult:
        yield Static(id="headline", markup=False)
        yield Static(id="remarks", markup=False)
        yield LineTable(
            columns(self.state.standing), key=_partition, empty="Reading.", id="partitions"
        )
        yield Static(id="reason", markup=False)
        yield Static(id="note", markup=False)
        yield VerticalScroll(Static(id="summary", markup=False), id="after")
        yield Vertical(Static(id="ask", markup=False), Consent("Back"), id="consent")

    @property
    def table(self) -> LineTable[ElectionRow]:
        """The partitions."""
        return self.query_one("#partitions", LineTable)

    @property
    def consent(self) -> Consent:
        return self.query_one(Consent)

    def show(self) -> None:
        """Draw the state as it is now."""
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
        self._show_consent()

    @on(LineTable.Moved)
    def _show_reason(self) -> None:
        self._put("reason", "\n".join(self.state.reason(self.table.current)))

    def _show_consent(self) -> None:
        state = self.state
        self.query_one("#consent").display = state.phase in (Phase.READING, Phase.REVIEW)
        asked = state.next_asked
        self.consent.ask(None if asked is None else asked.phrase)
        ask = self.query_one("#ask", Static)
        told = self._ask()
        ask.display = bool(told)
        ask.update(told)

    def _ask(self) -> Text:
        state = self.state
        asked = state.next_asked
        if asked is not None:
            told = Text(wording.asking(asked, len(state.given) + 1, len(state.asked)))
            return told.append(inert(asked.phrase), role_style(self.app, Role.HEADING))
        if not state.armed and state.phase is Phase.REVIEW:
            return Text(wording.read_only(state.doing), role_style(self.app, Role.READONLY))
        return Text()

    def _put(self, place: str, text: str, role: Role | None = None) -> None:
        """Show *text*, inert, line by line; nothing takes no room."""
        shown = self.query_one(f"#{place}", Static)
        shown.display = bool(text)
        lines = "\n".join(inert(line) for line in text.split("\n"))
        shown.update(Text(lines, role_style(self.app, role) if role else ""))


def _partition(row: ElectionRow) -> object:
    return row.partition
