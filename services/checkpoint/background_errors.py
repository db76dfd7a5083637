"""Counts errors of background work, and reports each error once until it changes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum

from breakglass.services.errors import BreakglassError


class Doing(StrEnum):
    """What the background work was doing when an error occurred."""

    COPYING = "copying"
    RETENTION = "retention"
    SCHEDULE = "schedule"
    RELEASE = "release"


class ErrorKind(StrEnum):
    """Whether the error is a known kind, with a sentence of its own."""

    EXPECTED = "expected"
    UNEXPECTED = "unexpected"


Counts = Mapping[tuple[Doing, ErrorKind], int]


class Troubles:
    """The errors so far; for several threads. *keep* writes the details of an unexpected error.

    *keep* returns where it wrote them, and raises OSError if it cannot write.
    """

    def __init__(
        self, say: Callable[[str], None], keep: Callable[[Exception], object] | None = None
    ) -> None:
        self._say, self._keep = say, keep
        self._last: dict[str, str] = {}
        self._counts: Counter[tuple[Doing, ErrorKind]] = Counter()
        self._lock = threading.Lock()

    def met(self, doing: Doing, about: str, error: Exception) -> None:
        """Count the error, and report it unless it equals the last error *about* the same work."""
        expected = isinstance(error, BreakglassError)
        what = str(error) if expected else f"{type(error).__name__}: {error}"
        with self._lock:
            self._counts[doing, ErrorKind.EXPECTED if expected else ErrorKind.UNEXPECTED] += 1
            known = self._last.get(about) == what
            self._last[about] = what
        if not known:
            self._say(f"{about}: {what if expected else self._unexpected(what, error)}")

    def over(self, about: str) -> None:
        """The work *about* this succeeded: report its next error, even if it equals the last."""
        with self._lock:
            self._last.pop(about, None)

    def counts(self) -> Counts:
        """The number of errors so far."""
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
