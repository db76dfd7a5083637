"""The quorum of controllers: who answers, and how a cluster comes back from a copy of its metadata.

The first page asks the nodes and changes nothing. From it: copies compared, the plan of one copy,
the folder that is written under guard with the steps of each machine, and the watch of the return.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from rich.console import RenderableType
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from breakglass.screens.context import Context
from breakglass.screens.guard import ActEnded, ActPage, GuardMessage
from breakglass.screens.messages import CopyAsked
from breakglass.screens.page import Page
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.dialog import Overlay, Prompt
from breakglass.screens.widgets.facts import Fact, StyledLines, fact
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.connection.endpoint import Endpoint, parse_endpoint, parse_endpoints
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown
from breakglass.services.patience import REQUEST
from breakglass.services.quorum.comparison import ComparedCopy, Relation
from breakglass.services.quorum.inspection import QuorumInspection
from breakglass.services.quorum.machine_steps import (
    MachineStep,
    NodeStep,
    ServiceManager,
    machine_steps,
)
from breakglass.services.quorum.plan import QuorumPlan, make_plan, read_request, write_plan
from breakglass.services.quorum.prepare import PrepareQuorum
from breakglass.services.quorum.status import (
    QuorumNode,
    QuorumStatus,
    answering_nodes,
    look_at_quorum,
)
from breakglass.services.quorum.strays import inspect_with_strays
from breakglass.services.quorum.watch import ReturnProgress, look_at_return
from breakglass.services.quorum.wording import (
    BACK,
    CAVEATS,
    NOT_LOOKED,
    back_line,
    copy_lines,
    first_lines,
    inspection_lines,
    plan_lines,
    step_lines,
)
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words, role_style

if TYPE_CHECKING:
    from breakglass.services.kafka.wire.sender import Sender

LOOK_SECONDS = 2.0
"""Between two looks at the nodes."""
STALE_SECONDS = 10.0
MOST = 1_000
"""Lines of one kind; the commands' documents have all of them."""
LONGEST = 4_096
T = TypeVar("T")


class Inquiry:
    """What one thread asks and reads; it ends at once when its page is left."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ended = threading.Event()
        self._senders: list[Sender] = []

    def end(self) -> None:
        self._ended.set()
        for sender in tuple(self._senders):
            sender.close()

    def go_on(self) -> None:
        """Return unless the page was left or the session ends; raises Refused then."""
        if self._ended.is_set() or self._context.stopping.is_set():
            raise Refused("stopped on request")

    def reach(self, address: Endpoint) -> Sender:
        """A sender to one node, which the caller closes."""
        self.go_on()
        return self._kept(self._context.access.sender_at(address))

    def look(
        self, controllers: Sequence[Endpoint], before: Mapping[Endpoint, int | None]
    ) -> QuorumStatus:
        """The brokers and controllers now."""
        with self._context.reading() as client:
            self._kept(client.sender)
            return look_at_quorum(client, controllers, self.reach, before=before)

    def plan(self, sources: Sequence[str], voter: str, copy: str | None) -> QuorumPlan:
        asking = partial(answering_nodes, reach=self.reach)
        return make_plan(sources, voter, copy, self.go_on, asking)

    def watch(self, plan: Any) -> ReturnProgress:
        """How far the cluster came back by the document of a plan."""
        with self._context.reading() as client:
            self._kept(client.sender)
            return look_at_return(client, plan, Deadline.after(REQUEST))

    def _kept(self, sender: Sender) -> Sender:
        self._senders.append(sender)
        if self._ended.is_set():
            sender.close()
        return sender


class LinesScreen(Overlay):
    """All lines about one row."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "Close")]

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def content(self) -> RenderableType:
        told = "\n".join(bounded(line, LONGEST) for line in self._lines)
        return Text(f"{told}\n\n").append("Esc closes", role_style(self.app, Role.MUTED))


