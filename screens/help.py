"""The help of a screen: its keys, made from the bindings, and what the words of the lists mean.

Each word is found by `:`, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import App, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen

from breakglass.screens.widgets.dialog import Overlay
from breakglass.themes.roles import Role, role_style


class Term(NamedTuple):
    """A word of a list or of a replica's line."""

    word: str
    meaning: str
    """A sentence or two; one line of 80 columns has room for it and the word."""


LEGEND = (
    Term("BOMB", "A log that lacks records is about to lead: stop that broker NOW."),
    Term("WAIT", "Starting the broker may bring it back; run a named rescue first."),
    Term("SAFE", "Electing it loses nothing that a readable replica holds."),
    Term("LOSS", "Electing loses records: read Loses and Unread, then decide."),
    Term("FORK", "Replicas hold different committed records: compare (d), decide."),
    Term("STUCK", "No election works yet: first fix the cause that the row names."),
    Term("Heard", "How many replicas have answered, out of how many."),
    Term("Unread", "Replicas that were not read. b3 >= 25: at least 25 only on b3."),
    Term("stale", "Not in sync when the leader was lost: it may lack records."),
    Term("elr", "Eligible leader replica: it has what was committed, if flushed."),
    Term("last", "The last known leader: never start it with an empty disk."),
)


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

        def show(word: str = word) -> None:
            app.push_screen(LegendScreen(word))

        yield SystemCommand(word, meaning, show, discover=False)


class HelpLine(NamedTuple):
    """One thing that can be done, and by which keys."""

    where: str
    """``screen``, ``table``, ``everywhere``."""
    keys: str
    does: str
    enabled: bool


class HelpScreen(Overlay):
    """The keys and the words over the screen; Esc closes it."""

    DEFAULT_CSS = """
    HelpScreen > VerticalScroll { width: 80; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss", "Close")]

    def __init__(self, title: str, about: str, lines: Iterable[HelpLine]) -> None:
        super().__init__()
        self._title, self._about, self._lines = title, about, tuple(lines)

    def on_mount(self) -> None:
        self.call_after_refresh(self._say_how)

    def on_resize(self) -> None:
        self.call_after_refresh(self._say_how)

    def _say_how(self) -> None:
        box = self.query_one(VerticalScroll)
        more = "PgDn: more, " if box.max_scroll_y else ""
        box.border_subtitle = f"{more}Esc: close"

    def content(self) -> RenderableType:
        heading = role_style(self.app, Role.HEADING)
        table = Table(box=None, pad_edge=False, show_header=False, expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        where = ""
        for line in self._lines:
            if line.where != where:
                where = line.where
                table.add_row(Text(where, role_style(self.app, Role.HEADING)), Text(""))
            off = None if line.enabled else role_style(self.app, Role.MUTED)
            does = line.does if line.enabled else f"{line.does} (not now)"
            table.add_row(
                Text(f"  {line.keys}", off or role_style(self.app, Role.KEY)), Text(does, off or "")
            )
        return Group(
            Text(f"{self._title}: its keys", heading),
            *([Text(self._about)] if self._about else []),
            table,
            Text("\nWhat the words mean", heading),
            legend_table(self.app),
        )


def help_lines(screen: Screen[Any]) -> tuple[HelpLine, ...]:
    """Everything that *screen* and what is focused on it answer to, as far as it is ours."""
    merged: dict[tuple[str, str], list[ActiveBinding]] = {}
    for active in screen.active_bindings.values():
        # What scrolls a box by a binding of Textual is no key of ours to tell of.
        if active.binding.description and not any(
            isinstance(bound, Binding)
            and active.binding.description == bound.description
            and active.tooltip == bound.tooltip
            and active.binding.key in bound.key.split(",")
            for owner in type(active.node).__mro__
            if owner.__module__.startswith("textual.")
            for bound in vars(owner).get("BINDINGS", ())
        ):
            place = (_where(active), active.binding.action)
            merged.setdefault(place, []).append(active)
    lines = [_line(where, held, screen.app) for (where, _), held in merged.items()]
    return tuple(sorted(lines, key=lambda line: _ORDER.index(line.where)))


_ORDER = ("this screen", "in the list", "everywhere")


_TEXTUALS_OWN = frozenset(
    binding.action for binding in Screen.BINDINGS if isinstance(binding, Binding)
)


def _where(active: ActiveBinding) -> str:
    if isinstance(active.node, App) or active.binding.action in _TEXTUALS_OWN:
        return "everywhere"
    return "this screen" if isinstance(active.node, Screen) else "in the list"


def _line(where: str, held: list[ActiveBinding], app: App[Any]) -> HelpLine:
    keys = " ".join(_displayed(held, app))
    first = held[0]
    return HelpLine(where, keys, first.tooltip or first.binding.description, first.enabled)


def _displayed(held: list[ActiveBinding], app: App[Any]) -> Iterator[str]:
    told: set[str] = set()
    for active in held:
        name = app.get_key_display(Binding(active.binding.key, active.binding.action))
        if name not in told:
            told.add(name)
            yield name
