"""The screen of the journal: reads files; asks the cluster only what became of unknown steps.

One partition's part of a journal, step by step: over the journal, until Esc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from typing_extensions import override

from breakglass.screens.context import Context
from breakglass.screens.journal.accounting import made_ledger, saved_ledger, saved_text
from breakglass.screens.journal.ledger import LedgerScreen
from breakglass.screens.journal.messages import (
    JournalChecked,
    JournalRead,
    JournalsListed,
    LedgerMade,
    TimelineSaved,
)
from breakglass.screens.journal.rows import (
    Journal,
    ending_columns,
    journal_columns,
    journal_facts,
    key_of,
    ordered_endings,
    path_of,
    role_of,
)
from breakglass.screens.messages import CopyAsked, ResumeAsked
from breakglass.screens.page import Page
from breakglass.screens.widgets.facts import Facts
from breakglass.screens.widgets.line_table import LineTable
from breakglass.screens.widgets.overlay import Overlay
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.journal_view import JournalStep
from breakglass.services.incident.election_words import sightings
from breakglass.services.incident.observations import Observations, clusters_observed
from breakglass.services.recovery.judgement.starting import do_not_start
from breakglass.services.recovery.timeline.account import Account, Brief
from breakglass.services.recovery.timeline.ending import PartitionEnding, result_of
from breakglass.services.recovery.timeline.shelf import Shelf, account_of
from breakglass.services.recovery.timeline.text import timeline_text
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.services.recovery.guarded.check_again import StepAnswer
    from breakglass.services.recovery.ledger.page import LedgerPage


STORY_LENGTH = 500
SAID = ("order", "assignment", "designee", "leader_epoch", "log_end", "from", "to")
"""What of a request is worth reading; the rest is for a resume."""


class StoryScreen(Overlay):
    """What was sent for a partition, when, and what became of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "Close")]

    def __init__(self, account: Account, ending: PartitionEnding) -> None:
        super().__init__()
        self._account, self._ending = account, ending

    def content(self) -> RenderableType:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for label, part in self._lines():
            style = role_style(self.app, part.role) if part.role else ""
            heading = Text(label, role_style(self.app, Role.HEADING))
            table.add_row(heading, Text(bounded(part.text, STORY_LENGTH), style))
        return table

    def _lines(self) -> Iterator[tuple[str, LinePart]]:
        ending = self._ending
        yield "Partition", LinePart(str(ending.partition))
        epoch = "" if ending.leader_epoch is None else f", epoch {ending.leader_epoch}"
        led = "" if ending.leader is None else f", b{ending.leader}{epoch}"
        rung = f", {ending.rung}" if ending.rung else ""
        yield "Result", LinePart(f"{ending.result}{led}{rung}", role_of(ending))
        if ending.price:
            yield "Loses", LinePart(ending.agreed)
        for broker in ending.abandons:
            yield f"b{broker}", LinePart(do_not_start(broker), Role.UNKNOWN)
        for saved in ending.rescued:
            where = f"{count(saved.records)} records of b{saved.broker} in {saved.path}"
            yield "Rescued", LinePart(where)
        if ending.order_kept:
            yield "Order", LinePart("its assignment was not put back", Role.FAILED)
        for step in self._account.view.steps_of(ending.partition):
            yield "", LinePart("")
            yield from _step(step, ending)
        yield "", LinePart("")
        yield "", LinePart("Esc closes", Role.MUTED)


def _step(step: JournalStep, ending: PartitionEnding) -> Iterator[tuple[str, LinePart]]:
    outcome = result_of(step, ending.partition)
    yield time_text(step.request.at_ms), LinePart(step.name, Role.HEADING)
    asked = _said(step.items[ending.partition], SAID)
    if asked:
        yield "asked", LinePart(asked)
    yield "became", LinePart(outcome.result)
    told = {name: detail for name, detail in outcome.details.items() if detail and name != "saved"}
    for name, value in told.items():
        yield name, LinePart(_text(value))


def _said(item: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_text(item[name])}" for name in names if name in item
    )


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value[:64]))
    return str(value)


NONE_YET = "Nothing was changed from here: this cluster has no journal."
SHOWN_ANSWERS = 3
LENGTH = 300
NOTICE_SECONDS = 15.0