class StagePage(Page):
    """Sentences above, and a table below. What it asks runs in one thread at a time."""

    AUTO_FOCUS = "LineTable"
    DEFAULT_CSS = """
    StagePage #above { height: auto; max-height: 65%; scrollbar-size-vertical: 1; }
    StagePage LineTable { height: 1fr; min-height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "app.focus_next", "Text or list")]
    COLUMNS: ClassVar[tuple[LineColumn[Any], ...]] = ()

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.inquiry: Inquiry | None = None
        """The one whose answer counts; None: nothing is asked."""
        self.failed = ""
        """Why the last one found nothing."""

    def body(self) -> Iterator[Widget]:
        yield VerticalScroll(StyledLines("said"), id="above")
        if self.COLUMNS:
            yield LineTable[Any](self.COLUMNS, self.key_of, id="rows")

    def key_of(self, row: Any) -> Any:
        return row

    def sentences(self) -> Iterator[Words]:
        """What stands above the table."""
        raise NotImplementedError

    @property
    def table(self) -> LineTable[Any]:
        return self.query_one("#rows", LineTable)

    def ask(self, question: Callable[[Inquiry], T], then: Callable[[T], object]) -> None:
        """Let a thread answer *question*; *then* takes the answer if it still counts."""
        self.inquiry = inquiry = Inquiry(self.context)

        def answered(found: T | Unknown) -> None:
            if self.inquiry is not inquiry:
                return
            self.inquiry, self.failed = None, ""
            if isinstance(found, Unknown):
                self.failed = found.reason
            else:
                then(found)
            self.show()

        read = partial(found_or_why, partial(question, inquiry), "this ended unexpectedly")
        in_thread(self, "quorum", read, answered)

    def end_inquiry(self) -> None:
        if self.inquiry is not None:
            self.inquiry.end()
            self.inquiry = None

    def show(self) -> None:
        text = Text()
        for number, line in enumerate(self.sentences()):
            text.append("\n" * (number > 0))
            text.append(bounded(line.text, LONGEST), role_style(self.app, line.role))
        self.query_one("#said", StyledLines).tell(text)

    def show_known(self) -> None:
        self.show()

    def on_unmount(self) -> None:
        self.end_inquiry()


class LaterStage(StagePage):
    """A page above the first: Esc goes back to where it was opened."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back")]


def answers(node: QuorumNode) -> Words:
    """Whether it answers, or why not."""
    role = Role.OFFLINE if node.trouble else Role.WAITING if node.waits else None
    return Words(node.answers, role)


def fetched(node: QuorumNode) -> str:
    """How long ago it fetched from the leader."""
    silent = node.silent_ms
    return "?" if isinstance(silent, Unknown) else age_text(silent / 1_000)


def node_lines(node: QuorumNode) -> Iterator[str]:
    """Everything about a node; what is unknown has its reason."""
    yield f"{node.name} at {node.address}"
    yield f"Answers: {f'no: {node.trouble}' if node.trouble else node.answers}"
    yield f"Role: {node.role}"
    for label, value in (
        ("Epoch", node.epoch),
        ("Log end", node.log_end),
        ("Lag", node.lag),
        ("Has applied the log up to", node.applied),
        ("Milliseconds since it fetched", node.silent_ms),
    ):
        why = f" ({value.reason})" if isinstance(value, Unknown) else ""
        yield f"{label}: {count(value)}{why}"


