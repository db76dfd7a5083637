"""What native libraries write to file descriptor 2 while the screen is drawn: kept in a file.

Textual draws on the terminal, and so would a library that reports a lost connection there. While
the console draws, the descriptor leads into a file of the state folder; the operator is told of
it at the end if anything came.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

STDERR = 2
FOLDER = "output"


class StrayOutput:
    """File descriptor 2, led aside and back again as often as the screen is left and shown."""

    def __init__(self, state_folder: Path) -> None:
        self._file = state_folder / FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.txt"
        self._aside: int | None = None
        """Where it is led, once opened."""
        self._before: int | None = None
        """What it was, while it is led aside."""

    def begin(self) -> None:
        """Lead it aside."""
        if self._before is not None:
            return
        if self._aside is None:
            self._aside = self._opened()
        self._before = os.dup(STDERR)
        os.dup2(self._aside, STDERR)

    def end(self) -> None:
        """Lead it back."""
        if self._before is None:
            return
        os.dup2(self._before, STDERR)
        os.close(self._before)
        self._before = None

    def close(self) -> str:
        """End for good; returns what to tell the operator, or nothing if nothing came."""
        self.end()
        if self._aside is None:
            return ""
        written = os.fstat(self._aside).st_size
        os.close(self._aside)
        self._aside = None
        if written:
            return f"Libraries wrote {written:,} bytes while the console was open: {self._file}"
        self._file.unlink(missing_ok=True)
        return ""

    def _opened(self) -> int:
        """The file; nowhere, if there can be none."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return os.open(os.devnull, os.O_WRONLY)
