"""The columns of the tree: name, offsets, records, size, time, what is missing."""

from __future__ import annotations

from breakglass.screens.browse.branches import Branch
from breakglass.screens.widgets.line_table import Cell, LineColumn
from breakglass.services.browse.tree import (
    GONE,
    Figure,
    PartitionNode,
    SegmentNode,
    TopicNode,
    total,
)
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role

EMPTY = Cell("")
LONGEST_NAME = 80


def columns() -> tuple[LineColumn[Branch], ...]:
    """The columns, from left to right."""
    return (
        LineColumn("Name", _name, most=LONGEST_NAME, shrinks=True),
        LineColumn("First", lambda one: _figure(_of(one, "first_offset")), right=True),
        LineColumn("Last", lambda one: _figure(_of(one, "last_offset")), right=True),
        LineColumn("Records", _records, right=True),
        LineColumn("Size", _size, right=True),
        LineColumn("Lost", _lost, right=True),
        LineColumn("From (UTC)", lambda one: _time(_of(one, "first_ms")), least_width=112),
        LineColumn("To (UTC)", lambda one: _time(_of(one, "last_ms")), least_width=132),
        LineColumn("Verified", _verified, least_width=76),
        LineColumn("Note", _note, shrinks=True, least_width=92, most=100),
    )


def _name(one: Branch) -> Cell:
    sign = " " if one.opened is None else "▾" if one.opened else "▸"
    indent = "  " * one.level
    match one.node:
        case TopicNode():
            return Cell(f"{indent}{sign}{one.node.folder}")
        case PartitionNode():
            return Cell(f"{indent}{sign}partition {one.node.partition}")
        case SegmentNode():
            return Cell(f"{indent}{sign}from {one.node.start_offset}")
        case str():
            return Cell(f"{sign}{one.node}", Role.HEADING)


def _of(one: Branch, what: str) -> Figure:
    if isinstance(one.node, PartitionNode | SegmentNode):
        found: Figure = getattr(one.node, what, None)
        return found
    return None


def _figure(value: Figure) -> Cell:
    if value is None:
        return EMPTY
    return Cell(count(value), Role.UNKNOWN if isinstance(value, Unknown) else None)


def _records(one: Branch) -> Cell:
    if one.held is not None:
        return _figure(total([part.records for part in one.held.partitions]))
    return _figure(_of(one, "records"))


def _size(one: Branch) -> Cell:
    if one.held is not None:
        return Cell(size_text(sum(part.bytes for part in one.held.partitions)))
    value = _of(one, "bytes")
    return EMPTY if value is None else Cell(size_text(value))


def _lost(one: Branch) -> Cell:
    if _gone(one):
        return Cell(GONE, Role.FAILED)
    value = _of(one, "lost")
    if one.held is not None:
        value = total([part.lost for part in one.held.partitions])
    return Cell(count(value), Role.LOST) if isinstance(value, int) and value else _figure(value)


def _gone(one: Branch) -> bool:
    """Whether segments that it should have are not there."""
    if one.held is not None:
        return any(part.gone for part in one.held.partitions)
    return isinstance(one.node, PartitionNode | SegmentNode) and bool(one.node.gone)


def _time(value: Figure) -> Cell:
    return EMPTY if value is None else Cell(time_text(value).removesuffix("Z"))


def _verified(one: Branch) -> Cell:
    if one.held is None:
        return EMPTY
    last, commit = one.held.verified, one.held.commit
    if last is None:
        return Cell("never", Role.MUTED)
    if not last.whole:
        return Cell("DAMAGED", Role.FAILED)
    if last.commit != commit:
        return Cell("before", Role.WAITING)
    return Cell(last.how, Role.VERIFIED)


def _note(one: Branch) -> Cell:
    note = one.node.note if isinstance(one.node, SegmentNode) else one.note
    if one.held is not None and one.held.commit is None:
        note = "no manifest"
    return Cell(note, Role.RUNNING if note == "reading" else Role.UNKNOWN)
