"""The tree of backups and of the cluster: place, topic, partition, segment or replica.

Each branch is looked up when it is opened, in its own thread, for which nothing waits: a disk that
hangs blocks its branch alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.browse.subject import restored_map
from breakglass.screens.context import Context
from breakglass.screens.messages import BrowseAsked, CopyAsked
from breakglass.screens.page import FilteredPage, FilterField
from breakglass.screens.refreshing import found_or_why
from breakglass.screens.widgets.dialog import Prompt
from breakglass.screens.widgets.facts import Fact, Facts, fact
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.browse.tree import (
    LIVE,
    MISSING,
    Figure,
    LivePartition,
    LiveReplica,
    PartitionNode,
    SegmentNode,
    TopicContents,
    TopicNode,
    live_partitions,
    live_topics,
    partitions_in,
    topics_at,
    total,
)
from breakglass.services.divergence.address import FORMS, SourceAddress, parse_address
from breakglass.services.divergence.opening import refusal
from breakglass.services.errors import UsageError
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words

Live: TypeAlias = tuple[LivePartition, ...]
Key: TypeAlias = tuple[str, ...]
"""Place, topic, partition, segment, as far down as a line is."""
Below: TypeAlias = tuple[TopicNode, ...] | TopicContents | Live | Unknown
"""What was found below a line, or why nothing was."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One line."""

    key: Key
    node: str | TopicNode | PartitionNode | SegmentNode | LivePartition | LiveReplica
    """A place is its URL."""
    opened: bool | None
    """None: nothing is below it in the tree."""
    held: TopicContents | None = None
    """Of a topic, once it was looked up."""
    note: str = ""
    """Why what is below is not there: ``reading``, or a reason."""

    @property
    def level(self) -> int:
        return len(self.key) - 1


@dataclass
class Tree:
    """What was looked up: of places their topics, of topics what they hold."""

    places: tuple[str, ...] = ()
    found: dict[Key, Below] = field(default_factory=dict)
    opened: set[Key] = field(default_factory=set)
    reading: set[Key] = field(default_factory=set)

    def known(self, key: Key) -> bool:
        """Whether what is below *key* was looked up, and found."""
        return not isinstance(self.found.get(key, Unknown("")), Unknown)

    def lines(self, words: str = "") -> Iterator[Branch]:
        """Every line that is to be seen; *words* have to be in the names of topics."""
        wanted = words.lower().split()
        for url in self.places:
            key, topics = (url,), self.found.get((url,))
            opened = key in self.opened
            yield Branch(key, url, opened, note=self._note(key))
            for topic in topics if opened and isinstance(topics, tuple) else ():
                assert isinstance(topic, TopicNode)
                if all(word in topic.folder.lower() for word in wanted):
                    yield from self._topic(topic)

    def _topic(self, topic: TopicNode) -> Iterator[Branch]:
        key = (topic.url, topic.folder)
        told, opened = self.found.get(key), key in self.opened
        held = told if isinstance(told, TopicContents) else None
        yield Branch(key, topic, opened, held, self._note(key))
        if not opened or told is None or isinstance(told, Unknown):
            return
        for partition in told if isinstance(told, tuple) else told.partitions:
            assert not isinstance(partition, TopicNode)
            place = (*key, str(partition.partition))
            opened = place in self.opened
            yield Branch(place, partition, opened)
            if opened:
                for name, node in partition.below:
                    yield Branch((*place, name), node, None)

    def _note(self, key: Key) -> str:
        told = self.found.get(key)
        if key in self.reading:
            return "reading"
        return told.reason if isinstance(told, Unknown) else ""


def address_of(branch: Branch) -> tuple[str, int | None]:
    """The address of the records at *branch*, and where to begin; empty where there are none."""
    node = branch.node
    if isinstance(node, SegmentNode):
        first = node.first_offset if isinstance(node.first_offset, int) else node.start_offset
        return node.address, first
    return ("" if isinstance(node, str | TopicNode) else node.address), None


EMPTY = Words("")
LONGEST_NAME = 80


def columns() -> tuple[LineColumn[Branch], ...]:
    """The columns, from left to right."""
    return (
        LineColumn("Name", _name, most=LONGEST_NAME, shrinks=True),
        LineColumn("First", lambda branch: _figure(_of(branch, "first_offset")), right=True),
        LineColumn("Last", lambda branch: _figure(_of(branch, "last_offset")), right=True),
        LineColumn("Records", _records, right=True),
        LineColumn("Size", _size, right=True),
        LineColumn("Lost", _lost, right=True),
        LineColumn("From (UTC)", lambda branch: _time(_of(branch, "first_ms")), least_width=112),
        LineColumn("To (UTC)", lambda branch: _time(_of(branch, "last_ms")), least_width=132),
        LineColumn("Verified", _verified, least_width=76),
        LineColumn("Note", _note, shrinks=True, least_width=92, most=100),
    )


