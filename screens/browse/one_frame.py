"""Paints what a key did together with the answer to it, if that comes at once."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from textual.screen import Screen

PATIENCE_SECONDS = 0.03
"""A screen that stands still for so long still seems to answer at once."""


class OneFrame:
    """Keeps a screen as it is from `begin` to `end`, or until its patience is over."""

    def __init__(self, screen: Screen[Any]) -> None:
        self._screen = screen
        self._held = ExitStack()

    def begin(self) -> None:
        self.end()
        held = self._held = ExitStack()
        held.enter_context(self._screen.app.batch_update())
        self._screen.set_timer(PATIENCE_SECONDS, held.close)

    def end(self) -> None:
        self._held.close()
