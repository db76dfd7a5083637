"""Where the operator types a phrase: pasting is refused, Esc empties it, only Enter gives it.

Nothing but printable characters, Backspace and Ctrl+U changes what stands in it. Over a slow link
an arrow key may arrive as Esc, `[`, `A`: that empties the field and leaves two characters in it,
which are no phrase.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Key, Paste
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from breakglass.services.words.inert import inert
from breakglass.themes.roles import Role, role_style

LONGEST = 400
"""Characters that it takes; no phrase is longer."""


class ConsentField(Widget, can_focus=True, inherit_bindings=False):
    """A line to type one phrase into."""

    DEFAULT_CSS = """
    ConsentField { height: auto; min-height: 1; max-height: 6; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "give", "Consent", tooltip="Give the phrase that was typed"),
        Binding("backspace", "shorten", "Delete a character", show=False),
        Binding("ctrl+u", "clear", "Empty the field", show=False),
    ]

    typed: reactive[str] = reactive("", layout=True)
    wanted: reactive[str] = reactive("", layout=True)
    """The phrase that is asked for."""

    class Given(Message):
        """Enter: *typed* was given for *wanted*, the same or not."""

        def __init__(self, typed: str, wanted: str) -> None:
            super().__init__()
            self.typed = typed
            self.wanted = wanted

        @property
        def exact(self) -> bool:
            """Character for character, where what cannot be typed is typed as it is shown."""
            return self.typed in (self.wanted, inert(self.wanted))

    class PasteRefused(Message):
        """Somebody pasted: nothing of it was taken."""

    @property
    def wrong_from(self) -> int | None:
        """Where *typed* leaves the phrase; None as long as it does not."""
        wanted = inert(self.wanted)
        if wanted.startswith(self.typed):
            return None
        pairs = zip(self.typed, wanted, strict=False)
        return next((at for at, (one, other) in enumerate(pairs) if one != other), len(wanted))

    def render(self) -> Text:
        wrong = self.wrong_from
        right = len(self.typed) if wrong is None else wrong
        text = Text("> " if self.has_focus else "  ", no_wrap=False, overflow="fold")
        text.append(self.typed[:right])
        text.append(self.typed[right:], role_style(self.app, Role.FAILED))
        if self.has_focus:
            text.append(" ", "reverse")
        if wrong is not None:
            text.append(" not the phrase", role_style(self.app, Role.FAILED))
        elif not self.typed:
            hint = " type it here" if self.has_focus else "type the phrase"
            text.append(hint, role_style(self.app, Role.MUTED))
        return text

    def check_consume_key(self, key: str, character: str | None) -> bool:  # noqa: ARG002
        """Every printable key is a character of the phrase, whatever it means elsewhere."""
        return character is not None and character.isprintable()

    def on_key(self, event: Key) -> None:
        if event.character is not None and event.is_printable:
            event.stop()
            event.prevent_default()
            self.type(event.character)
        elif event.key == "escape" and self.typed:
            event.stop()
            event.prevent_default()
            self.typed = ""

    def type(self, characters: str) -> None:
        """Add what was typed, as far as there is room."""
        self.typed = (self.typed + characters)[:LONGEST]

    def on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.post_message(self.PasteRefused())

    def on_focus(self) -> None:
        self.refresh(layout=True)

    def on_blur(self) -> None:
        self.refresh(layout=True)

    def action_give(self) -> None:
        self.post_message(self.Given(self.typed, self.wanted))

    def action_shorten(self) -> None:
        self.typed = self.typed[:-1]

    def action_clear(self) -> None:
        self.typed = ""