class QuorumScreen(StagePage):
    """Which controllers and brokers answer, and which have to be started."""

    TITLE = "Quorum"
    ABOUT = (
        "Which controllers answer, which to start first, and what not to do. Brokers are asked, "
        "and controllers at their own listeners. If the disks of a majority are lost, f compares "
        "the copies of the metadata that controllers and brokers have. Enter shows why a figure "
        "is unknown."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "folders", "Copies", tooltip="Compare copies of the metadata log"),
        Binding("w", "follow", "Watch", tooltip="Follow the return of a cluster by a plan"),
        Binding("c", "controllers", "Controllers", tooltip="Name controllers to ask first"),
    ]
    COLUMNS = (
        LineColumn("Node", lambda one: one.name),
        LineColumn("Role", lambda one: one.role),
        LineColumn("Answers", answers, shrinks=True, most=30),
        LineColumn("Epoch", lambda one: count(one.epoch), right=True),
        LineColumn("Log end", lambda one: one.log_end_text, right=True),
        LineColumn("Lag", lambda one: count(one.lag), right=True),
        LineColumn("Fetched", fetched, right=True, least_width=70),
        LineColumn("Address", lambda one: one.address, shrinks=True, yields=1),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._status: QuorumStatus | None = None
        self._read_at = 0.0
        self._asked_at: float | None = None
        self._given = self._folders = ""

    def key_of(self, row: QuorumNode) -> Any:
        return row.broker, row.id, row.address if row.id is None else ""

    def show_known(self) -> None:
        self.tick()

    def tick(self) -> None:
        self._look()
        self.show()

    def on_screen_suspend(self) -> None:
        self.end_inquiry()
        self._asked_at = None

    def action_ask_refresh(self) -> None:
        self._asked_at = None
        super().action_ask_refresh()

    def _look(self) -> None:
        """Ask the nodes if it is time and nothing forbids it."""
        now, known = self.context.clock(), self.context.known
        due = self._asked_at is None or now - self._asked_at >= max(known.interval, LOOK_SECONDS)
        if due and self.inquiry is None and not known.paused:
            self._asked_at = now
            given = parse_endpoints(self._given, "controllers") if self._given else ()
            # Controllers that were known before are asked though no broker answers now.
            before = {
                parse_endpoint(one.address, "controllers"): one.id
                for one in (self._status.nodes if self._status else ())
                if not one.broker and one.address != "?"
            }
            self.ask(lambda inquiry: inquiry.look(given, before), self._found)

    def _found(self, found: QuorumStatus) -> None:
        self._status, self._read_at = found, self.context.clock()

    def show(self) -> None:
        found, incident = self._status, self.context.known.incident
        own = incident.snapshot.cluster_id if incident is not None else ""
        if found is not None and own and found.cluster_id not in ("", own):
            self._status = None
            self.failed = f"they are of cluster {found.cluster_id}, not of {own}"
        self.table.set_rows(self._status.nodes if self._status else ())
        super().show()

    def sentences(self) -> Iterator[Words]:
        found = self._status
        if self.failed:
            yield Words(f"The nodes cannot be asked: {self.failed}", Role.UNKNOWN)
        if found is None:
            if not self.failed:
                yield Words("Asking brokers and controllers.", Role.MUTED)
            return
        first, *others = found.advice()
        role = Role.VERIFIED if found.in_order else Role.BOMB if found.lacking else Role.UNKNOWN
        yield Words(first, Role.WAITING if found.in_order and found.missing else role)
        age = self.context.clock() - self._read_at
        stale = age > max(3 * self.context.known.interval, STALE_SECONDS)
        asked = f"STALE: asked {age_text(age)} ago" if stale else f"Asked {age_text(age)} ago"
        yield Words(f"{found.about()} {asked}.", Role.STALE if stale else Role.MUTED)
        yield from map(Words, others)

    @on(LineTable.Chosen)
    def _open(self, message: LineTable.Chosen) -> None:
        self.app.push_screen(LinesScreen(node_lines(message.row)))

    def action_controllers(self) -> None:
        about = (
            "HOST:PORT of their own listeners, several with commas. Empty: those that are known."
        )
        prompt = Prompt(
            "Controllers to ask", about=about, value=self._given, fault=_addresses_fault
        )
        self.app.push_screen(prompt, self._named)

    def _named(self, given: str | None) -> None:
        if given is not None:
            self._given, self._asked_at = given.strip(), None
            self.tick()

    def action_folders(self) -> None:
        about = (
            "log:DIR, several with spaces: folders of log.dirs or metadata.log.dir of controllers "
            "and brokers, or copies of them. They are only read, and their nodes may run."
        )
        prompt = Prompt("Copies", about=about, value=self._folders or "log:", fault=_folders_fault)
        self.app.push_screen(prompt, self._compare)

    def _compare(self, given: str | None) -> None:
        if given is not None:
            self._folders = given
            self.app.push_screen(CopiesPage(self.context, shlex.split(given)))

    def action_follow(self) -> None:
        about = "The file that `breakglass quorum plan` or this screen wrote."
        prompt = Prompt("Plan to follow", about=about, fault=_file_fault)
        self.app.push_screen(prompt, partial(_follow, self))


def _follow(page: Page, file: str | None) -> None:
    if file is not None:
        page.app.push_screen(WatchPage(page.context, Path(file).expanduser()))


def _addresses_fault(text: str) -> str:
    try:
        parse_endpoints(text, "this field") if text.strip() else ()
    except BreakglassError as error:
        return str(error)
    return ""


def _folders_fault(text: str) -> str:
    try:
        named = shlex.split(text)
    except ValueError as error:
        return f"{error}: close every quote."
    wrong = [one for one in named or [text] if not one.startswith("log:") or one == "log:"]
    return f"{wrong[0]!r} names no folder: write log:DIR." if wrong else ""


def _file_fault(text: str) -> str:
    return "" if Path(text).expanduser().is_file() else "There is no such file."


class CopyRow(NamedTuple):
    """A copy of the metadata log, and how many records it lacks against the best."""

    compared: ComparedCopy
    lacks: Words


RELATIONS = {
    Relation.BEST: Role.VERIFIED,
    Relation.PREFIX: None,
    Relation.FORK: Role.FORK,
    Relation.UNCOMPARED: Role.UNKNOWN,
}


def copy_rows(found: QuorumInspection) -> Iterator[CopyRow]:
    """A row for each copy, the best first."""
    lacks = {lack.compared.copy.path: lack.records for lack in found.lacks}
    for one in found.copies:
        records = lacks.get(one.copy.path, 0)
        role = Role.UNKNOWN if isinstance(records, Unknown) else Role.LOST if records else None
        yield CopyRow(one, Words(count(records), role))


def relation(row: CopyRow) -> Words:
    """What the copy is to the best one."""
    damaged = ", damaged" if row.compared.copy.damage else ""
    role = Role.FAILED if damaged else RELATIONS[row.compared.relation]
    return Words(f"{row.compared.relation}{damaged}", role)


def short(path: Path) -> str:
    """The end of *path*, by which the copies of one machine differ; Enter shows all of it."""
    return "/".join(path.parts[-2:]) if len(path.parts) > 3 else str(path)


class CopiesPage(LaterStage):
    """Copies of the metadata log, compared with the best one."""

    TITLE = "Copies of the metadata"
    ABOUT = (
        "The copies as raft ranks them, the best first. Enter lists what a copy lacks against the "
        "best one, i what is known of the folders with data. p makes the plan from the copy under "
        "the cursor. The folders are only read."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "all", "All", tooltip="Everything that was found"),
        Binding("p", "plan", "Plan", tooltip="Make the plan from this copy"),
        Binding("y", "copy", "Copy command", tooltip="Copy the command that does the same"),
    ]
    COLUMNS = (
        LineColumn(
            "Copy", lambda row: short(row.compared.copy.path.parent), shrinks=True, tail="/"
        ),
        LineColumn("Node", lambda row: count(row.compared.copy.node), right=True),
        LineColumn("Compared", relation),
        LineColumn("Epoch", lambda row: count(row.compared.copy.end.epoch), right=True),
        LineColumn("End", lambda row: count(row.compared.copy.end.offset), right=True),
        LineColumn("Lacks", lambda row: row.lacks, right=True),
        LineColumn("Newest record", lambda row: time_text(row.compared.copy.newest_ms), yields=1),
        LineColumn("Voters", lambda row: str(row.compared.copy.voters), least_width=110),
    )

    def __init__(self, context: Context, sources: Sequence[str]) -> None:
        super().__init__(context)
        self._sources = tuple(sources)
        self._found: QuorumInspection | None = None
        self._voter = ""

    def on_mount(self) -> None:
        self.ask(
            lambda inquiry: inspect_with_strays(self._sources, None, inquiry.go_on), self._show
        )

    def key_of(self, row: CopyRow) -> Any:
        return row.compared.copy.path

    def _show(self, found: QuorumInspection) -> None:
        self._found = found
        self.table.set_rows(tuple(copy_rows(found)))

    def sentences(self) -> Iterator[Words]:
        found = self._found
        if self.failed:
            yield Words(f"The copies were not compared: {self.failed}", Role.FAILED)
        elif found is None:
            yield Words(f"Reading folders: {len(self._sources):,}.", Role.RUNNING)
        else:
            first = next(copy_lines(found, found.copies[0]))
            yield Words(first, Role.VERIFIED if found.in_order else None)
            if not found.in_order:
                told = "Not everything is in order: i lists what would be lost, or is not known."
                yield Words(told, Role.WAITING)
            yield from (Words(line, Role.MUTED) for line in CAVEATS)

    @on(LineTable.Chosen)
    def _open(self, message: LineTable.Chosen) -> None:
        if self._found is not None:
            lines = copy_lines(self._found, message.row.compared, MOST)
            self.app.push_screen(LinesScreen(lines))

    def action_all(self) -> None:
        if self._found is not None:
            self.app.push_screen(LinesScreen(inspection_lines(self._found, MOST)))

    def action_copy(self) -> None:
        command = shlex.join(("breakglass", "quorum", "inspect", *self._sources))
        self.app.post_message(CopyAsked(command, "the command"))

    def action_plan(self) -> None:
        row: CopyRow | None = self.table.current
        if row is not None:
            about = (
                "The controller that will lead alone: N, or N@HOST:PORT with its controller "
                "listener. Name every folder first, metadata and data, and stop the controllers."
            )
            prompt = Prompt("New voter", about=about, value=self._voter)
            self.app.push_screen(prompt, partial(self._plan, row))

    def _plan(self, row: CopyRow, voter: str | None) -> None:
        if voter is not None:
            self._voter = voter
            # The best copy is not named: the plan is then refused if it may be the damaged one.
            best = row.compared.relation is Relation.BEST
            copy = None if best else f"log:{row.compared.copy.path}"
            self.app.push_screen(ReturnPlanPage(self.context, self._sources, voter.strip(), copy))


