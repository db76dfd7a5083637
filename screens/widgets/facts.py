"""Sentences, each with its label before it and its age after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

LENGTH = 400
"""Of some words; what a broker or a topic is called does not fill the screen."""
NO_AGE = LinePart("")


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence with its label and its age."""

    label: str
    parts: tuple[LinePart, ...]
    age: LinePart = NO_AGE


class Facts(Widget):
    """The sentences, each with its label before it and its age after it."""

    DEFAULT_CSS = """
    Facts { height: auto; }
    """
    facts: reactive[tuple[Fact, ...]] = reactive((), layout=True)

    def render(self) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, min_width=11)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, justify="right")
        heading = role_style(self.app, Role.HEADING)
        for fact in self.facts:
            label = Text(f" {fact.label}", heading)
            table.add_row(label, self._text(fact.parts), self._text((fact.age, LinePart(" "))))
        return table

    def _text(self, parts: Sequence[LinePart]) -> Text:
        text = Text()
        for part in parts:
            style = role_style(self.app, part.role) if part.role else None
            text.append(bounded(part.text, LENGTH), style)
        return text