def _name(branch: Branch) -> Words:
    sign = " " if branch.opened is None else "▾" if branch.opened else "▸"
    indent = "  " * branch.level
    match branch.node:
        case TopicNode():
            return Words(f"{indent}{sign}{branch.node.folder}")
        case PartitionNode() | LivePartition():
            return Words(f"{indent}{sign}partition {branch.node.partition}")
        case LiveReplica():
            return Words(f"{indent}{sign}b{branch.node.broker}")
        case SegmentNode():
            return Words(f"{indent}{sign}from {branch.node.start_offset}")
        case str():
            return Words(f"{sign}{branch.node}", Role.HEADING)


def _of(branch: Branch, what: str) -> Figure:
    if isinstance(branch.node, str | TopicNode):
        return None
    found: Figure = getattr(branch.node, what, None)
    return found


def _figure(value: Figure) -> Words:
    if value is None:
        return EMPTY
    return Words(count(value), Role.UNKNOWN if isinstance(value, Unknown) else None)


def _records(branch: Branch) -> Words:
    if branch.held is not None:
        return _figure(total([part.records for part in branch.held.partitions]))
    return _figure(_of(branch, "records"))


def _size(branch: Branch) -> Words:
    if branch.held is not None:
        return Words(size_text(sum(part.bytes for part in branch.held.partitions)))
    value = _of(branch, "bytes")
    return EMPTY if value is None else Words(size_text(value))


def _lost(branch: Branch) -> Words:
    if _missing(branch):
        return Words(MISSING, Role.FAILED)
    value = _of(branch, "lost")
    if branch.held is not None:
        value = total([part.lost for part in branch.held.partitions])
    return Words(count(value), Role.LOST) if isinstance(value, int) and value else _figure(value)


def _missing(branch: Branch) -> bool:
    """Whether segments that it should have are not there."""
    if branch.held is not None:
        return any(part.missing for part in branch.held.partitions)
    return isinstance(branch.node, PartitionNode | SegmentNode) and bool(branch.node.missing)


def _time(value: Figure) -> Words:
    return EMPTY if value is None else Words(time_text(value).removesuffix("Z"))


def _verified(branch: Branch) -> Words:
    if branch.held is None:
        return EMPTY
    last, commit = branch.held.verified, branch.held.commit
    if last is None:
        return Words("never", Role.MUTED)
    if not last.whole:
        return Words("DAMAGED", Role.FAILED)
    if last.commit != commit:
        return Words("before", Role.WAITING)
    return Words(last.how, Role.VERIFIED)


def _note(branch: Branch) -> Words:
    note = getattr(branch.node, "note", branch.note)
    if branch.held is not None and branch.held.commit is None:
        note = "no manifest"
    if isinstance(branch.node, LiveReplica) and not isinstance(branch.node.last_offset, Unknown):
        return Words(note)
    return Words(note, Role.RUNNING if note == "reading" else Role.UNKNOWN)


def branch_facts(branch: Branch | None) -> Iterator[Fact]:
    """The sentences about *branch*."""
    if branch is None:
        return
    match branch.node:
        case str():
            yield fact("Place", branch.node, *_why(branch))
        case SegmentNode():
            yield fact("Segment", *_segment(branch.node))
            yield fact("File", f"{branch.node.prefix}_records")
        case PartitionNode():
            yield fact("Partition", *_partition(branch.node))
            yield fact("Address", branch.node.address)
        case LivePartition():
            told = (f"b{replica.broker} {replica.note}" for replica in branch.node.replicas)
            yield fact("Replicas", ", ".join(told))
            yield fact("Address", branch.node.address)
        case LiveReplica():
            yield fact("Replica", f"b{branch.node.broker}: {branch.node.note}")
            yield fact("Address", branch.node.address)
        case _:
            yield fact("Topic", branch.node.folder, *_why(branch))
            if branch.held is not None:
                yield fact("Verified", _notes_verified(branch.held))


def _why(branch: Branch) -> Iterator[Words]:
    if branch.note == "reading":
        yield Words("  reading", Role.RUNNING)
    elif branch.note:
        yield Words(f"  ? {branch.note}", Role.UNKNOWN)


