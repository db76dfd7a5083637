"""The tree of places as lines: what was looked up, what is open, why the rest is not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from breakglass.screens.widgets.facts import Fact
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.browse.tree import (
    GONE,
    Figure,
    PartitionNode,
    SegmentNode,
    TopicContents,
    TopicNode,
    total,
)
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role

Key: TypeAlias = tuple[str, ...]
"""Place, topic, partition, segment, as far down as a line is."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One line."""

    key: Key
    node: str | TopicNode | PartitionNode | SegmentNode
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
    """What was looked up: topics of places, partitions of topics."""

    places: tuple[str, ...] = ()
    topics: dict[Key, tuple[TopicNode, ...] | Unknown] = field(default_factory=dict)
    held: dict[Key, TopicContents | Unknown] = field(default_factory=dict)
    opened: set[Key] = field(default_factory=set)
    reading: set[Key] = field(default_factory=set)

    def put(self, key: Key, found: object) -> None:
        """Take in what was found below *key*: of a place its topics, of a topic what it holds."""
        self.reading.discard(key)
        if len(key) == 1:
            assert isinstance(found, tuple | Unknown)
            self.topics[key] = found
        else:
            assert isinstance(found, TopicContents | Unknown)
            self.held[key] = found

    def known(self, key: Key) -> bool:
        """Whether what is below *key* was looked up, and found."""
        told = self.topics.get(key) if len(key) == 1 else self.held.get(key)
        return told is not None and not isinstance(told, Unknown)

    def forget(self) -> None:
        """Look everything up again when it is opened; what is open stays so."""
        self.topics.clear()
        self.held.clear()

    def lines(self, words: str = "") -> list[Branch]:
        """Every line that is to be seen; *words* have to be in the names of topics."""
        wanted = words.lower().split()
        found: list[Branch] = []
        for url in self.places:
            key = (url,)
            told = self.topics.get(key)
            opened = key in self.opened
            found.append(Branch(key, url, opened, note=self._note(key, told)))
            if opened and isinstance(told, tuple):
                for topic in told:
                    if all(word in topic.folder.lower() for word in wanted):
                        found += self._topic(topic)
        return found

    def _topic(self, topic: TopicNode) -> Iterator[Branch]:
        key = (topic.url, topic.folder)
        told = self.held.get(key)
        held = told if isinstance(told, TopicContents) else None
        opened = key in self.opened
        yield Branch(key, topic, opened, held, self._note(key, told))
        if opened and held is not None:
            yield from self._partitions(key, held.partitions)

    def _partitions(self, above: Key, partitions: Sequence[PartitionNode]) -> Iterator[Branch]:
        for partition in partitions:
            key = (*above, str(partition.partition))
            opened = key in self.opened
            yield Branch(key, partition, opened)
            if opened:
                for segment in partition.segments:
                    yield Branch((*key, segment.prefix), segment, None)

    def _note(self, key: Key, told: object) -> str:
        if key in self.reading:
            return "reading"
        return told.reason if isinstance(told, Unknown) else ""


def address_of(branch: Branch) -> tuple[str, int | None]:
    """The address of the records at *branch*, and where to begin; empty where there are none."""
    node = branch.node
    if isinstance(node, PartitionNode):
        return node.address, None
    if isinstance(node, SegmentNode):
        first = node.first_offset if isinstance(node.first_offset, int) else node.start_offset
        return f"backup:{node.url}/{node.folder}/{node.partition}", first
    return "", None


EMPTY = Cell("")
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


def _name(branch: Branch) -> Cell:
    sign = " " if branch.opened is None else "▾" if branch.opened else "▸"
    indent = "  " * branch.level
    match branch.node:
        case TopicNode():
            return Cell(f"{indent}{sign}{branch.node.folder}")
        case PartitionNode():
            return Cell(f"{indent}{sign}partition {branch.node.partition}")
        case SegmentNode():
            return Cell(f"{indent}{sign}from {branch.node.start_offset}")
        case str():
            return Cell(f"{sign}{branch.node}", Role.HEADING)


def _of(branch: Branch, what: str) -> Figure:
    if isinstance(branch.node, PartitionNode | SegmentNode):
        found: Figure = getattr(branch.node, what, None)
        return found
    return None


def _figure(value: Figure) -> Cell:
    if value is None:
        return EMPTY
    return Cell(count(value), Role.UNKNOWN if isinstance(value, Unknown) else None)


def _records(branch: Branch) -> Cell:
    if branch.held is not None:
        return _figure(total([part.records for part in branch.held.partitions]))
    return _figure(_of(branch, "records"))


