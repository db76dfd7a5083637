"""What a guarded step is agreed to with: the way out, and under it the field for the phrase.

The way out, focused before anything is agreed to: Enter on it changes nothing.

Where a phrase is asked for, whatever is typed here is the phrase and goes to its field: a letter
of it must not mean anything else because nobody pressed Tab before.

Where the operator types a phrase: pasting is refused, Esc empties it, only Enter gives it. Not
every terminal says what is pasted: what comes faster than anybody types is taken for it.

Nothing but printable characters, Backspace and Ctrl+U changes what stands in it. After Enter on
another phrase, typing replaces it from the first wrong character on.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key, Paste
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from breakglass.services.words.inert import inert
from breakglass.themes.roles import Role, role_style

HELP_KEYS = frozenset(("question_mark", "colon"))


class Cancel(Widget, can_focus=True, inherit_bindings=False):
    """One word in brackets; where it is focused a sign says so too."""

    DEFAULT_CSS = """
    Cancel { height: 1; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "press", "Cancel", tooltip="Leave; nothing is changed")
    ]

    word: reactive[str] = reactive("Cancel")
    asks: reactive[bool] = reactive(False)
    """A phrase is asked for beside it."""

    class Pressed(Message):
        """The operator does not continue."""

    class Typed(Message):
        """A character of the phrase, or of what is taken for it, and when it came."""

        def __init__(self, character: str, at: float) -> None:
            super().__init__()
            self.character = character
            self.at = at

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
            self.post_message(self.Typed(event.character, event.time))

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self) -> None:
        self.post_message(self.Pressed())

    def action_press(self) -> None:
        self.post_message(self.Pressed())


LONGEST = 400
"""Characters that it takes; no phrase is longer."""
TYPED_AT_MOST = 8
PASTE_SECONDS = 0.05
"""Nobody types more than so many characters and Enter in that time."""


class ConsentField(Widget, can_focus=True, inherit_bindings=False):
    """A line to type one phrase into."""

    DEFAULT_CSS = """
    ConsentField { height: auto; min-height: 1; max-height: 6; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "give", "Consent", tooltip="Submit the phrase"),
        Binding("backspace", "shorten", "Delete a character", show=False),
        Binding("ctrl+u", "clear", "Clear the field", show=False),
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

    def __init__(self, *, disabled: bool = False) -> None:
        super().__init__(disabled=disabled)
        self._times: deque[float] = deque(maxlen=TYPED_AT_MOST + 1)
        """When the last characters came."""
        self._refused = False
        """Enter was pressed on what stands here, and it is not the phrase."""

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
        failed = role_style(self.app, Role.FAILED)
        text.append(self.typed[right : right + 1], failed + Style(reverse=True, underline=True))
        text.append(self.typed[right + 1 :], failed)
        if self.has_focus:
            text.append(" ", "reverse")
        if wrong is not None:
            mend = ": type on from the marked character" if self._refused else ""
            text.append(f" not the phrase{mend}", failed)
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
            self.type(event.character, event.time)
        elif event.key == "enter" and self._is_pasted(event.time):
            event.stop()
            event.prevent_default()
            self.typed = ""
            self.post_message(self.PasteRefused())
        elif event.key == "escape" and self.typed:
            event.stop()
            event.prevent_default()
            self.typed = ""

    def type(self, character: str, at: float) -> None:
        """Add what was typed at that moment, as far as there is room."""
        self._times.append(at)
        kept = self.typed[: self.wrong_from] if self._refused else self.typed
        self._refused = False
        self.typed = (kept + character)[:LONGEST]

    def _is_pasted(self, at: float) -> bool:
        """Whether Enter, at that moment, ends what nobody has typed."""
        return len(self._times) > TYPED_AT_MOST and at - self._times[0] < PASTE_SECONDS

    def watch_typed(self) -> None:
        self._refused = False

    def on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.post_message(self.PasteRefused())

    def on_focus(self) -> None:
        self.refresh(layout=True)

    def on_blur(self) -> None:
        self.refresh(layout=True)

    def action_give(self) -> None:
        self._refused = self.wrong_from is not None
        self.refresh(layout=True)
        self.post_message(self.Given(self.typed, self.wanted))

    def action_shorten(self) -> None:
        self.typed = self.typed[:-1]

    def action_clear(self) -> None:
        self.typed = ""


class ConsentPanel(Vertical):
    """Both widgets; the field is there only while a phrase is asked for."""

    DEFAULT_CSS = """
    ConsentPanel { height: auto; }
    """

    def __init__(self, way_out: str = "Leave") -> None:
        """*way_out* stands in the brackets where nothing is asked for."""
        super().__init__()
        self._way_out = way_out

    def compose(self) -> ComposeResult:
        yield Cancel()
        yield ConsentField(disabled=True)

    @property
    def field(self) -> ConsentField:
        return self.query_one(ConsentField)

    @property
    def cancel(self) -> Cancel:
        return self.query_one(Cancel)

    @property
    def asked(self) -> str | None:
        return self.field.wanted or None

    def ask(self, phrase: str | None) -> None:
        """Ask for *phrase*, whatever of it is typed already; None: for nothing."""
        field, cancel = self.field, self.cancel
        field.disabled, field.display = phrase is None, phrase is not None
        field.wanted, cancel.asks = phrase or "", phrase is not None
        cancel.word = self._way_out if phrase is None else "Cancel"

    def restart(self) -> None:
        """Nothing is typed yet, and the way out has the focus."""
        self.field.typed = ""
        self.cancel.focus()

    def focus_other(self) -> None:
        (self.cancel if self.field.has_focus or self.field.disabled else self.field).focus()

    @on(Cancel.Typed)
    def _begin(self, message: Cancel.Typed) -> None:
        """The phrase was begun without Tab."""
        message.stop()
        self.field.focus()
        self.field.type(message.character, message.at)
