"""How fast things have to be on a machine that may be busy with brokers, and how slow links are."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.terminal.pty_terminal import KEYS

PROMPT_SECONDS = 1.0
"""How long leaving may take, whatever brokers do, on a machine that has time for it."""
IDLE_START_SECONDS = 0.02
"""How long an interpreter takes to start and end on such a machine."""
STARTS = 3
"""The slowest of which counts: others may be busy only now and then."""
SPLIT_SECONDS = 0.25
"""Longer than Textual waits for the rest of an escape sequence."""
MANY_FRAMES = [KEYS["end"], KEYS["home"]] * 40
FRAME_SECONDS = 0.02
"""A little longer than Textual waits between two frames."""


def promptly() -> float:
    """How long leaving may take on this machine as busy as it is now, in seconds."""
    slower = max(_start_seconds() for _ in range(STARTS)) / IDLE_START_SECONDS
    return PROMPT_SECONDS * max(1.0, slower)


def _start_seconds() -> float:
    begun = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
    return time.monotonic() - begun
