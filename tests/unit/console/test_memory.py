"""A session's memory."""

import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CYCLES = 100_000
MOST_LEFT = 10_000
CYCLES_OF = """
import weakref
from breakglass.console import exits, memory

class Cycle:
    def __init__(self):
        self.itself = self
        alive.add(self)

alive = weakref.WeakSet()
print(memory.give_memory_back())
for prepare in (memory.collect_often, memory.put_off_collecting):
    exits.collect_cycles_seldom()
    prepare()
    if prepare is memory.put_off_collecting:
        memory.resume_collecting()
    most = 0
    for number in range({cycles}):
        Cycle()
        most = max(most, len(alive))
    print(most)
"""


def test_a_program_that_runs_for_days_holds_little_garbage_and_gives_memory_back() -> None:
    script = CYCLES_OF.format(cycles=CYCLES)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    given_back, *most = done.stdout.split()
    # Other C libraries have no such settings.
    assert given_back == "True" or platform.libc_ver()[0] != "glibc"
    assert all(0 < int(count) < MOST_LEFT for count in most)