def _segment(segment: SegmentNode) -> Iterator[Words]:
    yield Words(
        f"offsets {count(segment.first_offset)} to {count(segment.last_offset)}, "
        f"{count(segment.records)} records, {size_text(segment.bytes)}"
    )
    if isinstance(segment.first_ms, int):
        yield Words(f", {time_text(segment.first_ms)} to {time_text(segment.last_ms)}")
    if isinstance(segment.lost, int) and segment.lost:
        yield Words(f", {segment.lost:,} offsets lost", Role.LOST)
    if segment.note:
        yield Words(f"; {segment.note}", Role.UNKNOWN)
    yield from _unknown(segment.records)


def _partition(partition: PartitionNode) -> Iterator[Words]:
    number = len(partition.segments)
    yield Words(
        f"offsets {count(partition.first_offset)} to {count(partition.last_offset)}, "
        f"{count(partition.records)} records, {size_text(partition.bytes)} in {number:,} "
        f"segment{'s' * (number != 1)}"
    )
    if partition.missing:
        yield Words(f"; {partition.missing:,} of them missing", Role.FAILED)
    yield from _unknown(partition.records)


def _unknown(value: Figure) -> Iterator[Words]:
    if isinstance(value, Unknown):
        yield Words(f"; ? {value.reason}", Role.UNKNOWN)


def _notes_verified(held: TopicContents) -> Words:
    last = held.verified
    if held.commit is None:
        return Words("made by Kafka Backup: it has no manifest to verify against", Role.UNKNOWN)
    if last is None:
        return Words("never", Role.WAITING)
    role = Role.VERIFIED if last.whole else Role.FAILED
    older = "" if last.commit == held.commit else f"; commit {last.commit} of {held.commit}"
    return Words(f"{last.verdict} at {time_text(last.at_ms)}, by {last.how}{older}", role)


NO_PLACES = "No place of backups is named (--store URL). o opens a source by its address."


