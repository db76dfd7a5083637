"""How the console looks and is pointed at: options first, then `console.toml`, then the terminal.

NO_COLOR, too, is a wish that a theme named by the operator goes before. The settings in the user's
config folder are::

    theme = "breakglass-light"    # one of Breakglass's, of Textual's, or of themes/*.toml
    mouse = false                 # over ssh it is off unless said here
    ascii = true                  # draw with ASCII alone
    refresh-seconds = 5.0
    verify-contents = "budget"    # or "full", "off": how far replicas are read before elections
    backups = ["/mnt/backups"]    # places of topic backups, beside those of the profile

    [keys]
    e = "f5"                      # F5 does what e did, and e does nothing

A setting that cannot be used is reported and left out: a console that does not open helps nobody.
They are read with tomllib and a dataclass, because pydantic would cost the first frame 0.1 s.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.options import Theme
from breakglass.screens.terminal import Terminal
from breakglass.services.errors import UsageError
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular
from breakglass.services.session import Effort

if TYPE_CHECKING:
    from textual.theme import Theme as TextualTheme


@dataclass(frozen=True, slots=True)
class LookOptions:
    """What was said on the command line; None where nothing was."""

    theme: Theme = None
    ascii_only: Annotated[
        bool | None, typer.Option("--ascii/--no-ascii", help="Draw with ASCII characters only.")
    ] = None
    mouse: Annotated[
        bool | None, typer.Option("--mouse/--no-mouse", help="Use the mouse in the console.")
    ] = None


FILE = "console.toml"
THEMES = "themes"
"""The folder of the user's own themes, beside the file."""
KEY = re.compile(r"(?!,)[!-~]|f([1-9]|1[0-2])")
"""A key that can be another, or take its place."""
PIECES = frozenset("[ABCD")
"""What is left of an arrow key that arrives in pieces."""
SECONDS = (1.0, 3600.0)
"""Between two refreshes, at least and at most."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator has said; None where nothing was."""

    theme: str | None = None
    mouse: bool | None = None
    ascii_only: bool | None = None
    refresh_seconds: float | None = None
    backups: tuple[str, ...] = ()
    """Places of topic backups."""
    contents: Effort | None = None
    """How far the contents of replicas are read before they are proposed."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The operator's own key, by the default key that it replaces."""
    problems: tuple[str, ...] = ()
    """What cannot be used, a sentence each."""


@dataclass(frozen=True, slots=True)
class Look:
    """What it comes to."""

    terminal: Terminal
    theme: str
    """The name of one of Breakglass's themes, of Textual's, or of `themes`."""
    themes: tuple[TextualTheme, ...]
    """The user's own."""
    settings: Settings
    problems: tuple[str, ...]
    """Settings and themes that cannot be used, a sentence each."""


def decide_look(options: LookOptions, folder: Path) -> Look:
    """Decide by *options*, the settings and themes in the config *folder*, and the environment.

    Raises UsageError: no theme has the name given as an option.
    """
    from breakglass.themes.files import read_themes

    settings = read_settings(folder)
    found = read_themes(folder / THEMES)
    terminal = Terminal.detect(
        ascii_only=_first(options.ascii_only, settings.ascii_only),
        mouse=_first(options.mouse, settings.mouse),
    )
    problems = [*settings.problems, *(problem.sentence for problem in found.problems)]
    theme = _theme(options, settings, found.themes, problems)
    return Look(terminal, theme or terminal.theme, found.themes, settings, tuple(problems))


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
    options: LookOptions, settings: Settings, own: tuple[TextualTheme, ...], problems: list[str]
) -> str | None:
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


def _names(own: tuple[TextualTheme, ...]) -> list[str]:
    from textual.theme import BUILTIN_THEMES

    from breakglass.themes.palettes import PALETTES

    return [*(theme.name for theme in (*PALETTES, *own)), *BUILTIN_THEMES]


def _first(*said: bool | None) -> bool | None:
    return next((setting for setting in said if setting is not None), None)


class _Unusable(Exception):
    """Why one setting is left out."""


def read_settings(folder: Path) -> Settings:
    """Read the file in *folder*, if there is one."""
    try:
        said = tomllib.loads(read_regular(folder / FILE, SETTINGS_BYTES).decode("utf-8"))
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        return _without(f"it cannot be read ({error.strerror})")
    except UnicodeDecodeError:
        return _without("it is not UTF-8 text")
    except tomllib.TOMLDecodeError as error:
        return _without(f"it is not TOML: {error}")
    settings = Settings()
    problems: list[str] = []
    for key, value in said.items():
        try:
            if key not in _KNOWN:
                raise _Unusable(f"there are only {', '.join(_KNOWN)}")
            name, read = _KNOWN[key]
            known: dict[str, Any] = {name: read(value)}
            settings = replace(settings, **known)
        except _Unusable as problem:
            problems.append(f"The setting {key!r} in {FILE} is not used: {problem}.")
    return replace(settings, problems=tuple(problems))


def _without(why: str) -> Settings:
    return Settings(problems=(f"The settings in {FILE} are not used: {why}.",))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _Unusable("it is not text in quotes")
    return value


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Unusable("it is neither true nor false")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unusable("it is not a number")
    if not SECONDS[0] <= value <= SECONDS[1]:
        raise _Unusable(f"it is not between {SECONDS[0]:.0f} and {SECONDS[1]:.0f}")
    return float(value)


def _effort(value: object) -> Effort:
    if not isinstance(value, str) or value not in tuple(Effort):
        raise _Unusable(f"it is not one of {', '.join(Effort)}")
    return Effort(value)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _Unusable("it is not a list of texts in quotes")
    return tuple(value)


def _keys(value: object) -> Mapping[str, str]:
    """Only function keys, and keys that are replaced themselves, are sure to be free."""
    if not isinstance(value, dict):
        raise _Unusable("it is not a table of keys")
    for default, own in value.items():
        if not (isinstance(own, str) and KEY.fullmatch(default) and KEY.fullmatch(own)):
            raise _Unusable(f"{default} = {own!r} does not name two keys, such as e and f5")
        if own in PIECES or not (own[1:] or own in value):
            raise _Unusable(f"{own!r} is not free: choose f1 to f12, or replace {own!r} as well")
    if len({*value.values()}) < len(value):
        raise _Unusable("two keys are replaced by the same one")
    return value


_KNOWN: dict[str, tuple[str, Callable[[object], object]]] = {
    "theme": ("theme", _text),
    "mouse": ("mouse", _switch),
    "ascii": ("ascii_only", _switch),
    "refresh-seconds": ("refresh_seconds", _seconds),
    "backups": ("backups", _texts),
    "verify-contents": ("contents", _effort),
    "keys": ("keys", _keys),
}
