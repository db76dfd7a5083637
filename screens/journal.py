"""The journals of changes, on disk or in a bundle: a list, the lines of one, and its ledger.

The timeline of the journal under the cursor is shown below; `l` opens the ledger, which follows
every record of an incident, over it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from typing_extensions import override

from breakglass.screens.context import Context
from breakglass.screens.messages import CopyAsked, ResumeAsked
from breakglass.screens.page import Page
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.dialog import Overlay
from breakglass.screens.widgets.facts import Fact, Facts, fact, facts_table
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.journal import UNKNOWN, UnreadableJournal
from breakglass.services.incident.elections_seen import (
    Observations,
    Sighting,
    clusters_observed,
    sightings,
)
from breakglass.services.model import Unknown
from breakglass.services.recovery.execution.steps import PARTLY_FAILED, SUCCEEDED, UNDONE
from breakglass.services.recovery.judgement.assessment import recovery_order
from breakglass.services.recovery.judgement.succession import do_not_start
from breakglass.services.recovery.ledger.page import LedgerPage, PageLines, PageTable
from breakglass.services.recovery.timeline.account import (
    Account,
    Brief,
    ExecutionState,
    Shelf,
    account_of,
    digest_text,
    words_of,
)
from breakglass.services.recovery.timeline.ending import NOTHING_SENT, PartitionEnding, result_of
from breakglass.services.recovery.timeline.text import UNTROUBLED, timeline_text
from breakglass.services.state_folder import state_folder
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words, role_style

if TYPE_CHECKING:
    from breakglass.services.recovery.guarded.check_again import CheckedAgain, StepAnswer


Journal: TypeAlias = Brief | UnreadableJournal | Sighting
"""What is listed: what was done from here, and what was seen from here."""


def key_of(journal: Journal) -> Hashable:
    """By which the cursor finds its line again."""
    if isinstance(journal, Sighting):
        return journal.seen_at_ms, journal.who, journal.sentence
    return path_of(journal)


def path_of(journal: Journal | None) -> Path | None:
    """Where the journal is; None for what was only seen."""
    return None if journal is None or isinstance(journal, Sighting) else journal.path


def journal_cells(journal: Journal) -> tuple[Words | str, ...]:
    """When, how it ended, what, outcomes, what it lost, who."""
    match journal:
        case UnreadableJournal():
            return journal.path.stem, Words("unreadable", Role.UNKNOWN), journal.reason, "", "", ""
        case Sighting():
            seen = Words("acknowledged") if journal.acknowledged_by else Words("SEEN", Role.BOMB)
            begun = time_text(journal.seen_at_ms).removesuffix("Z")
            return begun, seen, journal.sentence, "", "", journal.who
        case Brief():
            begun = time_text(journal.opened_at_ms).removesuffix("Z")
            outcomes = Words(words_of(journal.counts), Role.UNKNOWN if journal.unknown else None)
            result = Words(journal.result, result_role(journal))
            return begun, result, journal.what, outcomes, str(journal.stake), journal.who


JOURNAL_COLUMNS: tuple[LineColumn[Journal], ...] = (
    LineColumn("Begun (UTC)", lambda journal: journal_cells(journal)[0]),
    LineColumn("Result", lambda journal: journal_cells(journal)[1], most=14),
    LineColumn("What", lambda journal: journal_cells(journal)[2], shrinks=True, most=60),
    LineColumn("Outcomes", lambda journal: journal_cells(journal)[3], most=60),
    LineColumn("Loses", lambda journal: journal_cells(journal)[4], right=True, least_width=90),
    LineColumn("Who", lambda journal: journal_cells(journal)[5], least_width=100, most=30),
)


def ordered_endings(account: Account) -> list[PartitionEnding]:
    """What needs a look first, then in the order of recovery."""
    return sorted(
        account.endings,
        key=lambda ending: (
            ending.result in UNTROUBLED and not ending.order_kept,
            recovery_order(ending.partition),
        ),
    )


ENDING_COLUMNS: tuple[LineColumn[PartitionEnding], ...] = (
    LineColumn(
        "Topic-partition", lambda ending: str(ending.partition), shrinks=True, most=60, tail="-"
    ),
    LineColumn("Result", lambda ending: Words(ending.result, role_of(ending))),
    LineColumn("Leader", lambda ending: "-" if ending.leader is None else f"b{ending.leader}"),
    LineColumn("Loses", lambda ending: ending.agreed or "-", right=True, most=40),
    LineColumn(
        "Rescued",
        lambda ending: count(
            sum(saved.records for saved in ending.rescued) if ending.rescued else None
        ),
        right=True,
        least_width=70,
    ),
    LineColumn(
        "Why",
        lambda ending: "; ".join(
            filter(None, (ending.reason, "order not put back" if ending.order_kept else ""))
        ),
        shrinks=True,
        most=100,
    ),
)


def role_of(ending: PartitionEnding) -> Role | None:
    """How *ending* is drawn; the word says the same."""
    if ending.result == UNKNOWN:
        return Role.UNKNOWN
    if ending.result in UNTROUBLED:
        return Role.VERIFIED
    return None if ending.result == NOTHING_SENT else Role.FAILED


def result_role(brief: Brief) -> Role:
    """How the result of *brief* is drawn."""
    if brief.state is ExecutionState.RUNNING:
        return Role.RUNNING
    if brief.unknown or brief.state is ExecutionState.INTERRUPTED:
        return Role.UNKNOWN
    ended = {SUCCEEDED: Role.VERIFIED, UNDONE: Role.VERIFIED, PARTLY_FAILED: Role.FAILED}
    return ended.get(brief.ended or "", Role.UNKNOWN)


def journal_facts(journal: Journal | None, asking: bool, armed: bool) -> Iterator[Fact]:
    """The sentences; *asking*: the cluster is being asked about it."""
    match journal:
        case UnreadableJournal():
            yield fact("Unreadable", Words(journal.reason, Role.FAILED))
        case Sighting():
            noted = journal.acknowledged_by
            yield fact("Seen", Words(f"{journal.sentence}.", None if noted else Role.BOMB))
            told = f"by {noted}" if noted else "by nobody yet: ! acknowledges it"
            yield fact("Acknowledged", Words(told, None if noted else Role.UNKNOWN))
        case Brief():
            yield from _facts(journal, asking, armed)


def _facts(brief: Brief, asking: bool, armed: bool) -> Iterator[Fact]:
    people = ", then ".join(dict.fromkeys((brief.who, *brief.resumed_by)))
    yield fact("Who", f"{people}, until {time_text(brief.last_at_ms)}")
    price = f"loses {brief.stake}" if brief.stake.said else ""
    digest = f"digest {digest_text(brief.digest)}" if brief.digest else ""
    cost = ", ".join(filter(None, (price, digest)))
    if cost:
        yield fact("Agreed to", cost)
    following = tuple(_next(brief, asking, armed))
    if following:
        yield fact("Next", *following)


def _next(brief: Brief, asking: bool, armed: bool) -> Iterator[Words]:
    if brief.state is ExecutionState.RUNNING:
        yield Words("the journal is being written now", Role.RUNNING)
        return
    if asking:
        yield Words("asking the cluster what became of it", Role.RUNNING)
    elif brief.checkable:
        what = f"{brief.unknown:,} partition{'s' * (brief.unknown != 1)} unknown"
        yield Words(what, Role.UNKNOWN)
        yield Words(": u asks the cluster again")
    if brief.resumable:
        how = "" if armed else " (with --write)"
        what = "r puts the settings back" if brief.owes else "r resumes it"
        yield Words(f"{'; ' if asking or brief.checkable else ''}{what}{how}")


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
        return facts_table(self.app, self._facts(), STORY_LENGTH)

    def _facts(self) -> Iterator[Fact]:
        ending = self._ending
        yield fact("Partition", str(ending.partition))
        epoch = "" if ending.leader_epoch is None else f", epoch {ending.leader_epoch}"
        led = "" if ending.leader is None else f", b{ending.leader}{epoch}"
        rung = f", {ending.rung}" if ending.rung else ""
        yield fact("Result", Words(f"{ending.result}{led}{rung}", role_of(ending)))
        if ending.price:
            yield fact("Loses", ending.agreed)
        for broker in ending.abandons:
            yield fact(f"b{broker}", Words(do_not_start(broker), Role.UNKNOWN))
        for saved in ending.rescued:
            where = f"{count(saved.records)} records of b{saved.broker} in {saved.path}"
            yield fact("Rescued", where)
        if ending.order_kept:
            yield fact("Order", Words("its assignment was not put back", Role.FAILED))
        for step in self._account.view.steps_of(ending.partition):
            yield fact("", "")
            outcome, item = result_of(step, ending.partition), step.items[ending.partition]
            yield fact(time_text(step.request.at_ms), Words(step.name, Role.HEADING))
            asked = [
                f"{name.replace('_', ' ')} {_text(item[name])}" for name in SAID if name in item
            ]
            if asked:
                yield fact("asked", ", ".join(asked))
            yield fact("became", outcome.result)
            for name, detail in outcome.details.items():
                if detail and name != "saved":
                    yield fact(name, _text(detail))
        yield fact("", "")
        yield fact("", Words("Esc closes", Role.MUTED))


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
            JOURNAL_COLUMNS, key_of, id="journals", lone=False, empty="Reading the journals."
        )
        yield Facts()
        yield LineTable[PartitionEnding](
            ENDING_COLUMNS, lambda ending: ending.partition, id="endings", lone=False
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
            in_thread(self, "check", partial(self._check, brief.path), self._checked)

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
            make = partial(make_ledger, self.context, account.brief.path)
            in_thread(self, "ledger", make, self._ledger_made)
            self.refresh_bindings()

    def action_copy(self) -> None:
        account = self._account
        if account is not None:
            what = f"the timeline of a {account.brief.what}"
            in_thread(
                self,
                "timeline",
                lambda: CopyAsked(timeline_text([account]), what),
                self.app.post_message,
            )

    def action_save(self) -> None:
        account = self._account
        if account is not None:
            name, folder = account.brief.name, "timelines"
            in_thread(
                self,
                "timeline",
                lambda: save_text(self.context, timeline_text([account]), name, folder),
                self._saved,
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

    def _listed(self, journals: Sequence[Journal] | Unknown) -> None:
        self._listing = False
        self.journals.set_empty(journals.reason if isinstance(journals, Unknown) else NONE_YET)
        self.journals.set_rows(() if isinstance(journals, Unknown) else journals)
        self._show_facts()
        self._open()

    def _checked(self, found: CheckedAgain | Unknown) -> None:
        self._checking = None
        if isinstance(found, Unknown):
            told, wanting = found.reason, True
        else:
            told, wanting = answers_text(found.answers), bool(found.unsettled)
        self.notify(
            told,
            severity="warning" if wanting else "information",
            markup=False,
            timeout=NOTICE_SECONDS,
        )
        self._list()

    def _ledger_made(self, made: MadeLedger | Unknown) -> None:
        self._accounting = False
        if isinstance(made, Unknown):
            self.notify(made.reason, severity="error", markup=False)
        elif self.app.screen is self:
            self.app.push_screen(LedgerScreen(self.context, made, self._saved))
        self.refresh_bindings()

    def _saved(self, saved: Path | Unknown) -> None:
        failed = isinstance(saved, Unknown)
        self.notify(saved_words(saved), severity="error" if failed else "information", markup=False)

    @property
    def _endings(self) -> LineTable[PartitionEnding]:
        return self.query_one("#endings", LineTable)

    def _show_facts(self) -> None:
        current = self.journals.current
        asking = self._checking is not None and path_of(current) == self._checking
        facts = journal_facts(current, asking, self.context.armed)
        self.query_one(Facts).facts = tuple(facts)
        self.refresh_bindings()

    def _list(self) -> None:
        """Look for journals; files that are the same as before are not read again."""
        if not self._listing:
            self._listing = True
            incident = self.context.known.incident
            cluster = incident.snapshot.cluster_id if incident is not None else None
            look = partial(self._look, cluster)
            in_thread(
                self, "journals", lambda: found_or_why(look, "the journals cannot be listed"),
                self._listed,
            )  # fmt: skip

    def _look(self, cluster: str | None) -> Sequence[Journal]:
        """In a thread. Before the cluster is known, the journals of all clusters are shown."""
        folder = self.context.state_folder
        every = {*self._shelf.clusters(), *clusters_observed(folder)}
        clusters = sorted(every) if cluster is None else [cluster]
        observed = [
            observation for id_ in clusters for observation in Observations(id_, folder).load()
        ]
        return (*sightings(observed), *self._shelf.briefs(clusters))

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
            read = partial(_read_account, brief)
            in_thread(self, "journal", read, partial(self._read, brief))

    def _read(self, brief: Brief, read: tuple[Account, list[PartitionEnding]] | Unknown) -> None:
        """Show the partitions, unless the cursor is elsewhere by now."""
        self._opening = False
        if self.brief is not None and self.brief.path == brief.path:
            self._account, endings = (None, []) if isinstance(read, Unknown) else read
            self._endings.set_empty(read.reason if isinstance(read, Unknown) else "")
            self._endings.set_rows(endings)
            self.refresh_bindings()
        self._open()

    def _check(self, path: Path) -> CheckedAgain | Unknown:
        """In a thread: ask the cluster what became of the unknown steps."""
        from breakglass.services.recovery.guarded.check_again import check_again

        def check() -> CheckedAgain:
            with self.context.reading() as client:
                return check_again(client, path, folder=self.context.state_folder)

        return found_or_why(check, "the cluster's answers cannot be read")


def _read_account(brief: Brief) -> tuple[Account, list[PartitionEnding]] | Unknown:
    """In a thread: a journal of 100,000 partitions takes seconds. What needs a look comes first."""

    def read() -> tuple[Account, list[PartitionEnding]]:
        account = account_of(brief.path)
        return account, ordered_endings(account)

    return found_or_why(read, "it cannot be read")


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


ANSWER_SECONDS = 10.0
"""For the leaders of now to say what they hold."""


class MadeLedger(NamedTuple):
    """The ledger of a journal, laid out, and the journal's name."""

    page: LedgerPage
    name: str


