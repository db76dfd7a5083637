"""Roles: what a theme writes of them is what is painted, by CSS and by hand."""

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from breakglass.themes.palettes import PALETTES
from breakglass.themes.roles import (
    Role,
    RoleStyle,
    StyleSyntaxError,
    role_style,
    theme_role_variables,
)


class Painted(App[None]):
    """One widget for each role, with the role's three variables."""

    CSS = "\n".join(
        f"#{role} {{ color: ${role}; background: ${role}-background; text-style: ${role}-style; }}"
        for role in Role
    )

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme_role_variables(self.current_theme)

    def compose(self) -> ComposeResult:
        for role in Role:
            yield Static(role, id=role)

    def on_mount(self) -> None:
        for theme in PALETTES:
            self.register_theme(theme)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        *(("bold red blue", "blue"), ("red on", "missing"), ("red on on", "on")),
        *(("shouting", "shouting"), ("#ff000080", "#ff000080"), ("transparent", "transparent")),
        *(("$lost", "lost"), ("red;", "red;")),
    ],
)
def test_a_style_that_cannot_be_read_names_the_word(text: str, word: str) -> None:
    with pytest.raises(StyleSyntaxError, match=word):
        RoleStyle.parse(text)


async def test_a_theme_paints_every_role_the_same_by_css_and_by_hand() -> None:
    app = Painted()
    async with app.run_test() as pilot:
        for name in ("nord", *(theme.name for theme in PALETTES)):
            app.theme = name
            await pilot.pause()
            for role in Role:
                by_css = app.query_one(f"#{role}", Static).rich_style
                by_hand = role_style(app, role)
                assert by_css.bold == by_hand.bold, (name, role)
                assert by_hand.color in (None, by_css.color), (name, role)
                assert by_hand.bgcolor in (None, by_css.bgcolor), (name, role)
