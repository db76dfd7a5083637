"""The map of a whole comparison on one line, with the cursor's place in it."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from breakglass.services.divergence.align import PairKind
from breakglass.services.divergence.minimap import Cell, Minimap
from breakglass.themes.roles import Role, role_style

NOT_KNOWN = "·"
SIGNS: dict[Cell, str] = {None: NOT_KNOWN, PairKind.EQUAL: "─"}
"""How cells are drawn; the others by the sign of their kind."""


class MapLine(Widget):
    """From the first offset of both at the left to the last at the right."""

    DEFAULT_CSS = """
    MapLine { height: 1; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._map: Minimap | None = None
        self._offset = 0

    def show(self, cells: Minimap | None, offset: int) -> None:
        """Draw *cells*, and where *offset* is among them."""
        if cells is not self._map or offset != self._offset:
            self._map, self._offset = cells, offset
            self.refresh()

    def render(self) -> Text:
        width = max(self.size.width - 2, 1)
        text = Text(" ", no_wrap=True, end="")
        if self._map is None:
            return text
        here = min(int(self._map.share(self._offset) * width), width - 1)
        for place, cell in enumerate(self._map.drawn(width)):
            style = role_style(self.app, _role(cell))
            if place == here:
                style += role_style(self.app, Role.CURSOR)
            text.append(SIGNS.get(cell) or str(cell), style)
        return text


def _role(cell: Cell) -> Role:
    if cell is None or cell is PairKind.EQUAL:
        return Role.MUTED
    return Role.UNKNOWN if cell is PairKind.UNREAD else Role.DIVERGED
