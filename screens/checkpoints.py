"""The checkpoints: level, state and progress of each, down to its partitions.

Stores are looked at again and again, in a thread, and nothing is changed. Where the session is
armed, taking, deleting and restoring are pages of their own, under guard.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.context import Context
from breakglass.screens.messages import CopyAsked
from breakglass.screens.page import Page
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.dialog import Prompt
from breakglass.screens.widgets.facts import Fact, Facts, fact
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.watch import (
    CheckpointLine,
    CheckpointPartitionLine,
    Line,
    SeenStore,
    key_of,
    lines,
    sizes,
)
from breakglass.services.checkpoint.wording import promise, reasons, same_again, why_failed
from breakglass.services.checkpoint.zeebe_api import backup_info
from breakglass.services.errors import UsageError
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words

ROLES = {
    Status.COMPLETED: Role.VERIFIED,
    Status.ONGOING: Role.RUNNING,
    Status.FAILED: Role.FAILED,
    Status.INCOMPLETE: Role.WAITING,
    Status.DOES_NOT_EXIST: Role.MUTED,
}
LONGEST_NAME = 80
EMPTY = Words("")
UNKNOWN = Words("?", Role.UNKNOWN)
DAMAGED_CELL = Words("damaged", Role.FAILED)


def columns(now_ms: int) -> tuple[LineColumn[Line], ...]:
    """The columns at that moment."""

    def age(line: Line) -> Words:
        if not isinstance(line, CheckpointLine):
            return EMPTY
        at = line.found.created_at_ms
        return UNKNOWN if at is None else Words(age_text(max(now_ms - at, 0) / 1000))

    def verified(line: Line) -> Words:
        if isinstance(line, SeenStore):
            return EMPTY
        last = line.found.verified
        if last is None:
            # Whether it is a checkpoint that can be restored, as far as is known.
            return (
                Words("never", Role.MUTED)
                if (isinstance(line, CheckpointLine) and line.found.status is Status.COMPLETED)
                else EMPTY
            )
        if isinstance(line, CheckpointPartitionLine):
            whole = line.part.number not in last.damage
            return Words("whole", Role.VERIFIED) if whole else DAMAGED_CELL
        if last.damage:
            return DAMAGED_CELL
        return Words(age_text(max(now_ms - last.at_ms, 0) / 1000), Role.VERIFIED)

    return (
        LineColumn("Checkpoint", _name, most=LONGEST_NAME, shrinks=True),
        LineColumn("State", _state),
        LineColumn("Level", _level),
        LineColumn("Copied", _copied, right=True),
        LineColumn("Age", age, right=True),
        LineColumn("Size", _size, right=True),
        LineColumn("Verified", verified, right=True),
        LineColumn("In transit", _in_transit, right=True, least_width=90),
        LineColumn("Cut", _cut, right=True, least_width=100),
        LineColumn("Records", _records, right=True, least_width=110),
        LineColumn("Node", _node, right=True, least_width=115),
    )


def _name(line: Line) -> Words:
    match line:
        case SeenStore():
            return Words(line.url, Role.HEADING)
        case CheckpointLine():
            return Words(f" {'▾' if line.opened else '▸'}{line.found.id}")
        case CheckpointPartitionLine():
            subject = line.part.subject
            named = "?" if subject is None else f"{subject.topic}-{subject.partition}"
            return Words(f"    {named}")


def _state(line: Line) -> Words:
    match line:
        case SeenStore():
            held = line.held
            if isinstance(held, Unknown):
                return UNKNOWN
            return Words(f"{len(held):,} checkpoint{'s' * (len(held) != 1)}", Role.MUTED)
        case CheckpointLine():
            return Words(line.found.state, ROLES[line.found.status])
        case CheckpointPartitionLine():
            return Words(line.part.status, ROLES[line.part.status])


def _level(line: Line) -> Words:
    if not isinstance(line, CheckpointLine):
        return EMPTY
    take = line.found.take
    return UNKNOWN if take is None else Words(take.level)


def _copied(line: Line) -> Words:
    match line:
        case CheckpointLine():
            return Words(f"{line.found.completed:,}/{len(line.found.partitions):,}")
        case CheckpointPartitionLine() if line.far is not None and line.far.offsets:
            return Words(f"{min(line.far.records / line.far.offsets, 1):.0%}", Role.RUNNING)
        case _:
            return EMPTY


def _size(line: Line) -> Words:
    match line:
        case SeenStore():
            held = line.held
            if isinstance(held, Unknown):
                return UNKNOWN
            return _total(size for found in held for size in sizes(found))
        case CheckpointLine():
            return _total(sizes(line.found))
        case CheckpointPartitionLine():
            if line.far is not None:
                return Words(size_text(line.far.bytes), Role.RUNNING)
            copy = line.part.counting
            size = None if copy is None else copy.size
            return EMPTY if size is None else Words(size_text(size))


def _total(parts: Iterable[int | Unknown]) -> Words:
    """What is copied; at least so much where not all of it is."""
    held = list(parts)
    known = [size for size in held if isinstance(size, int)]
    if held and not known:
        return UNKNOWN
    least = "" if len(known) == len(held) else ">= "
    return Words(f"{least}{size_text(sum(known))}")


def _cut(line: Line) -> Words:
    if not isinstance(line, CheckpointPartitionLine):
        return EMPTY
    cut = line.found.cut
    return UNKNOWN if cut is None else Words(count(cut.positions.get(line.part.number)))


def _records(line: Line) -> Words:
    if not isinstance(line, CheckpointPartitionLine):
        return EMPTY
    if line.far is not None:
        return Words(count(line.far.records), Role.RUNNING)
    copy = line.part.counting
    return EMPTY if copy is None or copy.manifest is None else Words(count(copy.manifest.records))


def _in_transit(line: Line) -> Words:
    if isinstance(line, SeenStore):
        return EMPTY
    cut = line.found.cut
    if cut is None:
        return UNKNOWN
    if isinstance(line, CheckpointLine):
        return Words(count(sum(map(len, cut.in_transit.values()))))
    return Words(count(len(cut.in_transit.get(line.part.number, ()))))


def _node(line: Line) -> Words:
    if not isinstance(line, CheckpointPartitionLine) or line.part.counting is None:
        return EMPTY
    return Words(str(line.part.counting.id.node))


NEXT = {
    Status.COMPLETED: "`breakglass checkpoint restore {id} --store {url}`",
    Status.ONGOING: "a worker copies it; if the worker died: `breakglass checkpoint finish {id}`",
    Status.INCOMPLETE: "`breakglass checkpoint finish {id}` resumes it",
    Status.FAILED: "take a checkpoint with a new id; `breakglass checkpoint prune {id}`",
    Status.DOES_NOT_EXIST: "`breakglass checkpoint prune {id}`",
}

DAMAGED = "bring the files back from another copy of the store, or take a checkpoint with a new id"


def line_facts(line: Line | None) -> Iterator[Fact]:
    """Everything in words that the columns have no room for."""
    match line:
        case None:
            return
        case SeenStore():
            held = line.held
            if isinstance(held, Unknown):
                yield fact("Unread", Words(held.reason, Role.UNKNOWN))
                return
            newest = next((one for one in held if one.status is Status.COMPLETED), None)
            whole = Words("none", Role.FAILED)
            if newest is not None:
                whole = Words(f"{newest.id}, of {time_text(newest.created_at_ms)}")
            yield fact("Restorable", whole)
        case CheckpointLine():
            yield from _checkpoint(line.url, line.found)
        case CheckpointPartitionLine():
            reason = why_failed(line.part, line.found)
            if reason is not None:
                yield fact("Failed", Words(reason, Role.FAILED))
            yield fact("Holds", _holds(line))
            for copy in line.part.copies:
                status = copy.copy.status
                at = f"  begun {time_text(copy.created_at_ms)}  {time_text(copy.updated_at_ms)}"
                yield fact(f"Node {copy.id.node}", Words(status, ROLES[status]), at)
            last = line.found.verified
            if last is not None and line.part.number in last.damage:
                yield fact("Damaged", Words(last.damage[line.part.number], Role.FAILED))
            cut = line.found.cut
            for name, group in sorted(cut.groups.items()) if cut is not None else ():
                offset = group.offsets.get(line.part.number)
                if offset is not None:
                    yield fact("Group", f"{name} resumes at {count(offset)}")


def _checkpoint(url: str, found: StoredCheckpoint) -> Iterator[Fact]:
    yield fact("Promise", promise(found))
    for reason in reasons(found):
        yield fact("Failed", Words(reason, Role.FAILED))
    requested, acknowledged = f"requested {time_text(found.created_at_ms)}", found.started
    answered = Words("  never acknowledged", Role.FAILED)
    if acknowledged is not None:
        answered = Words(f"  acknowledged {time_text(acknowledged.at_ms)}")
    yield fact("Taken", requested, answered)
    if found.cut is not None and found.cut.groups:
        groups = (f"{name} {group.policy}" for name, group in sorted(found.cut.groups.items()))
        yield fact("Groups", ", ".join(groups))
    yield from _explained(found)
    if found.status is Status.COMPLETED:
        yield fact("Verified", verified_part(found))
    damaged = found.verified is not None and found.verified.damage
    told = (DAMAGED if damaged else NEXT[found.status]).format(id=found.id, url=url)
    yield fact("Next", Words(told, Role.MUTED))


def _explained(found: StoredCheckpoint) -> Iterator[Fact]:
    """Who wrote the topics when it was taken, and what is missing for a better promise."""
    from breakglass.services.checkpoint.wording import (
        explained,
        group_words,
        level_words,
        topic_words,
    )

    why = explained(found)
    if why is None or found.take is None:
        return
    topics = (topic_words(topic, why.wanted) for topic in why.evidence.topics)
    yield fact("Written by", "; ".join(topics))
    groups = "; ".join(map(group_words, why.evidence.groups))
    if groups:
        yield fact("Commits", groups)
    for missing in level_words(why, found.take.level):
        yield fact("For more", Words(missing, Role.MUTED))


def verified_part(found: StoredCheckpoint) -> Words:
    """When every byte of it was read last, and what came of that."""
    last = found.verified
    if last is None:
        told = f"never: `breakglass checkpoint verify {found.id}` reads every byte"
        return Words(told, Role.MUTED)
    when = time_text(last.at_ms)
    if last.damage:
        return Words(f"{when}  {'; '.join(last.damage.values())}", Role.FAILED)
    read = f"{last.files:,} files, {size_text(last.size)}"
    return Words(f"{when}  {read}, unchanged since they were committed", Role.VERIFIED)


def _holds(line: CheckpointPartitionLine) -> str:
    """What there is of it, of how much while it is copied, and where it ends."""
    cut, number, copy = line.found.cut, line.part.number, line.part.counting
    position = None if cut is None else cut.positions.get(number)
    ends = "?" if position is None else count(position)
    transit = "?" if cut is None else count(len(cut.in_transit.get(number, ())))
    records = "?" if copy is None or copy.manifest is None else count(copy.manifest.records)
    if line.far is not None:
        most = "?" if line.far.offsets is None else f"<= {line.far.offsets:,}"
        about = line.far.bytes_expected
        size = f"{size_text(line.far.bytes)} of {'?' if about is None else f'~{size_text(about)}'}"
        records = f"{line.far.records:,} of {most}"
        return f"{records} records so far, {size}; cut at {ends}, {transit} in transit"
    return f"{records} records; cut at {ends}, {transit} in transit"


LOOK_SECONDS = 2.0
"""Between two looks: each reads every small file of every store."""
SUFFIX = "-restored"
"""Offered for the names of restored topics."""
NO_STORES = "No store of checkpoints is named: start with --store checkpoint:URL."


class CheckpointsScreen(Page):
    """Stores, checkpoints, partitions; what is known of the one under the cursor."""

    TITLE = "Checkpoints"
    ABOUT = (
        "Consistent checkpoints of many partitions and groups: level, state, progress of the "
        "copies, and why a checkpoint failed. With --write, t, x and R open the guarded pages "
        "that take, delete and restore a checkpoint. Without it, they copy the command. The list "
        "itself changes nothing."
    )
    DEFAULT_CSS = """
    CheckpointsScreen #checkpoints { height: 1fr; }
    CheckpointsScreen #about { border-top: solid $border-blurred; max-height: 50%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "open(True)", "Open", show=False),
        Binding("left", "open(False)", "Close", show=False),
        Binding("y", "copy", "copy", tooltip="Copy this checkpoint as JSON"),
        Binding("t", "take", "take", tooltip="Take a checkpoint, or copy the command"),
        Binding("R", "restore", "restore", tooltip="Restore this checkpoint, or copy the command"),
        Binding("x", "delete", "delete", tooltip="Delete this checkpoint, or copy the command"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._stores: tuple[SeenStore, ...] = ()
        self._opened: frozenset[tuple[str, int]] = frozenset()
        self._looked_at: float | None = None
        self._looking = False
        self._unread = ""
        """Why the stores could not be looked at."""

    def body(self) -> Iterator[Widget]:
        yield LineTable[Line](columns(0), key_of, id="checkpoints", empty=NO_STORES)
        yield Facts(id="about")

    def on_mount(self) -> None:
        self._table.focus()

    def show_known(self) -> None:
        self._look()

    def tick(self) -> None:
        self._look()

    def action_ask_refresh(self) -> None:
        self._looked_at = None
        self._look()
        super().action_ask_refresh()

    def action_open(self, opened: bool) -> None:
        line = self._table.current
        if not isinstance(line, CheckpointLine | CheckpointPartitionLine):
            return
        key = (line.url, line.found.id)
        self._opened = self._opened | {key} if opened else self._opened - {key}
        self._show()
        if not opened:
            self._table.move_to((*key, 0))

    @on(LineTable.Chosen, "#checkpoints")
    def _chosen(self, message: LineTable.Chosen) -> None:
        line: Line = message.row
        if isinstance(line, CheckpointLine):
            self.action_open(not line.opened)

    @on(LineTable.Moved, "#checkpoints")
    def _moved(self) -> None:
        self._tell()

    def action_copy(self) -> None:
        line = self._table.current
        if isinstance(line, CheckpointLine | CheckpointPartitionLine):
            told = json.dumps(backup_info(line.found), indent=1)
            self.app.post_message(CopyAsked(told, f"checkpoint {line.found.id}"))

    def action_take(self) -> None:
        url, found = self._pointed()
        if not url:
            self.notify(NO_STORES, markup=False)
            return
        asked = "" if found is None else same_again(found)
        if not self.context.armed:
            self._copy_command("take", url, asked or "--topics A,B")
            return
        about = "Options as of `breakglass checkpoint take`: --group NAME=POLICY, --max-rate 20MB/s"
        fault = _fault(self.context.checkpoint_text.take)
        prompt = Prompt("Take a checkpoint of", about=about, value=asked, fault=fault)
        self.app.push_screen(prompt, partial(self._take, url))

    def action_restore(self) -> None:
        url, found = self._pointed(chosen=True)
        asked = f"--suffix {SUFFIX}"
        if found is None:
            self.notify("No checkpoint is under the cursor.", markup=False)
        elif self.context.armed:
            about = "Names of the new topics: --map OLD=NEW for one, --suffix TEXT for the others"
            title, fault = (
                f"Restore checkpoint {found.id} into",
                self.context.checkpoint_text.restore,
            )
            prompt = Prompt(title, about=about, value=asked, fault=_fault(fault))
            self.app.push_screen(prompt, partial(self._restore, url, found.id))
        else:
            self._copy_command(f"restore {found.id}", url, asked)

    def action_delete(self) -> None:
        url, found = self._pointed(chosen=True)
        if found is None:
            self.notify("No checkpoint is under the cursor.", markup=False)
        elif self.context.armed:
            from breakglass.screens.guard import DeletePage
            from breakglass.services.checkpoint.acts.delete import DeleteCheckpoint

            act = DeleteCheckpoint(BackupStore(url), found.id)
            self.app.push_screen(DeletePage(self.context, act))
        else:
            self._copy_command(f"prune {found.id}", url)

    def _take(self, url: str, given: str | None) -> None:
        from breakglass.screens.guard import TakePage
        from breakglass.services.checkpoint.acts.take import TakeCheckpoint

        if given is not None:
            act = TakeCheckpoint(BackupStore(url), self.context.checkpoint_text.take(given))
            self.app.push_screen(TakePage(self.context, act))

    def _restore(self, url: str, id: int, given: str | None) -> None:
        from breakglass.screens.guard import RestorePage
        from breakglass.services.checkpoint.acts.restore import RestoreCheckpoint

        if given is not None:
            asked = self.context.checkpoint_text.restore(given)
            act = RestoreCheckpoint(BackupStore(url), id, asked)
            self.app.push_screen(RestorePage(self.context, act))

    def _copy_command(self, what: str, url: str, options: str = "") -> None:
        command = f"breakglass checkpoint {what} --store {shlex.quote(url)} {options}".rstrip()
        self.app.post_message(CopyAsked(f"{command} --write", "the command"))

    def _pointed(self, *, chosen: bool = False) -> tuple[str, StoredCheckpoint | None]:
        """The store under the cursor and a checkpoint of it: unless *chosen*, else the newest."""
        line = self._table.current
        match line:
            case CheckpointLine() | CheckpointPartitionLine():
                return line.url, line.found
            case SeenStore():
                held = line.held
                newest = () if chosen or isinstance(held, Unknown) else held
                return line.url, next(iter(newest), None)
            case _:
                return "", None

    def _looked(self, stores: tuple[SeenStore, ...] | Unknown) -> None:
        self._looking = False
        if isinstance(stores, Unknown):
            self._unread = stores.reason
        else:
            self._stores, self._unread = stores, ""
        self._show()

    @property
    def _table(self) -> LineTable[Line]:
        return self.query_one("#checkpoints", LineTable)

    def _show(self) -> None:
        self._table.set_columns(columns(self.context.checkpoints.clock()))
        self._table.set_rows(tuple(lines(self._stores, self._opened)))
        self._tell()

    def _tell(self) -> None:
        unread = [fact("Unread", Words(self._unread, Role.UNKNOWN))] if self._unread else []
        self.query_one("#about", Facts).facts = (*unread, *line_facts(self._table.current))

    def _look(self) -> None:
        """Look at the stores if it is time, in a thread: one that hangs keeps no key waiting."""
        now, last = self.context.clock(), self._looked_at
        if self._looking or (last is not None and now - last < LOOK_SECONDS):
            return
        self._looking, self._looked_at = True, now
        look = partial(found_or_why, self.context.checkpoints.look, "the stores cannot be read")
        in_thread(self, "checkpoints", look, self._looked)


def _fault(parse: Callable[[str], object]) -> Callable[[str], str]:
    """What is wrong with a text that *parse* refuses, in words; nothing where it is right."""

    def found(text: str) -> str:
        try:
            parse(text)
        except UsageError as error:
            return str(error)
        return ""

    return found
