"""Any command of the program under way, and what it says on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.checkpoint.commands import RUN, Running


@contextmanager
def running(state: Path, *words: str) -> Iterator[Running]:
    """`breakglass` with these *words*; it is killed with the block, if not before."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )
    found = Running(process)
    try:
        yield found
    finally:
        found.kill()