class BrowseScreen(FilteredPage):
    """Leads from places to records, and to two sources side by side."""

    TITLE = "Browse"
    ABOUT = (
        "What backups contain, from the store down to the segment, and topics of the cluster down "
        "to the replica. Enter on a segment or replica, or r on a partition, shows its records. d "
        "marks a partition or replica; d on a second one compares the two. o opens any source: "
        f"{FORMS}."
    )
    DEFAULT_CSS = """
    BrowseScreen #tree { height: 1fr; }
    BrowseScreen #about { border-top: solid $border-blurred; max-height: 40%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "records", "records", tooltip="The records of the partition"),
        Binding(
            "d", "compare", "compare", tooltip="Mark a partition; on a second one, compare the two"
        ),
        Binding("o", "open_address", "open", tooltip="Open a source by its address"),
        Binding("slash", "filter", "filter", key_display="/", tooltip="Filter topics by words"),
        Binding("right", "open(True)", "Open", show=False),
        Binding("left", "open(False)", "Close", show=False),
        Binding("y", "copy", "Copy address", show=False),
        Binding("escape", "back", "Clear filter or mark", show=False),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tree = Tree()
        self._words = ""
        self._left: SourceAddress | None = None
        """What the next one is to be compared with."""
        self._began = False

    def body(self) -> Iterator[Widget]:
        yield Facts(id="looking")
        yield FilterField("words in topics")
        yield LineTable[Branch](columns(), lambda branch: branch.key, id="tree", empty="")
        yield Facts(id="about")

    def on_mount(self) -> None:
        self._table.focus()

    def show_known(self) -> None:
        """Places are those of the backups' watch; the first look opens them."""
        urls = tuple(place.url for place in self.context.backups.standing.places)
        places = urls if self.context.bundle is not None else (*urls, LIVE)
        if places != self._tree.places:
            self._tree.places = places
            if urls and not self._began:
                self._began = True
                for url in urls:
                    self._open((url,))
            self._show()

    def tick(self) -> None:
        self.show_known()

    def action_ask_refresh(self) -> None:
        self._tree.found.clear()
        for key in sorted(self._tree.opened):
            self._look_up(key)
        self._show()
        super().action_ask_refresh()

    # The tree.

    @on(LineTable.Chosen, "#tree")
    def _chosen(self, message: LineTable.Chosen) -> None:
        branch: Branch = message.row
        if branch.opened is None:
            self.action_records()
        else:
            self.action_open(not branch.opened)

    @on(LineTable.Moved, "#tree")
    def _moved(self) -> None:
        self._tell()

    def action_open(self, opened: bool) -> None:
        branch = self._table.current
        if branch is None:
            return
        key = branch.key
        if not opened and branch.opened is not True:
            key = key[:-1] or key
        if opened:
            self._open(key)
        else:
            self._tree.opened.discard(key)
        self._show()
        self._table.move_to(key)

    def _open(self, key: Key) -> None:
        self._tree.opened.add(key)
        self._look_up(key)

    def _look_up(self, key: Key) -> None:
        """Look up what is below *key*, unless that is known or under way."""
        tree = self._tree
        if len(key) > 2 or tree.known(key) or key in tree.reading:
            return
        tree.reading.add(key)
        # A daemon: nobody can end a thread that a hung disk keeps, nor has to wait for it.
        threading.Thread(target=self._read, args=(key,), name="browse", daemon=True).start()

    def _read(self, key: Key) -> None:
        """In a thread of its own."""

        def look() -> Below:
            if key[0] != LIVE:
                place = self.context.key
                return (
                    topics_at(key[0], place)
                    if len(key) == 1
                    else partitions_in(TopicNode(*key), place)
                )
            with self.context.reading() as client:
                return live_partitions(client, key[1]) if key[1:] else live_topics(client)

        self.call_later(self._found, key, found_or_why(look, "it cannot be read"))

    def _found(self, key: Key, found: Below) -> None:
        self._tree.reading.discard(key)
        self._tree.found[key] = found
        self._show()

    # Records.

    def action_records(self) -> None:
        branch = self._table.current
        address, offset = address_of(branch) if branch is not None else ("", None)
        if address:
            self.app.post_message(BrowseAsked(parse_address(address), offset=offset))

    def action_compare(self) -> None:
        branch = self._table.current
        text, _ = address_of(branch) if branch is not None else ("", None)
        if text:
            self._compare(parse_address(text))

    def _compare(self, address: SourceAddress) -> None:
        if self._left is None or self._left == address:
            self._left = None if self._left == address else address
            self._tell()
            return
        restored = restored_map(self.context, self._left, address)
        why = "" if restored else refusal(self._left, address)
        if why:
            self.notify(f"{why}.", severity="warning", markup=False)
        else:
            self.app.post_message(BrowseAsked(self._left, address))

    def action_open_address(self) -> None:
        beside = f" beside {self._left}" if self._left is not None else ""
        prompt = Prompt(f"Open a source{beside}", about=FORMS, fault=_fault)
        self.app.push_screen(prompt, self._open_given)

    def _open_given(self, text: str | None) -> None:
        if not text:
            return
        address = parse_address(text.strip())
        if self._left is not None:
            self._compare(address)
        else:
            self.app.post_message(BrowseAsked(address))

    def action_copy(self) -> None:
        branch = self._table.current
        text, _ = address_of(branch) if branch is not None else ("", None)
        if text:
            self.app.post_message(CopyAsked(text, "the address"))

    # How it is looked at.

    @on(Input.Changed, "#filter")
    def _filter_written(self, message: Input.Changed) -> None:
        self._words = message.value
        self._show()

    def action_back(self) -> None:
        """Empty the filter, leave its field, or forget what was marked to compare with."""
        if self.filter_input.value or self.filtering:
            super().action_back()
        else:
            self._left = None
            self._tell()

    @property
    def listed(self) -> Widget:
        return self._table

    @property
    def _table(self) -> LineTable[Branch]:
        return self.query_one("#tree", LineTable)

    def _show(self) -> None:
        self._table.set_rows(list(self._tree.lines(self._words)))
        self._tell()

    def _tell(self) -> None:
        self.query_one("#looking", Facts).facts = tuple(self._looking())
        self.query_one("#about", Facts).facts = tuple(branch_facts(self._table.current))

    def _looking(self) -> Iterator[Fact]:
        if self._left is not None:
            told = f"{self._left} (d or o on another compares; Esc forgets it)"
            yield fact("Compare", Words(told, Role.MARKED))
        if not self.context.backups.standing.places:
            yield fact("Backups", NO_PLACES)
        if self._words:
            yield fact("Shown", Words(f"filter: {self._words}", Role.DIFFERENT))


def _fault(text: str) -> str:
    """What is wrong with an address; empty where nothing is, or nothing is written yet."""
    if not text.strip():
        return ""
    try:
        parse_address(text.strip())
    except UsageError as error:
        return str(error)
    return ""
