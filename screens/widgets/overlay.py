"""A text in a box over the screen, which scrolls where it is longer than the screen."""

from __future__ import annotations

from rich.console import RenderableType
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


class Overlay(ModalScreen[None]):
    """Subclasses say what stands in the box, and which keys close it."""

    DEFAULT_CSS = """
    Overlay { align: center middle; }
    Overlay > VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; padding: 0 1; background: $surface;
        scrollbar-size-vertical: 1;
    }
    """

    def content(self) -> RenderableType:
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self.content(), markup=False)

    def show_again(self) -> None:
        self.query_one(Static).update(self.content())
