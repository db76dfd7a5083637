"""A partition of 10 GB on the screen: its first records, jumps to any offset, page after page.

As a backup and as a broker's log folder, on a terminal, the console watching a cluster meanwhile.
The files are sparse: indexes are whole, records are where somebody looks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks._console import console
from benchmarks._incident import incident_served
from benchmarks._many import in_memory
from benchmarks._measure import Program, meets, print_load
from benchmarks._options import Options
from benchmarks._sparse import RECORD_BYTES, sparse_backup, sparse_log
from benchmarks._terminal import Terminal
from benchmarks.keys import DOWN, ENTER, PAGE_DOWN

RECORDS = 10_000_000
JUMPS, PAGES = 20, 100
FIRST_SECONDS, JUMP_MILLISECONDS, PAGE_MILLISECONDS, MEGABYTES = 0.3, 50.0, 30.0, 200.0
NEEDED_BYTES = 2 * 10**9
PARTITIONS = 24

Open = Callable[[Terminal], float]
"""Shows the first records; returns the seconds that took."""


def main(options: Options) -> bool:
    """Print the figures of both kinds; returns whether all are within bounds."""
    count = options.records or RECORDS
    rng = random.Random(1)
    places = sorted(rng.randrange(count) for _ in range(options.runs or JUMPS))
    with (
        TemporaryDirectory(prefix="breakglass-bench-", dir=in_memory(NEEDED_BYTES)) as folder,
        incident_served(PARTITIONS) as served,
    ):
        root = Path(folder)
        sparse_backup(root / "backups" / "ledger", count, places)
        sparse_log(root / "logs" / "ledger-0", count, places)
        print(f"a partition of {count * RECORD_BYTES / 1e9:.0f} GB, {count:,} records")
        print_load()
        plain = console(served.address, served.folder)
        command = [*plain.command, "--store", root / "backups"]
        program = Program("breakglass", command, plain.environment)
        log = f"log:{root / 'logs' / 'ledger-0'}"
        found = [
            _measure(program, "a backup", _by_tree, places),
            _measure(program, "a log folder", lambda at: _by_address(at, log), places),
        ]
    return all(found)


def _by_tree(terminal: Terminal) -> float:
    terminal.press(DOWN + ENTER)
    terminal.wait_until(lambda text: "partition 0" in text)
    terminal.settle()
    terminal.press(DOWN)
    terminal.settle()
    return _first_shown(terminal, terminal.press("r"))


def _by_address(terminal: Terminal, address: str) -> float:
    terminal.press("o")
    terminal.wait_until(lambda text: "Open a source" in text)
    terminal.press(address)
    terminal.settle()
    return _first_shown(terminal, terminal.press(ENTER))


def _first_shown(terminal: Terminal, pressed: float) -> float:
    return terminal.wait_until(lambda text: "key-0000000000" in text) - pressed


def _measure(program: Program, what: str, open_it: Open, places: list[int]) -> bool:
    with Terminal(program) as terminal:
        terminal.wait_until(lambda text: "offline" in text)
        terminal.settle(1.0)
        terminal.press("6")
        terminal.wait_until(lambda text: "ledger" in text and "Size" in text)
        terminal.settle()
        first = open_it(terminal)
        terminal.settle()
        spent = [terminal.cpu()]
        pages = [terminal.painted(PAGE_DOWN) * 1000 for _ in range(PAGES)]
        spent.append(terminal.cpu())
        done = [_jump(terminal, place) for place in places]
        jumps = [jump.milliseconds for jump in done]
        peak = terminal.memory().peak
    print(f"  {what}")
    # Processor time is what is left of a figure on a machine with more to do.
    _print("page down", pages, (spent[1] - spent[0]) * 1000 / PAGES)
    _print("jump", jumps, sum(jump.cpu for jump in done) / len(done))
    return all([
        meets("first records on the screen", first, FIRST_SECONDS, " s"),
        meets("page down, p95", quantiles(pages, n=20)[-1], PAGE_MILLISECONDS, " ms"),
        meets("jump to an offset, p95", quantiles(jumps, n=20)[-1], JUMP_MILLISECONDS, " ms"),
        meets("memory at most", peak, MEGABYTES, " MB"),
    ])  # fmt: skip


def _print(what: str, found: list[float], cpu: float) -> None:
    print(
        f"  {what + ', median':<44} {median(found):6.2f} ms   worst {max(found):.1f} ms, "
        f"cpu {cpu:.1f} ms"
    )


class Jump(NamedTuple):
    """What one took, in milliseconds."""

    milliseconds: float
    cpu: float
    """Until nothing is painted any more."""


def _jump(terminal: Terminal, offset: int) -> Jump:
    """From Enter behind an offset to its record on the screen."""
    terminal.press("g")
    terminal.settle()
    terminal.press(str(offset))
    terminal.settle()
    before, pressed = terminal.cpu(), terminal.press(ENTER)
    wanted = f"offset {offset:,},"
    shown = terminal.wait_until(lambda text: wanted in text)
    terminal.settle()
    return Jump((shown - pressed) * 1000, (terminal.cpu() - before) * 1000)
