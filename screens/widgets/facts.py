"""Sentences, each with its label before it and its age after it; and words that change by keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text
from textual.app import App
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, Words, role_style

LENGTH = 400
"""Of some words; what a broker or a topic is called does not fill the screen."""
NO_AGE = Words("")


class Fact(NamedTuple):
    """One sentence with its label and its age."""

    label: str
    parts: tuple[Words, ...]
    age: Words = NO_AGE


def fact(label: str, *parts: Words | str, age: Words = NO_AGE) -> Fact:
    """The sentence of *parts*, which stand one after another."""
    words = [Words(part) if isinstance(part, str) else part for part in parts]
    return Fact(label, tuple(words), age)


def sentence(app: App[Any], parts: Iterable[Words]) -> Text:
    """*parts* one after another."""
    text = Text()
    for part in parts:
        text.append(bounded(part.text, LENGTH), role_style(app, part.role))
    return text


def facts_table(app: App[Any], facts: Iterable[Fact], length: int) -> Table:
    """*facts* of one part each, for a box over the screen: without ages."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    heading = role_style(app, Role.HEADING)
    for one in facts:
        (words,) = one.parts
        told = Text(bounded(words.text, length), role_style(app, words.role))
        table.add_row(Text(one.label, heading), told)
    return table


class Facts(Widget):
    """The sentences, each with its label before it and its age after it."""

    DEFAULT_CSS = """
    Facts { height: auto; }
    """
    facts: reactive[Sequence[Fact]] = reactive((), layout=True)

    def render(self) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, min_width=11)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, justify="right")
        heading = role_style(self.app, Role.HEADING)
        for one in self.facts:
            age = sentence(self.app, (one.age, Words(" ")))
            table.add_row(Text(f" {one.label}", heading), sentence(self.app, one.parts), age)
        return table


class StyledLines(Static):
    """Some lines of styled words: painted where they differ, laid out where they need more room.

    Laying out paints all of the screen again; most texts take one line, like the text
    before them.
    """

    DEFAULT_CSS = """
    StyledLines { height: auto; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._told = Text()
        self._lines = 0
        """That the last words took."""

    def tell(self, text: Text) -> None:
        width = max(self.size.width, 1)
        if text.no_wrap:
            lines = text.plain.count("\n") + 1
        elif text.cell_len <= width and "\n" not in text.plain:
            lines = 1
        else:
            lines = len(text.wrap(self.app.console, width))
        if lines != self._lines or text != self._told:
            self._told = text
            self.update(text, layout=lines != self._lines)
            self._lines = lines
