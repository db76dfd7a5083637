"""A line below the records where a search, or an offset or time to go to, is written."""

from __future__ import annotations

from enum import Enum

from textual import on
from textual.message import Message
from textual.widgets import Input

from breakglass.services.browse.query import HELP

LONGEST = 1_000


class AskPurpose(Enum):
    """What the line is written for; the value tells how."""

    SEARCH = HELP
    GO = "offset or time, then Enter"


class AskLine(Input):
    """Hidden until it is asked; Enter hides it and tells what was written."""

    DEFAULT_CSS = """
    AskLine {
        dock: bottom; height: 1; margin-bottom: 1; border: none; padding: 0 1; visibility: hidden;
    }
    AskLine:focus { border: none; }
    AskLine.shown { visibility: visible; }
    """

    class Given(Message):
        """Something was written, perhaps nothing."""

        def __init__(self, asked: AskPurpose, text: str) -> None:
            super().__init__()
            self.asked = asked
            self.text = text

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id, max_length=LONGEST, select_on_focus=False)
        self._asked = AskPurpose.SEARCH

    @property
    def shown(self) -> bool:
        return self.has_class("shown")

    def ask(self, asked: AskPurpose, value: str) -> None:
        """Show the line with *value* in it."""
        self._asked, self.placeholder, self.value = asked, asked.value, value
        self.add_class("shown")
        self.focus()

    def hide(self) -> None:
        self.remove_class("shown")

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.post_message(self.Given(self._asked, message.value.strip()))
        self.hide()
