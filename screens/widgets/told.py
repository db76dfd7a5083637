"""Words that change with each key: painted where they differ, laid out where they need more room.

Laying out paints all of the screen again; most texts take one line, like the text
before them.
"""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static


class StyledLines(Static):
    """Some lines of styled words."""

    DEFAULT_CSS = """
    StyledLines { height: auto; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._told = Text()
        self._lines = 0
        """That the last words took."""

    def tell(self, text: Text) -> None:
        lines = self._count(text)
        if lines != self._lines or text != self._told:
            self._told = text
            self.update(text, layout=lines != self._lines)
            self._lines = lines

    def _count(self, text: Text) -> int:
        width = max(self.size.width, 1)
        if text.no_wrap:
            return text.plain.count("\n") + 1
        if text.cell_len <= width and "\n" not in text.plain:
            return 1
        return len(text.wrap(self.app.console, width))
