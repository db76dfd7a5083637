"""What pages have in common on which a phrase is typed before anything is changed."""

from __future__ import annotations

from textual import on

from breakglass.screens.page import Page
from breakglass.screens.widgets.cancel import Cancel
from breakglass.screens.widgets.consent import ConsentPanel
from breakglass.screens.widgets.consent_field import ConsentField

PASTED = "Pasting is refused here: read the phrase, then type it."
NOT_THE_PHRASE = "That is not the phrase: nothing was done."


class ConsentPage(Page):
    """Subclasses have a `ConsentPanel` in their body, and say what the empty methods do."""

    AUTO_FOCUS = ""

    @property
    def phrase(self) -> str | None:
        """What may be agreed to now; None: nothing."""
        return self.consent.asked

    def agreed(self) -> None:
        """The phrase was typed, character for character."""

    def refuse(self, told: str) -> None:
        """Say why what was typed or pasted changes nothing."""

    def action_leave(self) -> None:
        """Go, or give up what has not begun."""

    @property
    def consent(self) -> ConsentPanel:
        return self.query_one(ConsentPanel)

    def ask(self, phrase: str | None) -> None:
        """Ask for *phrase* from its beginning; None: for nothing."""
        self.consent.ask(phrase)
        self.consent.restart()

    def action_other(self) -> None:
        self.consent.focus_other()

    @on(Cancel.Pressed)
    def _cancelled(self) -> None:
        self.action_leave()

    @on(ConsentField.PasteRefused)
    def _pasted(self) -> None:
        self.refuse(PASTED)

    @on(ConsentField.Given)
    def _given(self, message: ConsentField.Given) -> None:
        """Not if another phrase is asked for meanwhile, or none."""
        if message.wanted != self.phrase:
            return
        if message.exact:
            self.agreed()
        else:
            self.refuse(NOT_THE_PHRASE)