class ReturnPlanPage(LaterStage):
    """What becomes of each node, and what is lost."""

    TITLE = "Plan of the return"
    ABOUT = (
        "What becomes of each node if the cluster comes back from the chosen copy, what is lost "
        "for good, and what cannot be known. With --write, p asks for a new folder and opens the "
        "guarded page that writes it. y copies the commands."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "prepare", "Prepare", tooltip="Write the new controller's metadata folder"),
        Binding("y", "copy", "Copy commands", tooltip="Copy the commands that do the same"),
    ]
    COLUMNS = (
        LineColumn("Node", lambda one: one.name),
        LineColumn("Action", lambda one: one.action),
        LineColumn("Reason", lambda one: one.reason, shrinks=True, most=80),
        LineColumn("Metadata folder", lambda one: str(one.folder or "not named"), least_width=100),
    )

    def __init__(
        self, context: Context, sources: Sequence[str], voter: str, copy: str | None
    ) -> None:
        super().__init__(context)
        self._asked = (tuple(sources), voter, copy)
        self._made: QuorumPlan | None = None
        self._out = "promoted"

    def on_mount(self) -> None:
        self.ask(lambda inquiry: inquiry.plan(*self._asked), self._show)

    def key_of(self, row: NodeStep) -> Any:
        return row.name

    def _show(self, made: QuorumPlan) -> None:
        self._made = made
        self.table.set_rows(made.nodes)

    def sentences(self) -> Iterator[Words]:
        if self.failed:
            yield Words(self.failed, Role.FAILED)
        elif self._made is None:
            yield Words("Reading every folder, and asking the nodes.", Role.RUNNING)
        else:
            if not self.context.armed:
                told = "This session is read-only: y copies the commands that write the folder."
                yield Words(told, Role.READONLY)
            yield from map(Words, plan_lines(self._made, MOST))

    def action_copy(self) -> None:
        sources, voter, copy = self._asked
        chosen = () if copy is None else ("--copy", copy)
        plan = ("plan", *sources, *chosen, "--voter", voter, "--out", "plan.json")
        prepare = ("prepare", "plan.json", "--out", self._out, "--write")
        lines = (shlex.join(("breakglass", "quorum", *words)) for words in (plan, prepare))
        self.app.post_message(CopyAsked("\n".join(lines), "the commands"))

    def action_prepare(self) -> None:
        if self._made is None:
            return
        if not self.context.armed:
            self.notify(
                "This session is read-only: y copies the commands, or start again with --write.",
                severity="warning",
                markup=False,
            )
            return
        about = "A new folder, outside of every node's. The plan is written next to it."
        self.app.push_screen(Prompt("Folder to write", about=about, value=self._out), self._save)

    def _save(self, given: str | None) -> None:
        if given is not None and given.strip():
            self._out = given.strip()
            out, made = Path(self._out).expanduser().absolute(), self._made
            assert made is not None
            self.ask(lambda _: saved_plan(made, out), partial(self._guard, out))

    def _guard(self, out: Path, file: Path) -> None:
        self.app.push_screen(PreparePage(self.context, file, out))


