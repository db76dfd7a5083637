"""What the operator's terminal can do, read from the environment: colours, glyphs, mouse.

Nothing is asked of the terminal itself: over a slow link the answer would come among the first
keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

SSH = ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT")
FEW_GLYPHS = frozenset(("linux", "vt100", "vt102", "vt220", "cons25", "ansi"))
"""Values of TERM whose fonts lack what the console draws with."""
LIGHT_BACKGROUNDS = frozenset(("7", "15"))
"""White and bright white, as COLORFGBG numbers them."""


class Colors(Enum):
    """How many colours there are."""

    NONE = "none"
    """NO_COLOR is set."""
    SIXTEEN = "16"
    MANY = "256 or more"


@dataclass(frozen=True, slots=True)
class Terminal:
    """What screens and the app go by."""

    colors: Colors = Colors.MANY
    ascii_only: bool = False
    """Nothing but ASCII is drawn: see `screens.ascii`."""
    remote: bool = False
    """Reached over ssh."""
    mouse: bool = True
    """Whether the terminal reports the mouse; its own selecting of text works where it does not."""
    light: bool = False
    """The background is light, where the terminal says so."""

    @classmethod
    def detect(
        cls,
        environ: Mapping[str, str] = os.environ,
        *,
        ascii_only: bool | None = None,
        mouse: bool | None = None,
    ) -> Terminal:
        """Read *environ*; *ascii_only* and *mouse* stand where the operator has said so."""
        remote = any(environ.get(name) for name in SSH)
        return cls(
            colors=_colors(environ),
            ascii_only=(not FEW_GLYPHS.isdisjoint(_names(environ)) or _locale(environ) is not None)
            if ascii_only is None
            else ascii_only,
            remote=remote,
            mouse=not remote if mouse is None else mouse,
            light=environ.get("COLORFGBG", "").rpartition(";")[2] in LIGHT_BACKGROUNDS,
        )

    @property
    def theme(self) -> str:
        if self.colors is Colors.NONE:
            return "breakglass-monochrome"
        kind = "ansi-" if self.colors is Colors.SIXTEEN else ""
        return f"breakglass-{kind}{'light' if self.light else 'dark'}"


def _colors(environ: Mapping[str, str]) -> Colors:
    """As Rich counts them, which writes the colours in the end."""
    if "NO_COLOR" in environ:
        return Colors.NONE
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return Colors.MANY
    ending = environ.get("TERM", "").strip().lower().rpartition("-")[2]
    return Colors.MANY if ending in ("256color", "kitty") else Colors.SIXTEEN


def _names(environ: Mapping[str, str]) -> Iterator[str]:
    """The terminal without its variants, and the one that a multiplexer was built for.

    ``linux-16color``, ``vt220-8bit``; ``screen.linux`` is screen on Linux's own terminal.
    """
    for part in environ.get("TERM", "").split("."):
        yield part.partition("-")[0]


def _locale(environ: Mapping[str, str]) -> str | None:
    """The locale, if it was chosen and cannot write UTF-8.

    Python itself sets LC_CTYPE where it finds LANG=C (PEP 538), so a C.UTF-8 there says nothing
    about the terminal.
    """
    chosen = [environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    if chosen[1] == "C.UTF-8":
        chosen[1] = ""
    locale = next((locale for locale in chosen if locale), "UTF-8")
    return None if "UTF8" in locale.upper().replace("-", "") else locale