def make_ledger(context: Context, journal: Path) -> MadeLedger | Unknown:
    """In a thread: reads folders of rescues, and asks the leaders of now."""
    from breakglass.services.recovery.ledger.assemble import gathered, ledger_of, with_cluster
    from breakglass.services.recovery.ledger.page import ledger_page
    from breakglass.services.recovery.timeline.account import account_of

    def make() -> MadeLedger:
        account = account_of(journal)
        sources = gathered(account, context.state_folder)
        try:
            with context.reading() as client:
                sources = with_cluster(sources, client, ANSWER_SECONDS)
        except BreakglassError as error:
            sources = sources.noting(f"the cluster was not asked: {error}")
        return MadeLedger(ledger_page(ledger_of(sources)), account.brief.name)

    return found_or_why(make, "the ledger cannot be made")


def save_text(
    context: Context, text: str, name: str, folder: str, suffix: str = ".txt"
) -> Path | Unknown:
    """In a thread: write *text* into a *folder* of the state folder."""
    from breakglass.services.recovery.timeline.text import save_timeline

    place = (context.saving_folder or state_folder()) / folder
    return found_or_why(lambda: save_timeline(text, place, name, suffix), "it cannot be written")


def saved_words(saved: Path | Unknown) -> str:
    """What became of a text that was to be written."""
    if isinstance(saved, Unknown):
        return saved.reason
    return f"Written, readable by you alone: {saved}"


