"""The backups: what is backed up, how far each lags, what runs, what was verified.

It looks at places and jobs, asks the cluster for ends, and changes nothing. Places are looked at in
threads of their own (services/backup_watch): one that hangs keeps neither this screen nor the end
of the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.context import Context
from breakglass.screens.messages import BrowseAsked, CopyAsked
from breakglass.screens.page import FilteredPage, FilterField
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.facts import NO_AGE, Fact, Facts, fact
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services import patience
from breakglass.services.backup_watch.job import Job, Life, SeenJob
from breakglass.services.backup_watch.location import NOT_ASKED, BackupState, LiveEnds, read_ends
from breakglass.services.backup_watch.watch import (
    BackupPartitionLine,
    BackupStanding,
    BackupSurvey,
    BackupsView,
    Lag,
    Line,
    PlaceLine,
    TopicLine,
    TopicOrder,
    WatchedLocation,
    key_of,
    lines,
    survey,
)
from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown, known
from breakglass.services.topic_backup.catalog import PartitionStatus, TopicStatus
from breakglass.services.topic_backup.folder_contents import FoundFiles
from breakglass.services.topic_backup.notes import Verified
from breakglass.services.topic_backup.summary import added
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import moment_text, time_text
from breakglass.themes.roles import Role, Words

ROLES = {
    BackupState.UNREADABLE: Role.UNKNOWN,
    BackupState.DAMAGED: Role.FAILED,
    BackupState.LOST: Role.LOST,
    BackupState.RUNNING: Role.RUNNING,
    BackupState.BARE: Role.MUTED,
    BackupState.UNVERIFIED: Role.WAITING,
    BackupState.VERIFIED: Role.VERIFIED,
}
LONGEST_NAME = 80
EMPTY = Words("")


def columns(now_ms: int) -> tuple[LineColumn[Line], ...]:
    """The columns at that moment."""

    def age(line: Line) -> Words:
        match line:
            case PlaceLine():
                value = line.place.held.value
                at = value.newest_ms if known(value) else None
            case TopicLine():
                at = line.held.status.committed_at_ms if line.held.status else None
            case BackupPartitionLine():
                return EMPTY
        return Words("-") if at is None else Words(age_text(max(now_ms - at, 0) / 1000))

    def verified(line: Line) -> Words:
        status = line.held.status if isinstance(line, TopicLine) else None
        if status is None:
            return EMPTY
        last = status.verified
        return Words("never" if last is None else f"{moment_text(last.at_ms, now_ms)} {last.how}")

    return (
        LineColumn("Backup", _name, most=LONGEST_NAME, shrinks=True),
        LineColumn("State", _state),
        LineColumn("Lag", _line_lag, right=True),
        LineColumn("Age", age, right=True),
        LineColumn("Size", _size, right=True),
        LineColumn(
            "First", lambda line: _of_part(line, "first_offset"), right=True, least_width=100
        ),
        LineColumn("Last", lambda line: _of_part(line, "last_offset"), right=True, least_width=100),
        LineColumn("Records", lambda line: _counts(line, "records"), right=True, least_width=110),
        LineColumn("Segments", lambda line: _counts(line, "segments"), right=True, least_width=76),
        LineColumn("Lost", _lost, right=True),
        LineColumn("Verified", verified, least_width=120),
    )


def _name(line: Line) -> Words:
    match line:
        case PlaceLine():
            return Words(("▸" if line.closed else "▾") + line.place.url, Role.HEADING)
        case TopicLine():
            sign = " " if not line.held.partitions else "▾" if line.opened else "▸"
            return Words(f" {sign}{line.held.name}")
        case BackupPartitionLine():
            return Words(f"    {line.held.name}-{line.part.partition}")


def _state(line: Line) -> Words:
    match line:
        case PlaceLine():
            held = line.place.held
            if held.failed is not None:
                return Words("STALE", Role.STALE)
            if not known(held.value):
                return Words("?", Role.UNKNOWN)
            if line.jobs:
                return Words("running", Role.RUNNING)
            number = len(line.place.topics)
            return Words(f"{number:,} topic{'s' * (number != 1)}", Role.MUTED)
        case TopicLine():
            return Words(line.state, ROLES[line.state])
        case BackupPartitionLine():
            return Words("lost", Role.LOST) if line.part.lost else EMPTY


def _line_lag(line: Line) -> Words:
    if isinstance(line, PlaceLine):
        return EMPTY
    return Words(count(line.lag), Role.UNKNOWN if isinstance(line.lag, Unknown) else None)


def _size(line: Line) -> Words:
    match line:
        case PlaceLine():
            topics = line.place.topics
            return Words(size_text(sum(topic.bytes for topic in topics))) if topics else Words("-")
        case TopicLine():
            return Words(size_text(line.held.bytes)) if _counted(line) else Words("?", Role.UNKNOWN)
        case BackupPartitionLine():
            return Words(size_text(line.part.bytes))


def _counted(line: TopicLine) -> bool:
    """Whether there is a manifest that counts what is there."""
    return line.held.status is not None and line.held.status.commit is not None


def _of_part(line: Line, what: str) -> str:
    return count(getattr(line.part, what)) if isinstance(line, BackupPartitionLine) else ""


def _lost(line: Line) -> Words:
    cell = _counts(line, "lost")
    return Words(cell.text, Role.LOST) if cell.text not in ("", "0", "?") else cell


def _counts(line: Line, what: str) -> Words:
    match line:
        case PlaceLine():
            return EMPTY
        case TopicLine() if not _counted(line):
            return Words("?", Role.UNKNOWN)
        case TopicLine():
            return Words(count(getattr(line.held, what)))
        case BackupPartitionLine():
            return Words(count(getattr(line.part, what)))


COPIED = (
    *("partition", "first_offset", "last_offset", "next_offset", "records", "bytes", "segments"),
    *("damage", "gaps", "lost", "lost_offsets", "unproved"),
)
"""What is copied of a partition, by its own names."""
SLOW_MS = 10_000
"""Milliseconds after which a look at a store is called slow."""
STALE_MS = 60_000
SHOWN_JOBS = 3
NEXT = {
    BackupState.UNREADABLE: "",
    BackupState.DAMAGED: "`breakglass backup verify` names the damage; back up into another folder",
    BackupState.LOST: "records were deleted before they were copied: see its gaps",
    BackupState.RUNNING: "",
    BackupState.BARE: "`breakglass backup verify` reads every record",
    BackupState.UNVERIFIED: "`breakglass backup verify` proves that it can be restored",
    BackupState.VERIFIED: "",
}


def job_facts(jobs: Sequence[SeenJob], now_ms: int) -> Iterator[Fact]:
    """A sentence for each job that runs, or that died."""
    for job in jobs[:SHOWN_JOBS]:
        age = max(now_ms - job.job.told_at_ms, 0)
        yield fact(job.job.kind.capitalize(), *_job(job, age), age=_told(job, age))
    if len(jobs) > SHOWN_JOBS:
        yield fact("", Words(f"and {len(jobs) - SHOWN_JOBS:,} more jobs", Role.MUTED))


def _job(seen: SeenJob, age_ms: int) -> Iterator[Words]:
    job = seen.job
    if seen.life is Life.DEAD:
        yield Words("DEAD", Role.FAILED)
        yield Words(f": process {job.pid} died at {_share(job)}  {job.url}")
        yield Words("  Run it again: it keeps what was committed.")
        return
    if seen.life is Life.SILENT:
        yield Words(f"SILENT for {age_text(age_ms / 1000)}", Role.STALE)
        yield Words(": ")
    yield Words(_so_far(job), None if seen.life is Life.SILENT else Role.RUNNING)
    yield Words(f"  {job.url}  process {job.pid}", Role.MUTED)


def _so_far(job: Job) -> str:
    """``orders, 60% of 2,000,000 offsets, 110 MB/s, 12 s left``."""
    if not job.total:
        return "starting" if not job.topic else f"{job.topic}, nothing to copy"
    told = [job.topic, _share(job), f"{size_text(int(job.bytes_a_second))}/s"]
    left = (
        None
        if not job.done or job.seconds <= 0
        else (job.total - job.done) * job.seconds / job.done
    )
    if left is not None:
        told.append(f"{age_text(left)} left")
    return ", ".join(filter(None, told))


def _share(job: Job) -> str:
    return f"{100 * job.done // max(job.total, 1)}% of {job.total:,} offsets"


def _told(seen: SeenJob, age_ms: int) -> Words:
    if seen.life is Life.RUNNING:
        return Words(f"{age_text(age_ms / 1000)} ago", Role.MUTED)
    return Words(age_text(age_ms / 1000), Role.STALE)


def ends_facts(ends: Figure[LiveEnds], now_ms: int) -> Iterator[Fact]:
    """Why lags are old, where they are; unknown ones have their reason with their line."""
    if ends.failed is not None:
        told = Words(f"since then: {ends.failed.reason}", Role.STALE)
        yield fact("Lag", told, age=age_part(ends, now_ms))


def line_facts(line: Line | None, now_ms: int) -> Iterator[Fact]:
    """The sentences about *line*."""
    match line:
        case PlaceLine():
            yield _place(line.place, now_ms)
        case TopicLine():
            yield from _topic(line)
        case BackupPartitionLine():
            yield from _partition(line)


def _place(place: WatchedLocation, now_ms: int) -> Fact:
    held = place.held
    parts: list[Words] = [Words(place.url)]
    if isinstance(held.value, Unknown):
        parts.append(Words(f"  ? {held.value.reason}", Role.UNKNOWN))
    if held.failed is not None:
        parts.append(Words(f"  since then: {held.failed.reason}", Role.STALE))
    waiting = 0 if place.reading_since_ms is None else now_ms - place.reading_since_ms
    if waiting > SLOW_MS:
        parts.append(Words(f"  it has not answered for {age_text(waiting / 1000)}", Role.STALE))
    return fact("Place", *parts, age=age_part(held, now_ms))


def age_part(held: Figure[Any], now_ms: int) -> Words:
    """How old *held* is; what is too old, or could not be read since, is called so."""
    if not held.read_at_ms:
        return NO_AGE
    age = age_text(held.age_ms(now_ms) / 1000)
    if held.failed is not None or held.age_ms(now_ms) > STALE_MS:
        return Words(f"STALE {age}", Role.STALE)
    return Words(f"{age} ago", Role.MUTED)


def _topic(line: TopicLine) -> Iterator[Fact]:
    status = line.held.status
    if status is None:
        yield fact("Topic", Words(f"? {line.held.unread}", Role.UNKNOWN))
        return
    yield fact("Topic", *_holdings(line, status))
    yield fact("Verified", *_verified(status))
    for lack in status.groups_lacking:
        yield fact("Groups", Words(lack, Role.LOST))
    gaps = added(*(partition.gaps for partition in line.held.partitions))
    if gaps:
        yield fact("Gaps", _gaps(gaps))
    yield from _unknown_lag(line.lag)
    if NEXT[line.state]:
        yield fact("Next", Words(NEXT[line.state], ROLES[line.state]))


def _holdings(line: TopicLine, status: TopicStatus) -> Iterator[Words]:
    if status.commit is None:
        yield Words(f"{status.folder}: made by Kafka Backup, which writes no manifest")
        if status.found is not None:
            yield Words(f"; {_found(status.found)}")
        return
    held = line.held
    number = len(held.partitions)
    later = "" if held.newest else ", a later generation exists"
    yield Words(
        f"generation {held.generation}{later}, commit {status.commit}, {number:,} partition"
        f"{'s' * (number != 1)}, {held.records:,} records, {size_text(held.bytes)} in "
        f"{held.segments:,} segments, {status.group_states:,} group states"
    )


def _found(files: FoundFiles) -> str:
    """What the files say without a manifest: ``3 partitions, ? records, 12 MB in 5 segments``."""
    figures = [part.records for part in files.partitions]
    known = [figure for figure in figures if not isinstance(figure, Unknown)]
    records = f"{sum(known):,}" if len(known) == len(figures) else "?"
    number = len(figures)
    size = size_text(sum(part.bytes for part in files.partitions))
    segments = sum(part.segments for part in files.partitions)
    return (
        f"{number:,} partition{'s' * (number != 1)}, {records} records, {size} in {segments:,} "
        f"segment{'s' * (segments != 1)}"
    )


def _verified(status: TopicStatus) -> Iterator[Words]:
    last = status.verified
    if last is None:
        yield Words("never", Role.WAITING)
        return
    yield Words(last.verdict, Role.VERIFIED if last.whole else Role.FAILED)
    yield Words(f" at {time_text(last.at_ms)}, by {_how(last)}")
    if last.commit != status.commit:
        yield Words(
            f"; commit {last.commit}; the backup is now at commit {status.commit}", Role.WAITING
        )


def _how(last: Verified) -> str:
    if last.how != "content":
        return "hashes of its files"
    return f"every record against {last.against}"


def _partition(line: BackupPartitionLine) -> Iterator[Fact]:
    part = line.part
    yield fact(
        "Partition",
        f"offsets {count(part.first_offset)} to {count(part.last_offset)}, backed up "
        f"before {count(part.next_offset)}, {part.records:,} records, "
        f"{size_text(part.bytes)} in {part.segments:,} segments",
    )
    if part.damage:
        yield fact("Damage", Words("; ".join(part.damage), Role.DIVERGED))
    yield fact("Gaps", _gaps(part.gaps) or "none")
    if part.lost_offsets:
        yield fact("Lost", Words(", ".join(part.lost_offsets), Role.LOST))
    if part.unproved:
        yield fact("Not proved", Words("; ".join(part.unproved), Role.DIVERGED))
    yield from _unknown_lag(line.lag)


def _unknown_lag(lag: Lag) -> Iterator[Fact]:
    if isinstance(lag, Unknown):
        yield fact("Lag", Words(f"? {lag.reason}", Role.UNKNOWN))


def _gaps(gaps: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {reason}" for reason, number in sorted(gaps.items()))


def document(line: Line) -> dict[str, Any]:
    """Everything that is known of *line*; what is not is null with its reason beside it."""
    match line:
        case PlaceLine():
            held = line.place.held.value
            if isinstance(held, Unknown):
                return {"url": line.place.url, "unread": held.reason}
            topics = [topic.name for topic in held.topics]
            return {"url": line.place.url, "newest_ms": held.newest_ms, "topics": topics}
        case TopicLine():
            status = line.held.status
            if status is None:
                return {"topic": line.held.name, "state": line.state, "unread": line.held.unread}
            last = status.verified
            return {
                "topic": line.held.topic,
                "generation": line.held.generation,
                "folder": status.folder,
                "state": line.state,
                "commit": status.commit,
                "committed_at_ms": status.committed_at_ms,
                "verified_at_ms": last.at_ms if last else None,
                "verified_how": last.how if last else None,
                "verified_against": last.against if last else None,
                "verified_now": status.verified_now,
                **_lag(line.lag),
                "partitions": [_copied_partition(partition) for partition in line.held.partitions],
            }
        case BackupPartitionLine():
            return {"topic": line.held.name, **_copied_partition(line.part), **_lag(line.lag)}


def _copied_partition(part: PartitionStatus) -> dict[str, Any]:
    listed = {name: list(getattr(part, name)) for name in ("damage", "lost_offsets", "unproved")}
    return {name: listed.get(name, getattr(part, name)) for name in COPIED}


def _lag(lag: Lag) -> dict[str, Any]:
    return {"lag": None, "lag_unknown": lag.reason} if isinstance(lag, Unknown) else {"lag": lag}


ENDS_SECONDS = 10.0
"""Between two questions for the live ends."""
NO_PLACES = (
    'No place of backups is named: start with --store URL, or put backups = ["URL"] into the '
    "profile or console.toml."
)


class BackupsScreen(FilteredPage):
    """Places, topics, partitions; what is known of the one under the cursor; running jobs."""

    TITLE = "Backups"
    ABOUT = (
        "Topic backups by store, the worst first: how far each lags behind its topic, and when it "
        "was verified. Below: the backups and restores that run on this machine. Lag is counted "
        "to the last stable offset. This screen changes nothing. Filter by words in store, topic "
        "or state."
    )
    DEFAULT_CSS = """
    BackupsScreen #backups { height: 1fr; }
    BackupsScreen #about { border-top: solid $border-blurred; max-height: 50%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/", tooltip="Filter by words"),
        Binding("s", "sort(1)", "sort", tooltip="Sort topics by the next figure"),
        Binding("S", "sort(-1)", "Sort back", show=False, tooltip="Sort by the previous figure"),
        Binding("right", "open(True)", "Open", show=False),
        Binding("left", "open(False)", "Close", show=False),
        Binding("y", "copy", "copy", tooltip="Copy this line as JSON"),
        Binding("escape", "back", "Clear filter", show=False),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._survey = BackupSurvey(BackupStanding(), ())
        self._view = BackupsView()
        self._ends: Figure[LiveEnds] = Figure(NOT_ASKED, 0)
        self._ends_at: float | None = None
        self._asking = self._surveying = False
        self._again = False
        """Every place is to be looked at again now."""

    def body(self) -> Iterator[Widget]:
        yield Facts(id="jobs")
        yield FilterField("words in store, topic or state; -word excludes")
        yield LineTable[Line](columns(0), key_of, id="backups", empty=NO_PLACES)
        yield Facts(id="about")

    def on_mount(self) -> None:
        self._table.focus()

    def show_known(self) -> None:
        self._look()

    def tick(self) -> None:
        self._look()

    def action_ask_refresh(self) -> None:
        self._again, self._ends_at = True, None
        self._look()
        super().action_ask_refresh()

    # How it is looked at.

    @on(Input.Changed, "#filter")
    def _filter_written(self, message: Input.Changed) -> None:
        self._show(replace(self._view, filter=message.value))

    def action_sort(self, by: int) -> None:
        orders = list(TopicOrder)
        place = orders.index(self._view.order) + by
        self._show(replace(self._view, order=orders[place % len(orders)]))

    def action_open(self, opened: bool) -> None:
        line = self._table.current
        match line:
            case PlaceLine():
                closed = self._view.closed - {line.place.url}
                self._show(
                    replace(self._view, closed=closed if opened else closed | {line.place.url})
                )
            case TopicLine() | BackupPartitionLine():
                key = (line.url, line.held.name)
                others = self._view.opened - {key}
                self._show(replace(self._view, opened=others | {key} if opened else others))
                if not self._table.move_to(key_of(line)):
                    self._table.move_to((*key, -1))

    @on(LineTable.Chosen, "#backups")
    def _chosen(self, message: LineTable.Chosen) -> None:
        line: Line = message.row
        match line:
            case PlaceLine():
                self.action_open(line.closed)
            case TopicLine():
                self.action_open(not line.opened)
            case BackupPartitionLine():
                address = SourceAddress(
                    SourceKind.BACKUP, line.url, line.held.name, line.part.partition
                )
                self.app.post_message(BrowseAsked(address))

    @on(LineTable.Moved, "#backups")
    def _moved(self) -> None:
        self._tell()

    def action_copy(self) -> None:
        line = self._table.current
        if line is not None:
            told = json.dumps(document(line), indent=1)
            self.app.post_message(CopyAsked(told, f"the facts about {_named(line)}"))

    # What is known.

    def _surveyed(self, made: BackupSurvey) -> None:
        self._surveying = False
        if made is not self._survey:
            self._survey = made
            self._show(self._view)
        else:
            self._tell()
        now, last = self.context.clock(), self._ends_at
        topics = {status.held.topic for place in self._survey.topics for status in place}
        due = last is None or now - last >= ENDS_SECONDS
        if self._asking or not due or not topics or self.context.known.paused:
            return
        self._asking = True
        in_thread(self, "ends", partial(self._read_ends, topics), self._ends_read)

    def _ends_read(self, ends: LiveEnds | Unknown) -> None:
        self._asking = False
        self._ends = self._ends.again(ends, self.context.backups.now_ms())
        self._ends_at = self.context.clock()
        self._look()

    @property
    def listed(self) -> Widget:
        return self._table

    @property
    def _table(self) -> LineTable[Line]:
        return self.query_one("#backups", LineTable)

    def _show(self, view: BackupsView) -> None:
        self._view = view
        self._table.set_columns(columns(self.context.backups.now_ms()))
        self._table.set_rows(lines(self._survey, view))
        self._tell()

    def _tell(self) -> None:
        now = self.context.backups.now_ms()
        jobs = job_facts(self._survey.standing.jobs, now)
        above = (*jobs, *ends_facts(self._ends, now), *self._looking())
        self.query_one("#jobs", Facts).facts = above
        self.query_one("#about", Facts).facts = tuple(line_facts(self._table.current, now))

    def _looking(self) -> Iterator[Fact]:
        """How the list is looked at, where that is not as it was."""
        told = []
        if self._view.filter:
            told.append(Words(f"filter: {self._view.filter}  ", Role.DIFFERENT))
        if self._view.order is not TopicOrder.URGENCY:
            told.append(Words(f"by {self._view.order}", Role.MUTED))
        if told:
            yield fact("Shown", *told)

    def _look(self) -> None:
        if self._surveying:
            return
        self._surveying = True
        again, self._again = self._again, False
        make = partial(self._make, self._survey, self._ends.value, again)
        in_thread(self, "backups", make, self._surveyed)

    def _make(self, before: BackupSurvey, ends: LiveEnds | Unknown, again: bool) -> BackupSurvey:
        """In a thread: thousands of topics are judged in a moment, but not in a frame."""
        standing = self.context.backups.look(now=again)
        if standing.same_as(before.standing) and ends is before.ends:
            return before
        return survey(standing, ends)

    def _read_ends(self, topics: set[str]) -> LiveEnds | Unknown:
        """In a thread."""

        def read() -> LiveEnds:
            with self.context.reading() as client:
                return read_ends(client, topics, Deadline.after(patience.BRIEF))

        return found_or_why(read, "the cluster's answer cannot be read")


def _named(line: Line) -> str:
    match line:
        case PlaceLine():
            return line.place.url
        case TopicLine():
            return line.held.name
        case BackupPartitionLine():
            return f"{line.held.name}-{line.part.partition}"
