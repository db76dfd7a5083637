"""The screen of backups: looks at places and jobs, asks the cluster for ends; changes nothing.

Places are looked at in threads of their own (services/backup_watch): one that hangs keeps neither
this screen nor the end of the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.backups.columns import columns
from breakglass.screens.backups.facts import document, ends_facts, job_facts, line_facts
from breakglass.screens.context import Context
from breakglass.screens.messages import BrowseAsked, CopyAsked
from breakglass.screens.page import FilteredPage, FilterField
from breakglass.screens.refreshing import in_words
from breakglass.screens.widgets.facts import Fact, Facts
from breakglass.screens.widgets.line_table import LineTable
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services import patience
from breakglass.services.backup_watch.location import NOT_ASKED, LiveEnds
from breakglass.services.backup_watch.watch import (
    BackupPartitionLine,
    BackupStanding,
    BackupSurvey,
    BackupsView,
    Line,
    PlaceLine,
    TopicLine,
    TopicOrder,
    key_of,
    lines,
    survey,
)
from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown
from breakglass.themes.roles import Role


@dataclass(eq=False)
class BackupsSurveyed(Message):
    """What is known of the places of backups has been judged."""

    made: BackupSurvey


@dataclass(eq=False)
class BackupEndsRead(Message):
    """The cluster has answered where backed-up topics end now, or the reason why not."""

    ends: LiveEnds | Unknown


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
        """Open or close what the cursor is on, or in."""
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

    @on(BackupsSurveyed)
    def _surveyed(self, message: BackupsSurveyed) -> None:
        self._surveying = False
        if message.made is not self._survey:
            self._survey = message.made
            self._show(self._view)
        else:
            self._tell()
        self._ask_ends()

    @on(BackupEndsRead)
    def _ends_read(self, message: BackupEndsRead) -> None:
        self._asking = False
        self._ends = self._ends.again(message.ends, self.context.backups.now_ms())
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
            told.append(LinePart(f"filter: {self._view.filter}  ", Role.DIFFERENT))
        if self._view.order is not TopicOrder.URGENCY:
            told.append(LinePart(f"by {self._view.order}", Role.MUTED))
        if told:
            yield Fact("Shown", tuple(told))

    def _look(self) -> None:
        """Look at what is due, in threads."""
        if self._surveying:
            return
        self._surveying = True
        again, self._again = self._again, False
        before, ends = self._survey, self._ends.value
        self.run_worker(
            lambda: self._make(before, ends, again), group="backups", thread=True,
            exit_on_error=False,
        )  # fmt: skip

    def _make(self, before: BackupSurvey, ends: LiveEnds | Unknown, again: bool) -> None:
        """In a thread: thousands of topics are judged in a moment, but not in a frame."""
        made = before
        try:
            standing = self.context.backups.look(now=again)
            if not standing.same_as(before.standing) or ends is not before.ends:
                made = survey(standing, ends)
        finally:
            self.post_message(BackupsSurveyed(made))

    def _ask_ends(self) -> None:
        """Ask the cluster where the topics end, if it is time and nothing forbids it."""
        now, last = self.context.clock(), self._ends_at
        topics = {status.held.topic for place in self._survey.topics for status in place}
        due = last is None or now - last >= ENDS_SECONDS
        if self._asking or not due or not topics or self.context.known.paused:
            return
        self._asking = True
        self.run_worker(
            lambda: self._read_ends(topics), group="ends", thread=True, exit_on_error=False
        )

    def _read_ends(self, topics: set[str]) -> None:
        """In a thread."""
        from breakglass.services.backup_watch.location import read_ends

        ends: LiveEnds | Unknown
        try:
            with self.context.reading() as client:
                ends = read_ends(client, topics, Deadline.after(patience.BRIEF))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            ends = Unknown(in_words(error, "the cluster's answer cannot be read"))
        self.post_message(BackupEndsRead(ends))


def _named(line: Line) -> str:
    match line:
        case PlaceLine():
            return line.place.url
        case TopicLine():
            return line.held.name
        case BackupPartitionLine():
            return f"{line.held.name}-{line.part.partition}"
