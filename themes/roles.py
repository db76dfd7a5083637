"""What a colour may mean here: the roles, and how one is drawn in the theme of the moment.

A screen never names a colour. In its CSS a role is three variables (`$lost`,
`$lost-background`, `$lost-style`); where lines are drawn, `role_style(app, Role.LOST)` is the
same as a Rich style. A role only ever repeats what a word beside it says: the monochrome theme
has no colours at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import Theme

if TYPE_CHECKING:
    from textual.app import App


class Role(StrEnum):
    """Everything that has a look of its own; the value is the name in CSS and in files."""

    # What an offline partition needs: the verdicts.
    BOMB = "bomb"
    FORK = "fork"
    LOST = "lost"
    STUCK = "stuck"
    WAITING = "waiting"
    SAFE = "safe"
    # What is so of a partition, a replica or a figure.
    OFFLINE = "offline"
    DIVERGED = "diverged"
    UNKNOWN = "unknown"
    STALE = "stale"
    VERIFIED = "verified"
    FAILED = "failed"
    RUNNING = "running"
    DESIGNEE = "designee"
    # How far the operator's hand reaches.
    READONLY = "readonly"
    ARMED = "armed"
    # Parts of a screen.
    HEADING = "heading"
    MUTED = "muted"
    KEY = "key"
    MARKED = "marked"
    CURSOR = "cursor"
    DIFFERENT = "different"


ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse", "strike")
"""What besides colours a style may say, in the order it is written."""


class StyleSyntaxError(ValueError):
    """A style that cannot be read; the message says which word."""


@dataclass(frozen=True, slots=True)
class RoleStyle:
    """How a role looks. A colour is `#rrggbb`, a colour's CSS name or `ansi_red`; None: as is."""

    color: str | None = None
    background: str | None = None
    attributes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> RoleStyle:
        """Read `bold #ff5f5f on ansi_black`: attributes, a colour, `on` a background.

        Raises StyleSyntaxError.
        """
        attributes: list[str] = []
        colors: dict[bool, str] = {}
        behind = False
        for word in text.split():
            if word == "on" and not behind:
                behind = True
            elif word in ATTRIBUTES:
                attributes.append(word)
            elif behind in colors:
                raise StyleSyntaxError(f"{word!r} would be a second colour")
            else:
                colors[behind] = checked_color(word)
        if behind and True not in colors:
            raise StyleSyntaxError("a background colour is missing after 'on'")
        written = tuple(attribute for attribute in ATTRIBUTES if attribute in attributes)
        return cls(colors.get(False), colors.get(True), written)


def checked_color(text: str) -> str:
    """Return *text* if it is a colour that hides what lies below. Raises StyleSyntaxError."""
    try:
        color = Color.parse(text)
    except ColorParseError:
        raise StyleSyntaxError(f"{text!r} is not a colour") from None
    if color.a != 1 or color.auto:
        raise StyleSyntaxError(f"{text!r} is not an opaque colour")
    return text


def role_variables(role: Role, style: RoleStyle) -> dict[str, str]:
    """Return the CSS variables of *role*, without one for a colour it leaves open."""
    variables = {f"{role}-style": " ".join(style.attributes) or "none"}
    if style.color is not None:
        variables[role] = style.color
    if style.background is not None:
        variables[f"{role}-background"] = style.background
    return variables


def theme_role_variables(theme: Theme) -> dict[str, str]:
    """Return the CSS variables of every role in *theme*, which may know none of them.

    An app returns this from `get_theme_variable_defaults`, so that what a role leaves open is
    *theme*'s text, and so that Textual's own themes and a user's can be chosen too.
    """
    variables: dict[str, str] = {}
    for role in Role:
        variables[role] = _foreground(theme)
        variables[f"{role}-background"] = "transparent"
        variables |= _said(theme, role)
    return variables


def role_style(app: App[Any], role: Role | None) -> Style:
    """Return how *role* is drawn in the theme *app* shows now: see `theme_role_style`."""
    return Style.null() if role is None else theme_role_style(app.current_theme, role)


class Words(NamedTuple):
    """Some words of a line or a cell, and what they mean."""

    text: str
    role: Role | None = None
    spare: int = 0
    """Left out where a line is too narrow, 1 before 2; 0 always stays."""


def theme_role_style(theme: Theme, role: Role | str) -> Style:
    """Return how *role* is drawn in *theme*, to be laid over the style of the line it is in.

    What the role leaves open is None: most leave the background. Role.CURSOR comes last.
    """
    said = theme.variables
    if f"{role}-style" not in said:
        said = _said(theme, Role(role))
    return _rich_style(said.get(role), said.get(f"{role}-background"), said[f"{role}-style"])


def _said(theme: Theme, role: Role) -> dict[str, str]:
    """The variables of *role* in *theme*, or in their place what its colours suggest."""
    names = (str(role), f"{role}-background", f"{role}-style")
    said = {name: theme.variables[name] for name in names if name in theme.variables}
    return said if f"{role}-style" in said else role_variables(role, _fallback(theme, role)) | said


def _foreground(theme: Theme) -> str:
    return theme.foreground or ("#e0e0e0" if theme.dark else "#1e1e1e")


def _fallback(theme: Theme, role: Role) -> RoleStyle:
    """A role's style in a theme that says nothing about it, from the colours every theme has."""
    error = theme.error or theme.secondary or theme.primary
    warning = theme.warning or theme.primary
    success = theme.success or theme.secondary or theme.primary
    accent = theme.accent or theme.primary
    match role:
        case Role.BOMB | Role.ARMED:
            return RoleStyle(error, None, ("bold", "reverse"))
        case Role.LOST | Role.FAILED | Role.OFFLINE:
            return RoleStyle(error, None, ("bold",))
        case Role.FORK | Role.DIVERGED | Role.DIFFERENT:
            return RoleStyle(accent, None, ("bold",))
        case Role.STUCK | Role.STALE | Role.UNKNOWN:
            return RoleStyle(warning)
        case Role.WAITING | Role.RUNNING | Role.KEY | Role.DESIGNEE:
            return RoleStyle(theme.primary, None, ("bold",))
        case Role.SAFE | Role.VERIFIED | Role.READONLY:
            return RoleStyle(success)
        case Role.HEADING | Role.MARKED:
            return RoleStyle(None, None, ("bold",))
        case Role.CURSOR:
            return RoleStyle(None, None, ("reverse",))
        case Role.MUTED:
            return RoleStyle(None, None, ("dim",))


@lru_cache(512)
def _rich_style(color: str | None, background: str | None, attributes: str) -> Style:
    colors = Style(
        color=None if color is None else Color.parse(color).rich_color,
        bgcolor=None if background is None else Color.parse(background).rich_color,
    )
    return colors + Style.parse(attributes)
