"""What refreshing costs: processor time of the console while nothing happens but refreshes.

Beside it stands the same console with refreshes so far apart that none comes in between.
"""

from __future__ import annotations

import time

from benchmarks._incident import Served, incident_served
from benchmarks._measure import (
    JUDGED_SECONDS,
    NEVER_SECONDS,
    Options,
    console,
    judged,
    meets,
    print_load,
)
from benchmarks._terminal import Terminal

PARTITIONS = 2000
SECONDS = 60.0
INTERVAL_SECONDS = 2.0
PERCENT = 5.0
"""Of one processor."""


def main(options: Options) -> bool:
    """Print both shares of a processor; returns whether that of refreshing is within bounds."""
    count = options.partitions or PARTITIONS
    with incident_served(count) as served:
        print(f"{SECONDS:.0f} s of {count:,} offline partitions on a screen, generated answers")
        print_load()
        idle = _percent(served, count, NEVER_SECONDS)
        busy = _percent(served, count, INTERVAL_SECONDS)
    print(f"  {'processor without refreshes':<44} {idle:6.2f} %")
    return meets(f"processor, a refresh each {INTERVAL_SECONDS:g} s", busy, PERCENT, " %")


def _percent(served: Served, count: int, interval: float) -> float:
    """Of a processor, with a refresh each *interval* seconds."""
    with Terminal(console(served.address, served.folder, interval)) as terminal:
        terminal.wait_until(judged(count), JUDGED_SECONDS)
        terminal.settle()
        before, began = terminal.cpu(), time.monotonic()
        terminal.watch(SECONDS)
        return 100 * (terminal.cpu() - before) / (time.monotonic() - began)
