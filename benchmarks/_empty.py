"""The least that a Textual program can be: one word on a screen of its own."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widget import Widget

WORD = "ready"


class Word(Widget):
    """The word."""

    def render(self) -> str:
        return WORD


class Empty(App[None]):
    """Nothing else."""

    def compose(self) -> ComposeResult:
        yield Word()


if __name__ == "__main__":
    Empty().run(mouse=False)
