"""What snapshots of screens say, and what every page looks like in both sizes."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from tests.kit.incidents import diverged_incident
from tests.screens.consoles import console_on
from tests.screens.drawing import LOOKS, Drawn, Look, drawing, stopped_clock
from tests.screens.turns import lines, text, until


class Two(App[None]):
    CSS = "#said { text-style: bold; color: ansi_red; }"

    def compose(self) -> ComposeResult:
        yield Static("LOST 注", id="said")
        yield Static("plain")


async def drawn_in(color: str) -> list[str]:
    """Return the drawing of an app that says LOST in that colour."""
    app = Two(ansi_color=True)
    async with app.run_test(size=(10, 2)) as pilot:
        app.query_one("#said").styles.color = color
        await until(pilot, lambda: "plain" in lines(app), "both lines")
        return drawing(app).splitlines()


async def test_a_drawing_is_what_is_shown_and_how_each_cell_looks() -> None:
    assert await drawn_in("ansi_red") == [
        "textual-dark, 10 x 2",
        "|LOST 注   |",
        "|plain     |",
        "",
        "|aaaaaaa...|",
        "|..........|",
        "",
        ". default on default",
        "a bold color(1) on default",
    ]


async def test_a_drawing_shows_that_a_colour_has_changed() -> None:
    red, green = await drawn_in("ansi_red"), await drawn_in("ansi_green")

    assert red[:-1] == green[:-1]
    assert red[-1] != green[-1]


@pytest.mark.usefixtures("bare_pages")
@pytest.mark.parametrize("look", LOOKS)
async def test_a_page_and_its_help_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    console = console_on(diverged_incident(), theme=look.theme, clock=stopped_clock)
    async with console.run_test(size=look.size) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "what is known")
        await pilot.press("?")
        await until(pilot, lambda: "every page has" in text(console), "the help")
        drawn_as_before(console)
