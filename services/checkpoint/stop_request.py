"""A request to stop, which background work obeys between two steps."""

from __future__ import annotations

import threading


class WorkStopped(Exception):
    """Work ended between two steps because a stop was requested; another process may resume it."""


class StopRequest:
    """For several threads; once requested, it stays requested."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask all work to end at its next step."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait so long; 0 is a step at which work may end. Raises WorkStopped once requested."""
        if self._event.wait(seconds):
            raise WorkStopped
