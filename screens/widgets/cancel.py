"""The way out, focused before anything is agreed to: Enter on it changes nothing.

Where a phrase is asked for, whatever is typed here is the phrase and goes to its field: a letter
of it must not mean anything else because nobody pressed Tab before.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from breakglass.themes.roles import Role, role_style

HELP_KEYS = frozenset(("question_mark", "colon"))


class Cancel(Widget, can_focus=True, inherit_bindings=False):
    """One word in brackets; where it is focused a sign says so too."""

    DEFAULT_CSS = """
    Cancel { height: 1; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "press", "Cancel", tooltip="Leave; nothing is changed"),
    ]

    word: reactive[str] = reactive("Cancel")
    asks: reactive[bool] = reactive(False)
    """A phrase is asked for beside it."""

    class Pressed(Message):
        """The operator does not go on."""

    class Typed(Message):
        """A character of the phrase, or of what is taken for it."""

        def __init__(self, character: str) -> None:
            super().__init__()
            self.character = character

    def render(self) -> Text:
        focused = self.has_focus
        text = Text("> " if focused else "  ")
        return text.append(f"[ {self.word} ]", role_style(self.app, Role.CURSOR) if focused else "")

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Everything that can be typed, but for the ways to get help, which no phrase has."""
        printable = character is not None and character.isprintable()
        return self.asks and printable and key not in HELP_KEYS

    def on_key(self, event: Key) -> None:
        if self.check_consume_key(event.key, event.character) and event.character is not None:
            event.stop()
            event.prevent_default()
            self.post_message(self.Typed(event.character))

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self) -> None:
        self.post_message(self.Pressed())

    def action_press(self) -> None:
        self.post_message(self.Pressed())
