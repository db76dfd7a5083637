"""The ledger of an incident as a page over the journal, until Esc."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType

from breakglass.screens.context import Context
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.dialog import Overlay
from breakglass.services.errors import BreakglassError
from breakglass.services.model import Unknown
from breakglass.services.recovery.ledger.page import LedgerPage, PageLines, PageTable
from breakglass.services.state_folder import state_folder
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

ANSWER_SECONDS = 10.0
"""For the leaders of now to say what they hold."""


class MadeLedger(NamedTuple):
    """The ledger of a journal, laid out, and the journal's name."""

    page: LedgerPage
    name: str


def make_ledger(context: Context, journal: Path) -> MadeLedger | Unknown:
    """In a thread: reads folders of rescues, and asks the leaders of now."""
    from breakglass.services.recovery.ledger.assemble import gathered, ledger_of, with_cluster
    from breakglass.services.recovery.ledger.page import ledger_page
    from breakglass.services.recovery.timeline.account import account_of

    def make() -> MadeLedger:
        account = account_of(journal)
        sources = gathered(account, context.state_folder)
        try:
            with context.reading() as client:
                sources = with_cluster(sources, client, ANSWER_SECONDS)
        except BreakglassError as error:
            sources = sources.noting(f"the cluster was not asked: {error}")
        return MadeLedger(ledger_page(ledger_of(sources)), account.brief.name)

    return found_or_why(make, "the ledger cannot be made")


def save_text(
    context: Context, text: str, name: str, folder: str, suffix: str = ".txt"
) -> Path | Unknown:
    """In a thread: write *text* into a *folder* of the state folder."""
    from breakglass.services.recovery.timeline.account import save_timeline

    place = (context.saving_folder or state_folder()) / folder
    return found_or_why(lambda: save_timeline(text, place, name, suffix), "it cannot be written")


def saved_words(saved: Path | Unknown) -> str:
    """What became of a text that was to be written."""
    if isinstance(saved, Unknown):
        return saved.reason
    return f"Written, readable by you alone: {saved}"


LENGTH = 2_000
"""Of a sentence; enough for a path."""
CELL = 300
FATE_ROLES = {
    "kept": Role.VERIFIED,
    "put back": Role.VERIFIED,
    "lost": Role.LOST,
    "unknown": Role.UNKNOWN,
}


class LedgerScreen(Overlay):
    """Every record of the incident accounted for."""

    CSS = """
    LedgerScreen > VerticalScroll { width: 100%; max-width: 120; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,l,q", "dismiss", "Close"),
        Binding("w", "save", "Write HTML", tooltip="Write it to a file, for the incident review"),
    ]

    def __init__(
        self, context: Context, made: MadeLedger, then: Callable[[Path | Unknown], object]
    ) -> None:
        """*then* hears where it was written, or why it was not."""
        super().__init__()
        self.context, self._made, self._then = context, made, then

    def action_save(self) -> None:
        in_thread(self.app, "timeline", self._save, self._then)

    def _save(self) -> Path | Unknown:
        from breakglass.services.recovery.ledger.page import page_html

        html = page_html(self._made.page)
        return save_text(self.context, html, self._made.name, "ledgers", ".html")

    def content(self) -> RenderableType:
        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        page = self._made.page
        yield Text(bounded(page.title, LENGTH), self._style(Role.HEADING))
        role = Role.VERIFIED if page.adds_up else Role.FAILED
        yield Text(bounded(page.verdict, LENGTH), self._style(role))
        yield Text("w writes it as HTML, Esc closes", self._style(Role.MUTED))
        # What a screen of 24 lines shows first are the sums, and whatever contradicts them.
        first = next(
            number for number, block in enumerate(page.blocks, 1) if isinstance(block, PageTable)
        )
        yield from self._blocks(page.blocks[:first])
        yield Text()
        yield self._facts()
        yield from self._blocks(page.blocks[first:])

    def _blocks(self, blocks: Sequence[PageTable | PageLines]) -> Iterator[RenderableType]:
        for block in blocks:
            yield Text()
            if block.title:
                yield Text(bounded(block.title, LENGTH), self._style(Role.HEADING))
            yield (
                self._table(block)
                if isinstance(block, PageTable)
                else Text("\n".join(bounded(line, LENGTH) for line in block.lines))
            )

    def _facts(self) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for label, told in self._made.page.facts:
            table.add_row(Text(label, self._style(Role.MUTED)), Text(bounded(told, LENGTH)))
        return table

    def _table(self, block: PageTable) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for number, title in enumerate(block.columns):
            table.add_column(
                Text(title, self._style(Role.MUTED)),
                justify="right" if number in block.right else "left",
                overflow="fold",
                no_wrap=number in block.right,
                min_width=len(title) if number == 0 else None,
            )
        for row in block.rows:
            nothing = row[0] in FATE_ROLES and row[1] == "0"
            table.add_row(*(self._cell(cell, Role.MUTED if nothing else None) for cell in row))
        return table

    def _cell(self, cell: str, role: Role | None) -> Text:
        role = role or FATE_ROLES.get(cell)
        return Text(bounded(cell, CELL), "" if role is None else self._style(role))

    def _style(self, role: Role) -> Style:
        return role_style(self.app, role)
