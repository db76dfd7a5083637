"""A user's own themes: one TOML file each, and one sentence for each that cannot be used."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from textual.theme import BUILTIN_THEMES, Theme

from breakglass.themes.palettes import DARK, PALETTES, with_roles
from breakglass.themes.roles import Role, StyleSyntaxError, checked_color

LARGEST_FILE = 65_536
"""Bytes; a theme has a few hundred."""

_MEANT = ("primary", "secondary", "accent", "error", "warning", "success")
COLORS = frozenset((*_MEANT, "foreground", "background", "surface", "panel"))
_KEYS = frozenset(("name", "base", "dark", "colors", "roles"))
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class ThemeProblem:
    """A file that was skipped, and why, in one sentence."""

    file: Path
    sentence: str


@dataclass(frozen=True, slots=True)
class UserThemes:
    """What a folder holds: what could be read, and what could not."""

    themes: tuple[Theme, ...] = ()
    problems: tuple[ThemeProblem, ...] = ()


class _Unusable(Exception):
    """Why this file is skipped."""


def read_themes(folder: Path) -> UserThemes:
    """Read every `*.toml` in *folder*, by name; a broken file is reported and never stops the rest.

    A file says `name`, and of `base` (the theme it is a change of, "breakglass-dark" unless
    said), `dark`, `[colors]` and `[roles]` what it wants to be different.
    """
    themes: dict[str, Theme] = {}
    problems: list[ThemeProblem] = []
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix == ".toml")
    except FileNotFoundError:
        return UserThemes()
    except OSError as error:
        why = f"The folder of themes cannot be read ({error.strerror})."
        return UserThemes(problems=(ThemeProblem(folder, why),))
    for file in files:
        try:
            theme = _theme(_content(file), taken={*BUILTIN_THEMES, *themes})
        except _Unusable as problem:
            problems.append(ThemeProblem(file, f"The theme {file.name!r} is skipped: {problem}."))
        else:
            themes[theme.name] = theme
    return UserThemes(tuple(themes.values()), tuple(problems))


def _content(file: Path) -> Mapping[str, object]:
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _Unusable(f"it cannot be read ({error.strerror})") from None
    if len(content) > LARGEST_FILE:
        raise _Unusable(f"it is larger than {LARGEST_FILE:,} bytes")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise _Unusable("it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise _Unusable(f"it is not TOML: {error}") from None


def _theme(said: Mapping[str, object], taken: Iterable[str]) -> Theme:
    _only(said, _KEYS, "a theme")
    base = _base(_text(said, "base", DARK.name))
    dark = said.get("dark", base.dark)
    if not isinstance(dark, bool):
        raise _Unusable("'dark' is neither true nor false")
    own = replace(base, name=_name(said, taken), dark=dark)
    for name, color in _colors(_table(said, "colors")).items():
        setattr(own, name, color)
    roles = _table(said, "roles")
    _only(roles, set(Role), "[roles]")
    try:
        return with_roles(own, {Role(role): text for role, text in roles.items()})
    except StyleSyntaxError as error:
        raise _Unusable(f"in [roles], {error}") from None


def _base(name: str) -> Theme:
    for palette in PALETTES:
        if palette.name == name:
            return palette
    known = ", ".join(palette.name for palette in PALETTES)
    raise _Unusable(f"its 'base' {name!r} is none of {known}")


def _name(said: Mapping[str, object], taken: Iterable[str]) -> str:
    name = _text(said, "name", "")
    if not _NAME.fullmatch(name):
        raise _Unusable("its 'name' must be small letters, digits and '-', at most 40")
    if name in {*taken, *(palette.name for palette in PALETTES)}:
        raise _Unusable(f"another theme is called {name!r} already")
    return name


def _colors(said: Mapping[str, str]) -> dict[str, str]:
    _only(said, COLORS, "[colors]")
    try:
        return {name: checked_color(color) for name, color in said.items()}
    except StyleSyntaxError as error:
        raise _Unusable(f"in [colors], {error}") from None


def _table(said: Mapping[str, object], key: str) -> dict[str, str]:
    table = said.get(key, {})
    if not isinstance(table, dict):
        raise _Unusable(f"'{key}' is not a table, [{key}]")
    return {name: _text(table, name, "") for name in table}


def _text(said: Mapping[str, object], key: str, default: str) -> str:
    text = said.get(key, default)
    if not isinstance(text, str):
        raise _Unusable(f"{key!r} is not text in quotes")
    return text


def _only(said: Mapping[str, object], known: Set[str], where: str) -> None:
    for key in said:
        if key not in known:
            raise _Unusable(f"{where} has no {key!r}, only {', '.join(sorted(known))}")
