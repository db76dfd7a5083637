"""How the console looks and is pointed at: options first, then settings, then what the terminal is.

NO_COLOR, too, is a wish that a theme named by the operator goes before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.console.settings import THEMES, Settings, read_settings
from breakglass.screens.terminal import Terminal
from breakglass.services.contents_effort import Effort
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class LookOptions:
    """What was said on the command line; None where nothing was."""

    theme: str | None = None
    ascii_only: bool | None = None
    mouse: bool | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What it comes to."""

    terminal: Terminal
    theme: str
    """The name of one of Breakglass's themes, of Textual's, or of `themes`."""
    themes: tuple[Theme, ...] = ()
    """The user's own."""
    refresh_seconds: float | None = None
    backups: tuple[str, ...] = ()
    """Places of topic backups that the settings name."""
    contents: Effort | None = None
    """How far the settings want contents of replicas to be read."""
    problems: tuple[str, ...] = ()
    """Settings and themes that cannot be used, a sentence each."""


def decide_look(options: LookOptions, folder: Path) -> Look:
    """Decide by *options*, the settings and themes in the config *folder*, and the environment.

    Raises:
        UsageError: no theme has the name given as an option.
    """
    from breakglass.themes.files import read_themes

    settings = read_settings(folder)
    found = read_themes(folder / THEMES)
    terminal = Terminal.detect(
        ascii_only=_first(options.ascii_only, settings.ascii_only),
        mouse=_first(options.mouse, settings.mouse),
    )
    problems = [*settings.problems, *(one.sentence for one in found.problems)]
    theme = _theme(options, settings, found.themes, problems)
    return Look(
        terminal,
        theme or terminal.theme,
        found.themes,
        settings.refresh_seconds,
        settings.backups,
        settings.contents,
        tuple(problems),
    )


@contextmanager
def colors_left_to_the_theme() -> Iterator[None]:
    """While entered, an app that is made does not see NO_COLOR.

    Textual would strip colours but leave what tells parts apart by colour alone; the monochrome
    theme, which NO_COLOR chooses, tells them apart otherwise and has none to strip.
    """
    said = os.environ.pop("NO_COLOR", None)
    try:
        yield
    finally:
        if said is not None:
            os.environ["NO_COLOR"] = said


def _theme(
    options: LookOptions, settings: Settings, own: tuple[Theme, ...], problems: list[str]
) -> str | None:
    """The theme that was named, if it exists."""
    known = _names(own)
    if options.theme is not None:
        if options.theme not in known:
            raise UsageError(
                f"no theme is called {options.theme!r}: choose one of {', '.join(known)}"
            )
        return options.theme
    if settings.theme is not None and settings.theme not in known:
        problems.append(f"No theme is called {settings.theme!r}, as the settings say.")
        return None
    return settings.theme


def theme_names(folder: Path) -> list[str]:
    """The themes there are, with those in the config *folder*."""
    from breakglass.themes.files import read_themes

    return _names(read_themes(folder / THEMES).themes)


def _names(own: tuple[Theme, ...]) -> list[str]:
    from textual.theme import BUILTIN_THEMES

    from breakglass.themes.palettes import PALETTES

    return [*(one.name for one in (*PALETTES, *own)), *BUILTIN_THEMES]


def _first(*said: bool | None) -> bool | None:
    return next((one for one in said if one is not None), None)
