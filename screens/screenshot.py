"""Screenshots for reports: what records hold is left out, and nothing is fetched to show one.

A widget that shows keys, values or headers carries the CSS class `RECORDS` and has a method
``redact(hide: bool)``; it draws lengths instead while *hide* is true.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

from textual.app import App
from textual.widget import Widget

from breakglass.services.errors import StorageError

RECORDS = "-records"
_FROM_ELSEWHERE = re.compile(r"<!--.*?-->|@font-face \{.*?\}", re.DOTALL)
"""What Rich's template adds that names other hosts: its own, and those of fonts."""


class Redactable(Protocol):
    """A widget that shows what records hold."""

    def redact(self, hide: bool) -> None: ...


def hide_records(app: App[Any], hide: bool) -> None:
    """Let every widget of the screen that shows records draw only their lengths, or all again."""
    for widget in app.screen.query(f".{RECORDS}").results(Widget):
        cast("Redactable", widget).redact(hide)


def self_contained(svg: str) -> str:
    """Return *svg*, as an app exports it, without what a browser would fetch from elsewhere.

    Blanks are kept by saying so, which every renderer heeds, in place of no-break spaces.
    """
    own = _FROM_ELSEWHERE.sub("", svg)
    return own.replace("<text ", '<text xml:space="preserve" ').replace("&#160;", " ")


def save_screenshot(svg: str, folder: Path, now: datetime | None = None) -> Path:
    """Write *svg* to a new file that only its owner can read.

    Raises StorageError: it cannot be written.
    """
    moment = now or datetime.now(UTC)
    path = folder / f"{moment:%Y%m%dT%H%M%S.%fZ}.svg"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as out:
            out.write(self_contained(svg))
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): check that folder's rights and space"
        ) from error
    return path
