"""What all main screens have in common: the status on top, the keys below, age, help.

A page shows what is known (`Context.known`) and is told by `Seen` when that has changed; it never
reads the cluster by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from breakglass.screens.context import Context
from breakglass.screens.help import HelpScreen, help_lines
from breakglass.screens.messages import RefreshAsked, Seen
from breakglass.screens.widgets.key_bar import KeyBar
from breakglass.screens.widgets.status_bar import StatusBar


class Page(Screen[None]):
    """A screen of the console. Subclasses give `TITLE`, `ABOUT`, `body` and `show_known`."""

    ABOUT: ClassVar[str] = ""
    """One or two sentences for the top of its help."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "ask_refresh", "Refresh", show=False, tooltip="Read everything again"),
        Binding("question_mark", "help", "Help", show=False, tooltip="These words and keys"),
        Binding("tab", "app.focus_next", "Next", show=False, tooltip="The next list or field"),
        Binding(
            "shift+tab",
            "app.focus_previous",
            "Previous",
            show=False,
            tooltip="The list or field before",
        ),
        Binding(
            "ctrl+c,super+c",
            "screen.copy_text",
            "Copy",
            show=False,
            tooltip="Copy what the mouse has selected",
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
        """The widgets between the two bars."""
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
