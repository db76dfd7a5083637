"""Errors of what runs in the background: each said once until it changes, and all counted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum

from breakglass.services.errors import BreakglassError


class Doing(StrEnum):
    """What an error was met at."""

    COPYING = "copying"
    RETENTION = "retention"
    SCHEDULE = "schedule"


class ErrorKind(StrEnum):
    """Whether there is a sentence for an error."""

    EXPECTED = "expected"
    UNEXPECTED = "unexpected"


Counts = Mapping[tuple[Doing, ErrorKind], int]


class Troubles:
    """What went wrong so far; for several threads. *keep* writes an unexpected one's details.

    *keep* returns where they are. Raises OSError where it cannot.
    """

    def __init__(
        self, say: Callable[[str], None], keep: Callable[[Exception], object] | None = None
    ) -> None:
        self._say, self._keep = say, keep
        self._last: dict[str, str] = {}
        self._counts: Counter[tuple[Doing, ErrorKind]] = Counter()
        self._lock = threading.Lock()

    def met(self, doing: Doing, about: str, error: Exception) -> None:
        """Count it, and say it unless it was the last one *about* the same."""
        expected = isinstance(error, BreakglassError)
        what = str(error) if expected else f"{type(error).__name__}: {error}"
        with self._lock:
            self._counts[doing, ErrorKind.EXPECTED if expected else ErrorKind.UNEXPECTED] += 1
            known = self._last.get(about) == what
            self._last[about] = what
        if not known:
            self._say(f"{about}: {what if expected else self._unexpected(what, error)}")

    def over(self, about: str) -> None:
        """It went well again: the next error is said, whichever it is."""
        with self._lock:
            self._last.pop(about, None)

    def counts(self) -> Counts:
        """How often so far."""
        with self._lock:
            return {
                (doing, kind): self._counts[doing, kind] for doing in Doing for kind in ErrorKind
            }

    def _unexpected(self, what: str, error: Exception) -> str:
        place = ""
        if self._keep is not None:
            with suppress(OSError):
                place = f" with {self._keep(error)}"
        return f"failed unexpectedly ({what}); please report it{place}"
