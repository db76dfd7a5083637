"""On a terminal without Unicode nothing is drawn but ASCII, of the same width."""

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.filter import LineFilter
from textual.widgets import Button, DataTable, Footer, Header, Input, OptionList, Sparkline
from typing_extensions import override

from breakglass.screens.ascii import AsciiFilter, in_ascii


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("orders-3", "orders-3"), ("┌─┐│└┘", "+-+|++"), ("▁▂▃▄▅▆▇█", "_.==oOO#")),
        *(("↑ ↓ → ←", "^ v > <"), ("✓ ✗ …", "+ x ."), ("café", "caf?"), ("注文", "????")),
        ("a\u0301", "a"),
    ],
)
def test_a_glyph_has_a_sign_of_its_own_width(text: str, shown: str) -> None:
    assert in_ascii(text) == shown
    assert cell_len(in_ascii(text)) == cell_len(text)


def test_a_segment_keeps_its_style() -> None:
    bold = Style(bold=True)
    assert AsciiFilter().apply([Segment("│", bold)], Color(0, 0, 0)) == [Segment("|", bold)]


class Furnished(App[None]):
    """Widgets that draw borders, scrollbars and icons."""

    @override
    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), AsciiFilter()]

    def compose(self) -> ComposeResult:
        yield Header()
        yield Input(placeholder="phrase")
        yield Button("Cancel")
        yield Sparkline([1, 2, 3, 4, 5, 6, 7, 8])
        yield DataTable[str]()
        yield OptionList(*(str(number) for number in range(30)))
        yield Footer()


async def test_nothing_textual_draws_needs_more_than_ascii() -> None:
    app = Furnished()
    async with app.run_test(size=(60, 20)) as pilot:
        for key in ("", "ctrl+p"):
            await pilot.press(*[key] if key else [])
            await pilot.pause()
            shown = app.export_screenshot()
            drawn = [line for line in shown.splitlines() if "<text" in line]
            assert drawn
            assert [line for line in drawn if not line.replace("&#160;", " ").isascii()] == []