def saved_plan(plan: QuorumPlan, out: Path) -> Path:
    """The file of *plan* next to *out*: written now, unless it is there already."""
    file, document = out.with_name(f"{out.name}.plan.json"), plan.document()
    if not file.exists() or read_request(file)[1]["digest"] != document["digest"]:
        write_plan(file, json.dumps(document, indent=1))
    return file


class PreparePage(ActPage):
    """The folder of the new controller is written; then come the steps of each machine."""

    TITLE = "Prepare the return"
    ABOUT = (
        "Writes the metadata folder of the new controller, as `breakglass quorum prepare` does, "
        "then shows the steps of each machine. Every folder is read again, and the nodes are "
        "asked again, before anything is written. No folder of a node is written to."
    )
    UNSAVED = "A folder is being written."
    CHANGES = "folder"

    def __init__(self, context: Context, file: Path, out: Path) -> None:
        self._file, self._out = file, out
        ask = partial(answering_nodes, reach=context.access.sender_at)
        super().__init__(context, PrepareQuorum(file, out, ask))

    def heard(self, message: GuardMessage) -> None:
        super().heard(message)
        if isinstance(message, ActEnded) and message.ending.whole:
            frozen = self._frozen
            assert frozen is not None
            page = StepsPage(
                self.context, message.ending.value, frozen.source, self._out, self._file
            )
            self.app.push_screen(page)

    def _evidence(self) -> Iterator[Fact]:
        yield from super()._evidence()
        for one in self._frozen.asked if self._frozen else ():
            if one.why:
                yield fact("Consent", Words(f"{one.phrase}: {one.why}", Role.WAITING))


