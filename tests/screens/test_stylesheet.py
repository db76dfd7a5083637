"""Styles are parsed once for each theme, and a theme's are its own."""

from __future__ import annotations

from typing import Any

import pytest
from textual.color import Color
from textual.css.parse import parse
from textual.css.stylesheet import StylesheetParseError

from breakglass.screens.stylesheet import KeptStylesheet
from breakglass.themes.palettes import PALETTES
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on

DARK, LIGHT = "breakglass-dark", "breakglass-light"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were parsed."""
    seen: list[str] = []

    def noted(scope: str, css: str, *given: Any, **options: Any) -> Any:
        seen.append(css)
        return parse(scope, css, *given, **options)

    monkeypatch.setattr("textual.css.stylesheet.parse", noted)
    return seen


async def test_what_was_parsed_for_a_theme_is_not_parsed_again(parsed: list[str]) -> None:
    for theme in (DARK, LIGHT, DARK, LIGHT):
        parsed.clear()
        console = console_on(every_verdict(), theme=theme)
        async with console.run_test(size=(80, 24)) as pilot:
            await console.switch_mode("plan")
            await pilot.pause()
    assert parsed == []


async def test_a_theme_that_is_tried_and_left_paints_as_before() -> None:
    console = console_on(every_verdict(), theme=DARK)
    async with console.run_test(size=(80, 24)) as pilot:
        painted: dict[str, Color] = {}
        for theme in (DARK, LIGHT, DARK):
            console.theme = theme
            await pilot.pause()
            background = console.screen.styles.background
            assert painted.setdefault(theme, background) == background
        assert len(set(painted.values())) == 2


def test_a_source_that_is_wrong_leaves_the_rules_that_were_there() -> None:
    sheet = KeptStylesheet(variables=PALETTES[0].variables)
    sheet.add_source("Label { color: red; }")
    before = sheet.rules
    sheet.add_source("Label { colour: }")
    with pytest.raises(StylesheetParseError):
        sheet.reparse()
    assert sheet._rules == before
