"""A session's memory."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.console.memory import give_memory_back

ROOT = Path(__file__).parents[3]
CYCLES = 200_000
MOST_LEFT = 10_000
CYCLES_OF = """
import weakref
from breakglass.console import exits, memory

class Cycle:
    def __init__(self):
        self.itself = self
        alive.add(self)

alive = weakref.WeakSet()
exits.collect_cycles_seldom()
memory.{prepared}
most = 0
for number in range({cycles}):
    Cycle()
    most = max(most, len(alive))
print(most)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have no such settings"
)
def test_what_is_free_is_given_back() -> None:
    assert give_memory_back() is True


@pytest.mark.parametrize(
    "prepared", ["collect_often()", "put_off_collecting(); memory.resume_collecting()"]
)
def test_a_program_that_runs_for_days_holds_little_garbage(prepared: str) -> None:
    script = CYCLES_OF.format(prepared=prepared, cycles=CYCLES)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert 0 < int(done.stdout) < MOST_LEFT