class StepRow(NamedTuple):
    """A step and its place in the order of starts."""

    number: int
    step: MachineStep


class StepsPage(LaterStage):
    """What to do on each machine, in the order of starts."""

    TITLE = "Steps of the return"
    ABOUT = (
        "The folder is written. Do these steps in their order, each on its machine: y copies the "
        "commands of the step under the cursor. m changes what starts and stops the nodes. w "
        "follows the return."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy commands", tooltip="Copy the commands of this step"),
        Binding("m", "manager", "Manager", tooltip="Commands for systemd, plain processes, pods"),
        Binding("w", "follow", "Watch", tooltip="Follow the return"),
    ]
    COLUMNS = (
        LineColumn("Step", lambda row: str(row.number), right=True),
        LineColumn("What", lambda row: row.step.title, most=60, shrinks=True),
        LineColumn("Folder", lambda row: row.step.node.action),
    )

    def __init__(
        self, context: Context, plan: QuorumPlan, digest: str, out: Path, file: Path
    ) -> None:
        super().__init__(context)
        self._plan, self._digest, self._out, self._file = plan, digest, out, file
        self._manager = ServiceManager.SYSTEMD

    def on_mount(self) -> None:
        self._list()

    def key_of(self, row: StepRow) -> Any:
        return row.number

    def _list(self) -> None:
        steps = machine_steps(self._plan, self._digest, self._out, self._manager)
        self.table.set_rows([StepRow(*row) for row in enumerate(steps, 1)])
        self.show()

    @on(LineTable.Moved)
    def _moved(self) -> None:
        self.show()

    def sentences(self) -> Iterator[Words]:
        row: StepRow | None = self.table.current
        if row is None or row.number == 1:
            yield Words(f"{self._out} is written, and was read again.", Role.VERIFIED)
            yield from (Words(line, Role.WAITING) for line in first_lines(self._manager))
        if row is not None:
            yield from map(Words, step_lines(row.step, row.number, self._manager))
        yield Words(back_line(self._digest), Role.MUTED)

    def action_copy(self) -> None:
        row: StepRow | None = self.table.current
        if row is not None:
            step = row.step
            lines = [*step.commands, *(line for line in (step.start,) if line), *step.check]
            self.app.post_message(CopyAsked("\n".join(lines), step.title))

    def action_manager(self) -> None:
        every = [*ServiceManager]
        self._manager = every[(every.index(self._manager) + 1) % len(every)]
        self._list()

    def action_follow(self) -> None:
        self.app.push_screen(WatchPage(self.context, self._file))


