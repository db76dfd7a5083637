"""The ledger of an incident as a page over the journal, until Esc."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType

from breakglass.screens.widgets.overlay import Overlay
from breakglass.services.recovery.ledger.page import LedgerPage, PageLines, PageTable
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

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

    def __init__(self, page: LedgerPage, save: Callable[[], object]) -> None:
        super().__init__()
        self._page, self._save = page, save

    def action_save(self) -> None:
        self._save()

    def content(self) -> RenderableType:
        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        page = self._page
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
        for label, told in self._page.facts:
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
