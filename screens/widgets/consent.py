"""What a guarded step is agreed to with: the way out, and under it the field for the phrase."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from breakglass.screens.widgets.cancel import Cancel
from breakglass.screens.widgets.consent_field import ConsentField


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
        """The phrase that is asked for; None: none is."""
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
        """From the way out to the field, or back."""
        (self.cancel if self.field.has_focus or self.field.disabled else self.field).focus()

    @on(Cancel.Typed)
    def _begin(self, message: Cancel.Typed) -> None:
        """The phrase was begun without Tab."""
        message.stop()
        self.field.focus()
        self.field.type(message.character)
