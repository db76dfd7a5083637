"""A dialog that asks for one line of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.field import Field

LONGEST = 4_096
"""Characters that can be typed: what a path may have."""


def anything(text: str) -> str:
    """Find no fault with *text*."""
    del text
    return ""


class Prompt(Dialog[str]):
    """Ends with the text, or None. Esc empties the field first, and leaves when it is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Empty, then cancel"),
        Binding("enter", "give", "OK"),
    ]

    def __init__(
        self,
        title: str,
        *,
        about: str = "",
        value: str = "",
        fault: Callable[[str], str] = anything,
        longest: int = LONGEST,
    ) -> None:
        super().__init__(title)
        self._about, self._value, self._fault, self._longest = about, value, fault, longest

    def body(self) -> Iterator[Widget]:
        if self._about:
            yield Static(self.styled(self._about), markup=False)
        yield Field(self._value, max_length=self._longest, compact=True)

    @on(Field.Submitted)
    def _given(self, message: Field.Submitted) -> None:
        fault = self._fault(message.value)
        if fault:
            self.say(fault)
        else:
            self.dismiss(message.value)

    async def action_give(self) -> None:
        await self.query_one(Field).action_submit()


class Question(Dialog[bool]):
    """Asks whether to go on where something would be lost. Enter keeps it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "leave", "Keep it"),
        Binding("ctrl+d", "go_on", "Discard it"),
    ]

    def __init__(self, title: str, about: str) -> None:
        super().__init__(title)
        self._about = about

    def body(self) -> Iterator[Widget]:
        yield Static(self.styled(self._about), markup=False)

    def action_leave(self) -> None:
        self.dismiss(False)

    def action_go_on(self) -> None:
        self.dismiss(True)
