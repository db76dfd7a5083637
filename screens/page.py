"""What all main screens have in common: the status on top, the keys below, age, help.

A page shows what is known (`Context.known`); `Seen` reports that this has changed. A page never
reads the cluster by itself. Pages with a filter, and pages on which a phrase is typed before
anything is changed, have more in common.

The keys of the screen it was opened on, made from the bindings, and what the words mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.reactive import Reactive
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.context import Context
from breakglass.screens.legend import legend_table
from breakglass.screens.messages import RefreshAsked, Seen
from breakglass.screens.widgets.consent import Cancel, ConsentField, ConsentPanel
from breakglass.screens.widgets.key_bar import KeyBar
from breakglass.screens.widgets.overlay import Overlay
from breakglass.screens.widgets.status_bar import StatusBar
from breakglass.themes.roles import Role, role_style


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
        return Group(
            Text(f"{self._title}: its keys", heading),
            *([Text(self._about)] if self._about else []),
            self._keys(),
            Text("\nWhat the words mean", heading),
            legend_table(self.app),
        )

    def _keys(self) -> Table:
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
        return table


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


class Page(Screen[None]):
    """A screen of the console. Subclasses give `TITLE`, `ABOUT`, `body` and `show_known`."""

    ABOUT: ClassVar[str] = ""
    """One or two sentences for the top of its help."""
    TAKES_PHRASES: ClassVar[bool] = False
    """Letters are typed into a phrase here, and are no keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "ask_refresh", "Refresh", show=False, tooltip="Read everything again"),
        Binding("question_mark", "help", "Help", show=False, tooltip="Show this help"),
        Binding("tab", "app.focus_next", "Next", show=False, tooltip="The next list or field"),
        Binding(
            "shift+tab",
            "app.focus_previous",
            "Previous",
            show=False,
            tooltip="The previous list or field",
        ),
        Binding(
            "ctrl+c,super+c",
            "screen.copy_text",
            "Copy",
            show=False,
            tooltip="Copy the mouse selection",
        ),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._beat: Timer | None = None

    def compose(self) -> ComposeResult:
        yield StatusBar(self.context)
        yield from self.body()
        yield KeyBar()

    def body(self) -> Iterator[Widget]:
        yield from ()

    def show_known(self) -> None:
        """Show what is known now; called when it has changed and when the screen comes up."""

    def unsaved(self) -> str:
        """What would be lost if the session ended now, in a sentence; empty if nothing."""
        return ""

    def tick(self) -> None:
        """Called each second while the screen is up: for ages."""

    def on_mount(self) -> None:
        self._beat = self.set_interval(1.0, self._on_beat)

    def on_screen_resume(self) -> None:
        if self._beat is not None:
            self._beat.resume()
        self._refresh_known()

    def on_screen_suspend(self) -> None:
        if self._beat is not None:
            self._beat.pause()

    @on(Seen)
    def _on_seen(self) -> None:
        self._refresh_known()

    def action_ask_refresh(self) -> None:
        self.app.post_message(RefreshAsked())

    def action_help(self) -> None:
        title = str(self.TITLE or "")
        self.app.push_screen(HelpScreen(title, self.ABOUT, help_lines(self)))

    def _refresh_known(self) -> None:
        self._draw_status()
        self.show_known()

    def _on_beat(self) -> None:
        self._draw_status()
        self.tick()

    def _draw_status(self) -> None:
        self.query_one(StatusBar).tell()


LONGEST = 400
"""Characters of a filter."""


class FilterField(Input):
    """Where the words are typed: in place of the keys, so that nothing else moves."""

    virtual_size = Reactive(Size(0, 0))
    """No letter changes the layout of the page."""

    def __init__(self, placeholder: str) -> None:
        super().__init__(id="filter", compact=True, max_length=LONGEST, placeholder=placeholder)


class FilteredPage(Page):
    """Subclasses have a `FilterField` in their body, and filter when it is changed.

    They focus their list themselves: Textual would focus the field, which is not hidden yet when a
    screen is new, and a key that comes at once would filter the list.
    """

    AUTO_FOCUS = ""

    DEFAULT_CSS = """
    FilteredPage #filter { display: none; dock: bottom; height: 1; }
    """

    @property
    def listed(self) -> Widget:
        """What is filtered: it has the focus unless words are typed."""
        raise NotImplementedError

    @property
    def filter_input(self) -> FilterField:
        return self.query_one("#filter", FilterField)

    @property
    def filtering(self) -> bool:
        return self.filter_input.display

    def action_filter(self) -> None:
        self._show_filter(shown=True)
        self.filter_input.focus()

    def _show_filter(self, *, shown: bool) -> None:
        self.filter_input.display = shown
        self.query_one(KeyBar).display = not shown

    def action_back(self) -> None:
        """Empty the filter; leave its field once it is empty."""
        if self.filter_input.value:
            self.filter_input.value = ""
        else:
            self.leave_filter()

    @on(Input.Submitted, "#filter")
    def leave_filter(self) -> None:
        """Go back to the list; what was typed keeps filtering it."""
        self._show_filter(shown=False)
        self.listed.focus()
        self.filtered()

    def filtered(self) -> None:
        """Called when no more words are typed."""


PASTED = (
    "Pasting is refused here: read the phrase, then type it. Over a slow link, wait before Enter."
)
NOT_THE_PHRASE = "That is not the phrase: nothing was done."


class ConsentPage(Page):
    """Subclasses have a `ConsentPanel` in their body, and say what the empty methods do."""

    AUTO_FOCUS = ""
    TAKES_PHRASES = True

    @property
    def phrase(self) -> str | None:
        """What may be agreed to now; None: nothing."""
        return self.consent.asked

    def agreed(self) -> None:
        """The phrase was typed, character for character."""

    def refuse(self, told: str) -> None:
        """Say why what was typed or pasted changes nothing."""

    def action_leave(self) -> None:
        """Go, or give up what has not begun."""

    @property
    def consent(self) -> ConsentPanel:
        return self.query_one(ConsentPanel)

    def ask(self, phrase: str | None) -> None:
        self.consent.ask(phrase)
        self.consent.restart()

    def action_other(self) -> None:
        self.consent.focus_other()

    @on(Cancel.Pressed)
    def _cancelled(self) -> None:
        self.action_leave()

    @on(ConsentField.PasteRefused)
    def _pasted(self) -> None:
        self.refuse(PASTED)

    @on(ConsentField.Given)
    def _given(self, message: ConsentField.Given) -> None:
        """Not if another phrase, or none, is asked for by then."""
        if message.wanted != self.phrase:
            return
        if message.exact:
            self.agreed()
        else:
            self.refuse(NOT_THE_PHRASE)
