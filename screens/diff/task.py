"""One thing that is being read for a screen, in a thread: named, and to be given up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from breakglass.services.divergence.source import Abandoned

if TYPE_CHECKING:
    from textual.message import Message
    from textual.screen import Screen

SOON_SECONDS = 0.15
"""A task that takes longer is told of; most are done before anybody could read of them."""


class Task:
    """Known by its identity: what another task tells is of no interest any more."""

    def __init__(self, screen: Screen[Any], doing: str) -> None:
        self.screen = screen
        """Is told what it finds."""
        self.doing = doing
        """For the screen: ``Searching for the next difference``."""
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._abandoned.set()

    def go_on(self) -> None:
        """Asked by the thread now and then; raises Abandoned."""
        if self._abandoned.is_set():
            raise Abandoned

    def tell(self, message: Message) -> None:
        """From the thread to the screen, if that is still there."""
        self.screen.post_message(message)
