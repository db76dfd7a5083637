from __future__ import annotations

import pytest
from rich.color import ColorType
from textual.color import Color
from textual.theme import Theme

from breakglass.themes.palettes import (
    ANSI_DARK,
    ANSI_LIGHT,
    DARK,
    HIGH_CONTRAST,
    LIGHT,
    MONOCHROME,
    PALETTES,
)
from breakglass.themes.roles import Role, theme_role_style

VERDICTS = (Role.BOMB, Role.FORK, Role.LOST, Role.STUCK, Role.WAITING, Role.SAFE)


def contrast(theme: Theme, role: Role) -> float:
    """Return how far *role*'s text stands out from what is behind it (WCAG: 1 to 21)."""
    style = theme_role_style(theme, role)
    color, behind = Color.parse(theme.foreground or ""), Color.parse(theme.background or "")
    if style.color is not None:
        color = Color.from_rich_color(style.color)
    if style.bgcolor is not None:
        behind = Color.from_rich_color(style.bgcolor)
    darker, lighter = sorted((luminance(color), luminance(behind)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    """Return how bright *color* is to the eye, from 0 to 1 (WCAG)."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    ]
    return sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("theme", PALETTES, ids=lambda theme: theme.name)
def test_a_palette_says_how_every_role_looks(theme: Theme) -> None:
    assert [role for role in Role if f"{role}-style" not in theme.variables] == []


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(("theme", "least"), [(DARK, 4.5), (LIGHT, 4.5), (HIGH_CONTRAST, 7)])
def test_text_of_every_role_can_be_read(theme: Theme, least: float, role: Role) -> None:
    assert contrast(theme, role) >= least


@pytest.mark.parametrize("theme", [ANSI_DARK, ANSI_LIGHT, MONOCHROME], ids=lambda one: one.name)
def test_a_terminal_of_16_colours_is_drawn_on_in_its_own(theme: Theme) -> None:
    for role in Role:
        style = theme_role_style(theme, role)
        for color in (style.color, style.bgcolor):
            assert color is None or color.type in (ColorType.STANDARD, ColorType.DEFAULT), role


@pytest.mark.parametrize("role", Role)
def test_nothing_is_drawn_in_what_dark_terminals_set_unreadably(role: Role) -> None:
    color = theme_role_style(ANSI_DARK, role).color
    behind = theme_role_style(ANSI_DARK, role).bgcolor

    assert color is None or behind is not None or color.name not in ("blue", "bright_black")


def test_monochrome_has_no_colour_at_all() -> None:
    for role in Role:
        style = theme_role_style(MONOCHROME, role)
        for color in (style.color, style.bgcolor):
            assert color is None or color.is_default


@pytest.mark.parametrize("theme", PALETTES, ids=lambda theme: theme.name)
def test_the_worst_verdict_looks_like_no_other(theme: Theme) -> None:
    bomb = theme_role_style(theme, Role.BOMB)

    assert bomb not in [
        theme_role_style(theme, verdict) for verdict in VERDICTS if verdict is not Role.BOMB
    ]


@pytest.mark.parametrize("theme", PALETTES, ids=lambda theme: theme.name)
def test_armed_and_read_only_are_told_apart_without_colour(theme: Theme) -> None:
    armed, read_only = (theme_role_style(theme, role) for role in (Role.ARMED, Role.READONLY))

    assert (armed.bgcolor is not None or armed.reverse) != bool(
        read_only.bgcolor is not None or read_only.reverse
    )