class WatchPage(LaterStage):
    """The return by a plan: what is confirmed, what is awaited, what went wrong."""

    TITLE = "Watch of the return"
    ABOUT = (
        "Looks each second at the leader of the controllers, the brokers, the ISRs, log starts and "
        "ends, and at new -stray folders in the brokers' log directories on this machine. It stops "
        "you with one sentence if a step went wrong."
    )
    AUTO_FOCUS = "#above"
    DEFAULT_CSS = """
    WatchPage #above { height: 1fr; max-height: 100%; }
    """

    def __init__(self, context: Context, file: Path) -> None:
        super().__init__(context)
        self._file = file
        self._plan: dict[str, Any] | None = None
        self._progress: ReturnProgress | None = None

    def tick(self) -> None:
        ended = self._progress is not None and self._progress.ended
        if self.inquiry is None and not ended:
            self.ask(self._look, self._seen)

    def on_screen_suspend(self) -> None:
        self.end_inquiry()

    def _look(self, inquiry: Inquiry) -> ReturnProgress:
        if self._plan is None:
            self._plan = read_request(self._file)[1]
        return inquiry.watch(self._plan)

    def _seen(self, progress: ReturnProgress) -> None:
        self._progress = progress

    def sentences(self) -> Iterator[Words]:
        found = self._progress
        if self.failed:
            yield Words(f"Not known now: {self.failed}", Role.UNKNOWN)
        if found is None:
            if not self.failed:
                yield Words(f"Looking, by the plan {self._file}.", Role.RUNNING)
            return
        yield from (Words(f"STOP: {line}", Role.BOMB) for line in found.wrong)
        if not found.wrong and not found.awaited:
            yield Words(BACK, Role.VERIFIED if found.back else Role.WAITING)
        yield from (Words(f"Waiting: {line}", Role.WAITING) for line in found.awaited)
        yield from (Words(f"Confirmed: {line}", Role.VERIFIED) for line in found.confirmed)
        if found.unseen:
            yield Words(NOT_LOOKED.format(", ".join(found.unseen)), Role.WAITING)
