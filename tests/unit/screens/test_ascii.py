"""On a terminal without Unicode nothing is drawn but ASCII, of the same width."""

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

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