LEDGER_LENGTH = 2_000
"""Of a sentence; enough for a path."""
CELL = 300
FATE_ROLES = {
    "kept": Role.VERIFIED,
    "put back": Role.VERIFIED,
    "lost": Role.LOST,
    "unknown": Role.UNKNOWN,
}


class LedgerScreen(Overlay):
    """Every record of the incident accounted for."""

    CSS = """
    LedgerScreen > VerticalScroll { width: 100%; max-width: 120; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,l,q", "dismiss", "Close"),
        Binding("w", "save", "Write HTML", tooltip="Write it to a file, for the incident review"),
    ]

    def __init__(
        self, context: Context, made: MadeLedger, then: Callable[[Path | Unknown], object]
    ) -> None:
        """*then* hears where it was written, or why it was not."""
        super().__init__()
        self.context, self._made, self._then = context, made, then

    def action_save(self) -> None:
        in_thread(self.app, "timeline", self._save, self._then)

    def _save(self) -> Path | Unknown:
        from breakglass.services.recovery.ledger.page import page_html

        html = page_html(self._made.page)
        return save_text(self.context, html, self._made.name, "ledgers", ".html")

    def content(self) -> RenderableType:
        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        page = self._made.page
        yield Text(bounded(page.title, LEDGER_LENGTH), self._style(Role.HEADING))
        role = Role.VERIFIED if page.adds_up else Role.FAILED
        yield Text(bounded(page.verdict, LEDGER_LENGTH), self._style(role))
        yield Text("w writes it as HTML, Esc closes", self._style(Role.MUTED))
        # What a screen of 24 lines shows first are the sums, and whatever contradicts them.
        first = next(
            number for number, block in enumerate(page.blocks, 1) if isinstance(block, PageTable)
        )
        yield from self._blocks(page.blocks[:first])
        yield Text()
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for label, told in self._made.page.facts:
            table.add_row(Text(label, self._style(Role.MUTED)), Text(bounded(told, LEDGER_LENGTH)))
        yield table
        yield from self._blocks(page.blocks[first:])

    def _blocks(self, blocks: Sequence[PageTable | PageLines]) -> Iterator[RenderableType]:
        for block in blocks:
            yield Text()
            if block.title:
                yield Text(bounded(block.title, LEDGER_LENGTH), self._style(Role.HEADING))
            yield (
                self._table(block)
                if isinstance(block, PageTable)
                else Text("\n".join(bounded(line, LEDGER_LENGTH) for line in block.lines))
            )

    def _table(self, block: PageTable) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for number, title in enumerate(block.columns):
            table.add_column(
                Text(title, self._style(Role.MUTED)),
                justify="right" if number in block.right else "left",
                overflow="fold",
                no_wrap=number in block.right,
                min_width=len(title) if number == 0 else None,
            )
        for row in block.rows:
            nothing = row[0] in FATE_ROLES and row[1] == "0"
            table.add_row(*(self._cell(cell, Role.MUTED if nothing else None) for cell in row))
        return table

    def _cell(self, cell: str, role: Role | None) -> Text:
        role = role or FATE_ROLES.get(cell)
        return Text(bounded(cell, CELL), "" if role is None else self._style(role))

    def _style(self, role: Role) -> Style:
        return role_style(self.app, role)
