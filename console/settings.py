"""The operator's own settings of the console: `console.toml` in the config folder.

::

    theme = "breakglass-light"    # one of Breakglass's, of Textual's, or of themes/*.toml
    mouse = false                 # over ssh it is off unless said here
    ascii = true                  # draw with ASCII alone
    refresh-seconds = 5.0
    verify-contents = "budget"    # or "full", "off": how far replicas are read before elections
    backups = ["/mnt/backups"]    # places of topic backups, beside those of the profile

A setting that cannot be used is told of and left out: a console that does not open helps nobody.
Read with tomllib and a dataclass, for pydantic would cost the first frame a tenth of a second.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from breakglass.services.contents_effort import Effort
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular

FILE = "console.toml"
THEMES = "themes"
"""The folder of the user's own themes, beside the file."""
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
    problems: tuple[str, ...] = ()
    """What cannot be used, a sentence each."""


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
    return _settings(said)


def _without(why: str) -> Settings:
    return Settings(problems=(f"The settings in {FILE} are not used: {why}.",))


def _settings(said: dict[str, Any]) -> Settings:
    settings = Settings()
    problems: list[str] = []
    for key, value in said.items():
        try:
            settings = replace(settings, **_one(key, value))
        except _Unusable as problem:
            problems.append(f"The setting {key!r} in {FILE} is not used: {problem}.")
    return replace(settings, problems=tuple(problems))


def _one(key: str, value: object) -> dict[str, Any]:
    if key not in _KNOWN:
        raise _Unusable(f"there are only {', '.join(_KNOWN)}")
    name, read = _KNOWN[key]
    return {name: read(value)}


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
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _Unusable("it is not a list of texts in quotes")
    return tuple(value)


_KNOWN: dict[str, tuple[str, Callable[[object], object]]] = {
    "theme": ("theme", _text),
    "mouse": ("mouse", _switch),
    "ascii": ("ascii_only", _switch),
    "refresh-seconds": ("refresh_seconds", _seconds),
    "backups": ("backups", _texts),
    "verify-contents": ("contents", _effort),
}
