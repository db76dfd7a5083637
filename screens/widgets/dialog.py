"""What dialogs have in common: a box, a title, and their keys in words.

A line to type into that does what the keys say in the order they come.

Textual runs a key's binding after the characters behind it, where they come in one burst as over
a slow link: `ctrl+u` would empty what was typed after it, and Enter would give that too.

A dialog that asks for one line of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from breakglass.services.words.inert import bounded, inert
from breakglass.themes.roles import Role, role_style

T = TypeVar("T")

TEXT_LENGTH = 600


class Dialog(ModalScreen[T | None], Generic[T]):
    """Esc leaves without doing anything. Subclasses give `body`."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 76; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    Dialog LineTable { height: auto; max-height: 14; min-height: 2; }
    Dialog Static { height: auto; width: 1fr; }
    Dialog Field { height: 1; border: none; padding: 0; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self.styled(self._title, Role.HEADING), markup=False)
            yield from self.body()
            yield Static(id="said", markup=False)
            yield Static(id="keys", markup=False)

    def body(self) -> Iterator[Widget]:
        yield from ()

    def on_mount(self) -> None:
        self.query_one("#keys", Static).update(self._keys())

    def say(self, text: str, role: Role | None = Role.FAILED) -> None:
        self.query_one("#said", Static).update(self.styled(bounded(text, TEXT_LENGTH), role))

    def styled(self, text: str, role: Role | None = None) -> Text:
        return Text(inert(text), role_style(self.app, role) if role else "")

    def action_leave(self) -> None:
        self.dismiss(None)

    def _keys(self) -> Text:
        line = Text()
        told: set[str] = set()
        for binding in (*self.BINDINGS, *Dialog.BINDINGS):
            if isinstance(binding, Binding) and binding.action not in told:
                told.add(binding.action)
                key = Binding(binding.key.partition(",")[0], binding.action)
                line.append(self.app.get_key_display(key), role_style(self.app, Role.KEY))
                line.append(f" {binding.description}  ")
        return line


class Field(Input):
    """An `Input`: Esc and Ctrl+U empty it, Enter submits; Esc in an empty one is the screen's."""

    async def on_key(self, event: Key) -> None:
        if event.key == "enter":
            _taken(event)
            await self.action_submit()
        elif event.key == "ctrl+u" or (event.key == "escape" and self.value):
            _taken(event)
            self.value = ""


def _taken(event: Key) -> None:
    event.stop()
    event.prevent_default()


LONGEST = 4_096
"""Characters that can be typed: what a path may have."""


def anything(text: str) -> str:
    """Find no fault with *text*."""
    del text
    return ""


class Prompt(Dialog[str]):
    """Ends with the text, or None. Esc empties the field first, and leaves when it is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Clear, then cancel"),
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
    """Asks whether to continue where something would be lost. Enter keeps it."""

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