class JournalScreen(Page):
    """Journals above, the one under the cursor below."""

    TITLE = "Journal"
    ABOUT = (
        "What was done from this machine, by whom, and how it ended for each partition. u asks "
        "the cluster about unknown outcomes and changes nothing. Times are UTC."
    )
    CSS = """
    #journals { height: 2fr; min-height: 4; }
    #endings { height: 3fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next list", show=False),
        Binding("u", "check", "Check unknown", tooltip="Ask the cluster about unknown outcomes"),
        Binding(
            "r", "resume", "Resume", tooltip="Resume the journal: finish what is left, or undo"
        ),
        Binding("l", "ledger", "Ledger", tooltip="Account for every record of the incident"),
        Binding("c", "copy", "Copy timeline", tooltip="Send its timeline to the clipboard"),
        Binding("w", "save", "Write timeline", tooltip="Write its timeline to a file"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._shelf = Shelf(context.state_folder)
        self._account: Account | None = None
        """Of the journal that is shown; None while it is read."""
        self._opened: Brief | None = None
        """What the journal was like when its account was asked for."""
        self._listing = self._opening = self._accounting = False
        self._checking: Path | None = None

    def body(self) -> Iterator[Widget]:
        yield LineTable[Journal](
            journal_columns(), key_of, id="journals", lone=False, empty="Reading the journals."
        )
        yield Facts()
        yield LineTable[PartitionEnding](
            ending_columns(), lambda ending: ending.partition, id="endings", lone=False
        )

    @property
    def journals(self) -> LineTable[Journal]:
        return self.query_one("#journals", LineTable)

    @property
    def brief(self) -> Brief | None:
        current = self.journals.current
        return current if isinstance(current, Brief) else None

    def show_known(self) -> None:
        self._list()

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys tell what can be done with the journal under the cursor."""
        brief = self.brief if self.is_mounted else None
        match action:
            case "check":
                possible = brief is not None and brief.checkable and self._checking is None
            case "resume":
                possible = brief is not None and brief.resumable
            case "ledger":
                ready = self._account is not None and not self._accounting
                possible = brief is not None and brief.planned and ready
            case "copy" | "save":
                possible = brief is not None and self._account is not None
            case _:
                return True
        return True if possible else None

    def action_check(self) -> None:
        brief = self.brief
        if brief is not None:
            self._checking = brief.path
            self._show_facts()
            self._in_thread("check", lambda: self._check(brief.path))

    def action_resume(self) -> None:
        brief = self.brief
        if not self.context.armed:
            self.notify(
                "This session is read-only: start it again with --write to resume.",
                severity="warning",
                markup=False,
            )
        elif brief is not None:
            self.app.post_message(ResumeAsked(brief.path, brief.owes > 0))

    def action_ledger(self) -> None:
        account = self._account
        if account is not None:
            self._accounting = True
            path = account.brief.path
            self._in_thread("ledger", lambda: self.post_message(made_ledger(self.context, path)))
            self.refresh_bindings()

    def action_copy(self) -> None:
        account = self._account
        if account is not None:
            what = f"the timeline of a {account.brief.what}"
            self._in_thread(
                "timeline", lambda: self.app.post_message(CopyAsked(timeline_text([account]), what))
            )

    def action_save(self) -> None:
        account = self._account
        if account is not None:
            name = account.brief.name
            self._in_thread(
                "timeline",
                lambda: self.post_message(
                    saved_text(self.context, timeline_text([account]), name, "timelines")
                ),
            )

    @on(LineTable.Moved, "#journals")
    def _moved(self) -> None:
        self._show_facts()
        self._open()

    @on(LineTable.Chosen, "#journals")
    def _chosen(self) -> None:
        self.query_one("#endings").focus()

    @on(LineTable.Chosen, "#endings")
    def _chosen_partition(self, message: LineTable.Chosen) -> None:
        if self._account is not None:
            self.app.push_screen(StoryScreen(self._account, message.row))

    @on(JournalsListed)
    def _listed(self, message: JournalsListed) -> None:
        self._listing = False
        self.journals.set_empty(message.trouble or NONE_YET)
        self.journals.set_rows(message.journals)
        self._show_facts()
        self._open()

    @on(JournalRead)
    def _read(self, message: JournalRead) -> None:
        """Show the partitions, unless the cursor is elsewhere by now."""
        self._opening = False
        if self.brief is not None and self.brief.path == message.brief.path:
            self._account = message.account
            self._endings.set_empty(message.trouble)
            self._endings.set_rows(message.endings)
            self.refresh_bindings()
        self._open()

    @on(JournalChecked)
    def _checked(self, message: JournalChecked) -> None:
        self._checking = None
        wanting = message.trouble or message.unsettled
        self.notify(
            message.told,
            severity="warning" if wanting else "information",
            markup=False,
            timeout=NOTICE_SECONDS,
        )
        self._list()

    @on(LedgerMade)
    def _ledger_made(self, message: LedgerMade) -> None:
        self._accounting = False
        page = message.page
        if page is None:
            self.notify(message.trouble, severity="error", markup=False)
        elif self.app.screen is self:
            self.app.push_screen(LedgerScreen(page, lambda: self._save_ledger(page, message.name)))
        self.refresh_bindings()

    def _save_ledger(self, page: LedgerPage, name: str) -> None:
        self._in_thread(
            "timeline", lambda: self.post_message(saved_ledger(self.context, page, name))
        )

    @on(TimelineSaved)
    def _saved(self, message: TimelineSaved) -> None:
        if message.trouble:
            self.notify(message.trouble, severity="error", markup=False)
        else:
            self.notify(f"Written, readable by you alone: {message.path}", markup=False)

    @property
    def _endings(self) -> LineTable[PartitionEnding]:
        return self.query_one("#endings", LineTable)

    def _show_facts(self) -> None:
        current = self.journals.current
        asking = self._checking is not None and path_of(current) == self._checking
        self.query_one(Facts).facts = journal_facts(current, asking, self.context.armed)
        self.refresh_bindings()

    def _list(self) -> None:
        """Look for journals; files that are the same as before are not read again."""
        if not self._listing:
            self._listing = True
            incident = self.context.known.incident
            cluster = incident.snapshot.cluster_id if incident is not None else None
            self._in_thread("journals", lambda: self._look(cluster))

    def _look(self, cluster: str | None) -> None:
        """In a thread. Before the cluster is known, the journals of all clusters are shown."""
        try:
            folder = self.context.state_folder
            every = {*self._shelf.clusters(), *clusters_observed(folder)}
            clusters = sorted(every) if cluster is None else [cluster]
            observed = [
                observation for id_ in clusters for observation in Observations(id_, folder).load()
            ]
            journals = self._shelf.briefs(clusters)
            self.post_message(JournalsListed((*sightings(observed), *journals)))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            told = f"The journals cannot be listed ({type(error).__name__}: {error})."
            self.post_message(JournalsListed((), told))

    def _open(self) -> None:
        """Read the journal under the cursor, one at a time, unless that is what is shown."""
        brief = self.brief
        if brief == self._opened or self._opening:
            return
        self._opened = brief
        self._account = None
        self._endings.set_empty("" if brief is None else "Reading the journal.")
        self._endings.set_rows(())
        if brief is not None:
            self._opening = True
            self._in_thread("journal", lambda: self._read_account(brief))

    def _read_account(self, brief: Brief) -> None:
        """In a thread: a journal of 100,000 partitions takes seconds."""
        try:
            account = account_of(brief.path)
            read = JournalRead(brief, account, ordered_endings(account), "")
        except BreakglassError as error:
            read = JournalRead(brief, None, (), str(error))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            why = f"It cannot be read ({type(error).__name__}: {error})."
            read = JournalRead(brief, None, (), why)
        self.post_message(read)

    def _check(self, path: Path) -> None:
        """In a thread: ask the cluster what became of the unknown steps."""
        from breakglass.services.recovery.guarded.check_again import check_again

        try:
            with self.context.reading() as client:
                found = check_again(client, path, folder=self.context.state_folder)
        except BreakglassError as error:
            self.post_message(JournalChecked(str(error), trouble=True))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            told = f"The cluster's answers cannot be read ({type(error).__name__}: {error})."
            self.post_message(JournalChecked(told, trouble=True))
        else:
            unsettled = len(found.unsettled)
            self.post_message(JournalChecked(answers_text(found.answers), unsettled=unsettled))

    def _in_thread(self, group: str, run: Callable[[], object]) -> None:
        self.run_worker(run, group=group, thread=True, exit_on_error=False)


def answers_text(answers: Sequence[StepAnswer]) -> str:
    """What the cluster says of the steps that were unknown, the first few by name."""
    settled = [answer for answer in answers if answer.settled]
    left = len(answers) - len(settled)
    named = [
        f"{answer.partition} {answer.step}: {answer.result}" for answer in settled[:SHOWN_ANSWERS]
    ]
    if len(settled) > SHOWN_ANSWERS:
        named.append(f"and {len(settled) - SHOWN_ANSWERS:,} more")
    still = f"{left:,} still unknown" if left else ""
    told = "; ".join(filter(None, (*named, still)))
    return bounded(told, LENGTH) or "No outcome is unknown any more."
