"""Palettes: every role can be read and told apart, on every kind of terminal."""

import pytest
from textual.color import Color
from textual.theme import Theme

from breakglass.themes.palettes import (
    DARK,
    HIGH_CONTRAST,
    LIGHT,
    PALETTES,
)
from breakglass.themes.roles import Role, theme_role_style

OTHER_VERDICTS = (Role.FORK, Role.LOST, Role.STUCK, Role.WAITING, Role.SAFE)


def contrast(theme: Theme, role: Role) -> float:
    """How far the text of *role* stands out from what is behind it (WCAG: 1 to 21)."""
    style = theme_role_style(theme, role)
    color, behind = Color.parse(theme.foreground or ""), Color.parse(theme.background or "")
    if style.color is not None:
        color = Color.from_rich_color(style.color)
    if style.bgcolor is not None:
        behind = Color.from_rich_color(style.bgcolor)
    darker, lighter = sorted((luminance(color), luminance(behind)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    """How bright *color* is to the eye, from 0 to 1 (WCAG)."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    ]
    return sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize(("theme", "least"), [(DARK, 4.5), (LIGHT, 4.5), (HIGH_CONTRAST, 7)])
def test_text_of_every_role_can_be_read(theme: Theme, least: float) -> None:
    assert [role for role in Role if contrast(theme, role) < least] == []


@pytest.mark.parametrize("theme", PALETTES, ids=lambda theme: theme.name)
def test_a_palette_has_every_role_and_the_worst_verdict_like_no_other(theme: Theme) -> None:
    assert [role for role in Role if f"{role}-style" not in theme.variables] == []
    bomb = theme_role_style(theme, Role.BOMB)
    assert bomb not in [theme_role_style(theme, verdict) for verdict in OTHER_VERDICTS]
    armed, read_only = (theme_role_style(theme, role) for role in (Role.ARMED, Role.READONLY))
    assert bool(armed.bgcolor or armed.reverse) != bool(read_only.bgcolor or read_only.reverse)
