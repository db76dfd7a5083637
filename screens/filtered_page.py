"""What pages have in common whose list is filtered by words that are typed above it."""

from __future__ import annotations

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.page import Page

LONGEST = 400
"""Characters of a filter."""


def filter_field(placeholder: str) -> Input:
    """Where the words are typed; shown once they are asked for."""
    return Input(id="filter", compact=True, max_length=LONGEST, placeholder=placeholder)


class FilteredPage(Page):
    """Subclasses have a `filter_field` in their body, and filter when it is changed."""

    DEFAULT_CSS = """
    FilteredPage #filter { display: none; height: 1; }
    FilteredPage #filter.asked { display: block; }
    """

    @property
    def listed(self) -> Widget:
        """What is filtered: it has the focus unless words are typed."""
        raise NotImplementedError

    @property
    def filter_input(self) -> Input:
        return self.query_one("#filter", Input)

    def action_filter(self) -> None:
        self.filter_input.add_class("asked")
        self.filter_input.focus()

    def action_back(self) -> None:
        """Empty the filter; leave its field once it is empty."""
        if self.filter_input.value:
            self.filter_input.value = ""
        else:
            self.leave_filter()

    @on(Input.Submitted, "#filter")
    def leave_filter(self) -> None:
        """Go back to the list; what was typed goes on filtering it."""
        self.filter_input.remove_class("asked")
        self.listed.focus()
