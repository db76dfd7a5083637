"""What every restore of topics has: options, a folder for its progress, bars, an exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, TypeVar

import typer

from breakglass.console.exits import FAILED, StopSignal
from breakglass.console.guarded import GuardedCommand, say_event
from breakglass.console.output import columns, print_table, say
from breakglass.services.errors import OutcomeUnknown
from breakglass.services.guard.act import ActStep, JournalOpened
from breakglass.services.guard.lock import file_name
from breakglass.services.state_folder import state_folder
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from breakglass.console.option_values import Consent
    from breakglass.console.wiring import Connection
    from breakglass.services.guard.act import Act, ActEvent
    from breakglass.services.lag import Behind, CaughtUpAgain
    from breakglass.services.pipeline.backup_context import CopyProgress
    from breakglass.services.pipeline.restore.options import TopicPlan
    from breakglass.services.pipeline.restore.restore import TopicRestored

T = TypeVar("T")

NEVER_THERE = (
    "the backup has no {}: these offsets were lost before it could copy them, or damaged in a "
    "backup that it was salvaged from"
)
NOT_PROVED = (
    "not everything in the backup is proved to be as the topic had it: `backup verify` says what"
)
NO_MANIFEST = "the backup has no manifest, so a byte that changed in its files is not noticed"
UNEXPLAINED = (
    "{:,} offsets are missing for a reason that is not known: if cleanup.policy was compact "
    "between two runs, deletions of keys are among them, and these keys come back"
)
Renamed = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OLD=NEW", help="New name of a topic (repeatable)."),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replication-factor",
        min=1,
        help="Replicas of new topics (default: as the brokers are set).",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted restore.")]
Compared = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Compare every record afterwards.")
]


def default_progress(cluster_id: str) -> Path:
    """The default folder of restore progress, by cluster."""
    return state_folder() / "restores" / file_name(cluster_id)


@contextmanager
def restoring(
    act: Act[T], consent: Consent, connection: Connection, job: tuple[str, str] | None = None
) -> Iterator[GuardedCommand[T]]:
    """A restore under guard that shows its progress, until the end of the block.

    *job*, its kind and the address of its backup, appears on the console, too.
    """
    from breakglass.services.pipeline.acts.restore import CopyProgressed

    with StopSignal(), ExitStack() as stack:
        shown: list[Callable[[CopyProgress], None]] = []

        def hear(event: ActEvent) -> None:
            if isinstance(event, CopyProgressed):
                shown[0](event.progress)
                return
            if isinstance(event, JournalOpened) and not shown:
                shown.append(stack.enter_context(progress(job=job))[0])
            if not isinstance(event, ActStep):
                say_event(event)

        try:
            yield GuardedCommand(act, consent, connection, hear=hear)
        except KeyboardInterrupt:
            if shown:
                say(
                    "Interrupted. The records restored so far are safe; run it again with --resume."
                )
            raise


def exit_code(done: Sequence[TopicRestored]) -> int:
    """0 when every topic is whole, and nothing was missing in its backup."""
    if all(topic.complete for topic in done):
        return 0
    return OutcomeUnknown.exit_code if any(topic.unknown for topic in done) else FAILED


def say_doubts(topic: TopicRestored | TopicPlan, lacking: Sequence[str] = ()) -> None:
    """Say what the backup of *topic* has lost, its *lacking* groups, and what is not proved."""
    doubts = [*(NEVER_THERE.format(lost) for lost in topic.lost), *lacking]
    if topic.salvaged:
        doubts.append(NOT_PROVED)
    if not topic.vouched:
        doubts.append(NO_MANIFEST)
    if topic.unexplained:
        doubts.append(UNEXPLAINED.format(topic.unexplained))
    for doubt in doubts:
        say(f"{topic.target}  {doubt}")


def print_restored(done: Sequence[TopicRestored], *, table: bool) -> None:
    """One line a topic on stdout if *table*; on stderr always what differs or is not there."""
    if table:
        print_table(COLUMNS, map(_row, done))
    for topic in done:
        for gap in topic.gaps:
            say(f"{topic.target}  offsets of {gap} are not restored: the backup is damaged there")
        say_doubts(topic)
        for line in topic.remarks():
            say(line)


def _row(topic: TopicRestored) -> tuple[object, ...]:
    figures = f"{topic.records:,}", f"{topic.bytes:,}", f"{len(topic.groups_set):,}"
    return (topic.target, *figures, "failed" if topic.error else _verdict(topic))


def _verdict(topic: TopicRestored) -> str:
    """No topic is identical to what its backup should hold where the backup was damaged."""
    if topic.before_all:
        return "nothing"
    compared = topic.comparison()
    if topic.verified is False or not (topic.gaps or topic.salvaged or topic.elsewhere):
        return compared
    what = "with gaps" if topic.gaps else "salvaged" if topic.salvaged else "in part"
    return what if topic.verified else f"{what}, {compared}"


COLUMNS = columns("Topic", ">Records", ">Bytes", ">Groups", "Result")


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
