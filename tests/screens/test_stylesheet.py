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


async def test_a_theme_is_parsed_once_and_paints_as_before_when_it_was_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    painted: dict[str, Color] = {}

    def noted(scope: str, css: str, *given: Any, **options: Any) -> Any:
        parsed.append(css)
        return parse(scope, css, *given, **options)

    monkeypatch.setattr("textual.css.stylesheet.parse", noted)
    for again in (False, True):
        console = console_on(every_verdict(), theme=DARK)
        async with console.run_test(size=(80, 24)) as pilot:
            await console.switch_mode("plan")
            for theme in (DARK, LIGHT, DARK):
                console.theme = theme
                await pilot.pause()
                background = console.screen.styles.background
                assert painted.setdefault(theme, background) == background
        assert not (again and parsed)
        parsed.clear()
    assert len(set(painted.values())) == 2


def test_a_source_that_is_wrong_leaves_the_rules_that_were_there() -> None:
    sheet = KeptStylesheet(variables=PALETTES[0].variables)
    sheet.add_source("Label { color: red; }")
    before = sheet.rules
    sheet.add_source("Label { colour: }")
    with pytest.raises(StylesheetParseError):
        sheet.reparse()
    assert sheet._rules == before
