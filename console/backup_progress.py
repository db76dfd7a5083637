"""How far a backup or a restore is: bars on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from breakglass.console.output import say
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from breakglass.services.backup_watch.job import Announcement
    from breakglass.services.lag import Behind, CaughtUpAgain
    from breakglass.services.pipeline.report import CopyProgress

SECONDS_BETWEEN_LINES = 2.0

Tell = Callable[["CopyProgress"], None]
Heard = Callable[["Behind | CaughtUpAgain"], None]


@contextmanager
def progress(*, as_json: bool, job: tuple[str, str] | None = None) -> Iterator[Tell]:
    """What shows how far a job is: on stdout with *as_json*, otherwise on stderr.

    The console shows a *job*, its kind and the address of its backup, too.
    """
    with lasting(as_json=as_json, job=job) as (tell, _):
        yield tell


@contextmanager
def lasting(*, as_json: bool, job: tuple[str, str] | None = None) -> Iterator[tuple[Tell, Heard]]:
    """The same for a job without an end, and what reports that it lags."""
    with ExitStack() as stack:
        tell: Tell
        if as_json or not sys.stderr.isatty():
            tell = _Lines(sys.stdout if as_json else sys.stderr)
        else:
            tell = _Bar(stack.enter_context(_bars()))
        if job is None:
            yield tell, _say_lag
            return
        from breakglass.services.backup_watch.job import announced
        from breakglass.services.backup_watch.location import full_address

        kind, url = job
        announcement = stack.enter_context(announced(kind, full_address(url)))
        if announcement is None:
            yield tell, _say_lag
        else:
            both = _Both(tell, announcement)
            yield both, both.lag


def _say_lag(change: Behind | CaughtUpAgain) -> None:
    say(f"the backup {'is ' if change.kind == 'behind' else ''}{change}")


class _Both:
    def __init__(self, first: Tell, second: Announcement) -> None:
        self._first, self._second = first, second

    def __call__(self, now: CopyProgress) -> None:
        self._first(now)
        self._second(now)

    def lag(self, change: Behind | CaughtUpAgain) -> None:
        _say_lag(change)
        self._second.lag(change)


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = 0.0

    def __call__(self, now: CopyProgress) -> None:
        if now.done < now.total and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES
        print(json.dumps({"progress": asdict(now)}), file=self._stream, flush=True)


class _Bar:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def __call__(self, now: CopyProgress) -> None:
        if self._task is None:
            self._task = self._bars.add_task("", total=None, rate="", lag="")
        seconds = max(now.seconds, 0.001)
        self._bars.update(
            self._task,
            description=inert(now.topic),
            total=now.total,
            completed=now.done,
            rate=f"{now.bytes / seconds / 1e6:,.0f} MB/s",
            lag=f"{now.total - now.done:,} behind",
        )


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TextColumn("{task.fields[lag]}", markup=False),
        TimeRemainingColumn(),
        console=Console(stderr=True, markup=False, highlight=False, emoji=False),
    )
