"""Roles: what a theme writes of them is what is painted, by CSS and by hand."""

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.theme import Theme
from textual.widgets import Static

from breakglass.themes.palettes import PALETTES, with_roles
from breakglass.themes.roles import (
    Role,
    RoleStyle,
    StyleSyntaxError,
    role_style,
    theme_role_style,
    theme_role_variables,
)

BARE = Theme(name="bare", primary="#123456")


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


def test_a_style_is_read_in_any_order_and_kept_in_one() -> None:
    expected = RoleStyle("#ff0000", "ansi_black", ("bold", "underline"))
    assert RoleStyle.parse("underline #ff0000 bold on ansi_black") == expected


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


def test_a_role_has_a_look_in_any_theme_and_leaves_open_what_it_does_not_say() -> None:
    assert [role for role in Role if theme_role_style(BARE, role) == Style()] == []
    theme = with_roles(BARE, {Role.LOST: "bold", Role.CURSOR: "on #222222"})
    assert theme_role_style(theme, "lost") == Style(bold=True)
    assert theme_role_style(theme, Role.CURSOR) == Style(bgcolor="#222222")


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
