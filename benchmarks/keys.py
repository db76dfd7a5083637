"""From a key written to the terminal to the last byte it has painted, and the memory then.

The cluster is watched meanwhile, which reads again what has changed each two seconds. What keys
take while every replica is read again, as after Ctrl+R, is told beside. So is kaskade on the same
cluster: its lines are topics, where the console's are partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import quantiles
from typing import NamedTuple

from benchmarks._incident import LARGEST, Served, incident_served
from benchmarks._measure import JUDGED_SECONDS, Options, console, judged, kaskade, meets, print_load
from benchmarks._terminal import Terminal

PARTITIONS = 100_000
ROUNDS = 6
INTERVAL_SECONDS = 2.0
MILLISECONDS = 30.0
MEGABYTES = 150.0

UP, DOWN, LEFT = "\x1b[A", "\x1b[B", "\x1b[D"
HOME, END, PAGE_UP, PAGE_DOWN = "\x1b[H", "\x1b[F", "\x1b[5~", "\x1b[6~"
ENTER, BACKSPACE, REFRESH = "\r", "\x7f", "\x12"


class Stroke(NamedTuple):
    """A key, under the name of what it does."""

    name: str
    keys: str


STEPS = (*[Stroke("down", DOWN)] * 6, *[Stroke("up", UP)] * 4)
MOVES = (*STEPS, Stroke("end", END), Stroke("home", HOME))
PAGES = (
    *[Stroke("page down", PAGE_DOWN)] * 4,
    *[Stroke("page up", PAGE_UP)] * 2,
    Stroke("end", END),
    Stroke("home", HOME),
)
ROUND = (
    *MOVES,
    Stroke("filter", "/"),
    *[Stroke("filter", letter) for letter in LARGEST],
    Stroke("filter", ENTER),
    Stroke("open a group", ENTER),
    *PAGES,
    *MOVES,
    Stroke("mark", " "),
    Stroke("unmark", "u"),
    Stroke("close a group", LEFT),
    Stroke("filter", "/"),
    Stroke("all again", BACKSPACE),
    Stroke("filter", ENTER),
    Stroke("sort", "s"),
    Stroke("sort back", "S"),
)
"""What an operator does in a large incident; it ends where it began."""


class Painted(NamedTuple):
    """What one stroke took."""

    name: str
    milliseconds: float


def main(options: Options) -> bool:
    """Print all percentiles and our memory; returns whether ours are within bounds."""
    count, rounds = options.partitions or PARTITIONS, options.runs or ROUNDS
    with incident_served(count) as served:
        print(f"keys over {count:,} offline partitions, on generated answers")
        print_load()
        _measure_kaskade(served, rounds)
        program = console(served.address, served.folder, INTERVAL_SECONDS)
        with Terminal(program) as terminal:
            terminal.wait_until(judged(count), JUDGED_SECONDS)
            terminal.settle()
            quiet = _pressed(terminal, ROUND * rounds)
            held = terminal.memory()
            terminal.press(REFRESH)
            busy = _pressed(terminal, MOVES)
            most = terminal.memory()
        _print(f"{program.name}, a refresh each {INTERVAL_SECONDS:g} s", quiet)
        _print(f"{program.name}, every replica is read again", busy)
        print(f"  {'p95 while every replica is read again':<44} {percentile95(busy):6.2f} ms")
        print(f"  {'memory then':<44} {most.peak:6.2f} MB")
        print(f"  {'memory now':<44} {held.now:6.2f} MB")
        quick = meets("p95 from key to last byte", percentile95(quiet), MILLISECONDS, " ms")
        return meets("memory at most", held.peak, MEGABYTES, " MB") and quick


def _measure_kaskade(served: Served, rounds: int) -> None:
    """Nothing but steps of the cursor: the rest has no equal there."""
    with Terminal(kaskade(served.address, None)) as terminal:
        terminal.wait_until(lambda text: LARGEST in text, JUDGED_SECONDS)
        terminal.settle(2.0)
        _print(terminal.program.name, _pressed(terminal, STEPS * rounds))
        memory = terminal.memory()
    print(f"  {'its memory at most':<44} {memory.peak:6.2f} MB")


def _pressed(terminal: Terminal, strokes: Iterable[Stroke]) -> list[Painted]:
    return [Painted(stroke.name, terminal.painted(stroke.keys) * 1000) for stroke in strokes]


def percentile95(painted: Sequence[Painted]) -> float:
    """Milliseconds that one stroke in twenty exceeds."""
    return quantiles([one.milliseconds for one in painted], n=20)[-1]


def _print(title: str, painted: Sequence[Painted]) -> None:
    print(f"  {title}: {len(painted)} keys")
    for line in _table(painted):
        print(f"    {line}")


def _table(painted: Sequence[Painted]) -> Iterator[str]:
    """The worst of each kind of stroke beside its median."""
    for name in dict.fromkeys(one.name for one in painted):
        found = sorted(one.milliseconds for one in painted if one.name == name)
        yield f"{name:<16} median {found[len(found) // 2]:6.1f} ms   worst {found[-1]:6.1f} ms"
