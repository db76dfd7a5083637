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

    from breakglass.services.lag import Behind, CaughtUpAgain
    from breakglass.services.pipeline.report import CopyProgress

SECONDS_BETWEEN_LINES = 2.0

Tell = Callable[["CopyProgress"], None]
Heard = Callable[["Behind | CaughtUpAgain"], None]


@contextmanager
def progress(
    *, as_json: bool = False, job: tuple[str, str] | None = None
) -> Iterator[tuple[Tell, Heard]]:
    """What shows how far a job is, and what reports that it lags.

    On stdout with *as_json*, otherwise on stderr. The console shows a *job*, its kind and the
    address of its backup, too.
    """
    with ExitStack() as stack:
        tell: Tell
        if as_json or not sys.stderr.isatty():
            tell = _Lines(sys.stdout if as_json else sys.stderr)
        else:
            tell = _Bar(stack.enter_context(_bars()))
        announcement = None
        if job is not None:
            from breakglass.services.backup_watch.job import announced
            from breakglass.services.backup_watch.location import full_address

            kind, url = job
            announcement = stack.enter_context(announced(kind, full_address(url)))

        def show(now: CopyProgress) -> None:
            tell(now)
            if announcement is not None:
                announcement(now)

        def hear(change: Behind | CaughtUpAgain) -> None:
            say(f"the backup {'is ' if change.kind == 'behind' else ''}{change}")
            if announcement is not None:
                announcement.lag(change)

        yield show, hear


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