def _size(branch: Branch) -> Cell:
    if branch.held is not None:
        return Cell(size_text(sum(part.bytes for part in branch.held.partitions)))
    value = _of(branch, "bytes")
    return EMPTY if value is None else Cell(size_text(value))


def _lost(branch: Branch) -> Cell:
    if _gone(branch):
        return Cell(GONE, Role.FAILED)
    value = _of(branch, "lost")
    if branch.held is not None:
        value = total([part.lost for part in branch.held.partitions])
    return Cell(count(value), Role.LOST) if isinstance(value, int) and value else _figure(value)


def _gone(branch: Branch) -> bool:
    """Whether segments that it should have are not there."""
    if branch.held is not None:
        return any(part.gone for part in branch.held.partitions)
    return isinstance(branch.node, PartitionNode | SegmentNode) and bool(branch.node.gone)


def _time(value: Figure) -> Cell:
    return EMPTY if value is None else Cell(time_text(value).removesuffix("Z"))


def _verified(branch: Branch) -> Cell:
    if branch.held is None:
        return EMPTY
    last, commit = branch.held.verified, branch.held.commit
    if last is None:
        return Cell("never", Role.MUTED)
    if not last.whole:
        return Cell("DAMAGED", Role.FAILED)
    if last.commit != commit:
        return Cell("before", Role.WAITING)
    return Cell(last.how, Role.VERIFIED)


def _note(branch: Branch) -> Cell:
    note = branch.node.note if isinstance(branch.node, SegmentNode) else branch.note
    if branch.held is not None and branch.held.commit is None:
        note = "no manifest"
    return Cell(note, Role.RUNNING if note == "reading" else Role.UNKNOWN)


def branch_facts(branch: Branch | None) -> Iterator[Fact]:
    """The sentences about *branch*."""
    if branch is None:
        return
    match branch.node:
        case str():
            yield Fact("Place", (LinePart(branch.node), *_why(branch)))
        case SegmentNode():
            yield Fact("Segment", tuple(_segment(branch.node)))
            yield Fact("File", (LinePart(f"{branch.node.prefix}_records"),))
        case PartitionNode():
            yield Fact("Partition", tuple(_partition(branch.node)))
            yield Fact("Address", (LinePart(branch.node.address),))
        case _:
            yield Fact("Topic", (LinePart(branch.node.folder), *_why(branch)))
            if branch.held is not None:
                yield Fact("Verified", (_notes_verified(branch.held),))


def _why(branch: Branch) -> Iterator[LinePart]:
    if branch.note == "reading":
        yield LinePart("  reading", Role.RUNNING)
    elif branch.note:
        yield LinePart(f"  ? {branch.note}", Role.UNKNOWN)


def _segment(segment: SegmentNode) -> Iterator[LinePart]:
    yield LinePart(
        f"offsets {count(segment.first_offset)} to {count(segment.last_offset)}, "
        f"{count(segment.records)} records, {size_text(segment.bytes)}"
    )
    if isinstance(segment.first_ms, int):
        yield LinePart(f", {time_text(segment.first_ms)} to {time_text(segment.last_ms)}")
    if isinstance(segment.lost, int) and segment.lost:
        yield LinePart(f", {segment.lost:,} offsets lost", Role.LOST)
    if segment.note:
        yield LinePart(f"; {segment.note}", Role.UNKNOWN)
    yield from _unknown(segment.records)


def _partition(partition: PartitionNode) -> Iterator[LinePart]:
    number = len(partition.segments)
    yield LinePart(
        f"offsets {count(partition.first_offset)} to {count(partition.last_offset)}, "
        f"{count(partition.records)} records, {size_text(partition.bytes)} in {number:,} "
        f"segment{'s' * (number != 1)}"
    )
    if partition.gone:
        yield LinePart(f"; {partition.gone:,} of them gone", Role.FAILED)
    yield from _unknown(partition.records)


def _unknown(value: Figure) -> Iterator[LinePart]:
    if isinstance(value, Unknown):
        yield LinePart(f"; ? {value.reason}", Role.UNKNOWN)


def _notes_verified(held: TopicContents) -> LinePart:
    last = held.verified
    if held.commit is None:
        return LinePart("made by Kafka Backup: it has no manifest to verify against", Role.UNKNOWN)
    if last is None:
        return LinePart("never", Role.WAITING)
    words = "whole" if last.whole else "DAMAGED or different"
    role = Role.VERIFIED if last.whole else Role.FAILED
    older = "" if last.commit == held.commit else f"; commit {last.commit} of {held.commit}"
    return LinePart(f"{words} at {time_text(last.at_ms)}, by {last.how}{older}", role)
