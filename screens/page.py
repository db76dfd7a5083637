"""What all main screens have in common: the status on top, the keys below, age, help.

A page shows what is known (`Context.known`); `Seen` reports that this has changed. A page never
reads the cluster by itself. Pages with a filter, and pages on which a phrase is typed before
anything is changed, have more in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import Reactive
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.context import Context
from breakglass.screens.help import HelpScreen, help_lines
from breakglass.screens.messages import RefreshAsked, Seen
from breakglass.screens.widgets.consent import Cancel, ConsentField, ConsentPanel
from breakglass.screens.widgets.key_bar import KeyBar
from breakglass.screens.widgets.status_bar import StatusBar


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
