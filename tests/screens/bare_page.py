"""A page with nothing on it, to see what every page has."""

from breakglass.screens.page import Page


class BarePage(Page):
    TITLE = "Bare"
    ABOUT = "Nothing but what every page has."
    told = 0

    def show_known(self) -> None:
        self.told += 1
