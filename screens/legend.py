"""What the words of the lists mean, a line each: on top of the help, and found by `:`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType

from breakglass.screens.widgets.overlay import Overlay
from breakglass.services.words.legend import LEGEND
from breakglass.themes.roles import Role, role_style


class LegendScreen(Overlay):
    """The words over the screen; the one that was asked for is marked."""

    DEFAULT_CSS = """
    LegendScreen > VerticalScroll { width: 80; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss", "Close")]

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word

    def content(self) -> RenderableType:
        return legend_table(self.app, self._word)


def legend_table(app: App[Any], asked: str = "") -> Table:
    """A line for each word; *asked* is the one that the operator looks for."""
    table = Table(box=None, pad_edge=False, show_header=False, expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for word, meaning in LEGEND:
        here = word == asked
        style = role_style(app, Role.MARKED if here else Role.HEADING)
        sign = ">" if here else " "
        told = Text(meaning, role_style(app, Role.MARKED) if here else "")
        table.add_row(Text(f"{sign} {word}", style), told)
    return table


def legend_commands(app: App[Any]) -> Iterator[SystemCommand]:
    """Each word as `:` finds it; not listed before something is typed."""
    for word, meaning in LEGEND:
        yield SystemCommand(word, meaning, partial(_show, app, word), discover=False)


def _show(app: App[Any], word: str) -> None:
    app.push_screen(LegendScreen(word))
