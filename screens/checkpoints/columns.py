"""The columns of checkpoints: state and level first, figures after them."""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.watch import (
    CheckpointLine,
    CheckpointPartitionLine,
    Line,
    StoreLine,
    sizes,
)
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, size_text
from breakglass.themes.roles import Role

ROLES = {
    Status.COMPLETED: Role.VERIFIED,
    Status.ONGOING: Role.RUNNING,
    Status.FAILED: Role.FAILED,
    Status.INCOMPLETE: Role.WAITING,
    Status.DOES_NOT_EXIST: Role.MUTED,
}
LONGEST_NAME = 80
EMPTY = Cell("")
UNKNOWN = Cell("?", Role.UNKNOWN)
DAMAGED = Cell("damaged", Role.FAILED)


def columns(now_ms: int) -> tuple[LineColumn[Line], ...]:
    """The columns at that moment."""

    def age(line: Line) -> Cell:
        if not isinstance(line, CheckpointLine):
            return EMPTY
        at = line.found.created_at_ms
        return UNKNOWN if at is None else Cell(age_text(max(now_ms - at, 0) / 1000))

    def verified(line: Line) -> Cell:
        if isinstance(line, StoreLine):
            return EMPTY
        last = line.found.verified
        if last is None:
            # Whether it is a checkpoint that can be restored, as far as is known.
            return (
                Cell("never", Role.MUTED)
                if (isinstance(line, CheckpointLine) and line.found.status is Status.COMPLETED)
                else EMPTY
            )
        if isinstance(line, CheckpointPartitionLine):
            whole = line.part.number not in last.damage
            return Cell("whole", Role.VERIFIED) if whole else DAMAGED
        if last.damage:
            return DAMAGED
        return Cell(age_text(max(now_ms - last.at_ms, 0) / 1000), Role.VERIFIED)

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


def _name(line: Line) -> Cell:
    match line:
        case StoreLine():
            return Cell(line.seen.url, Role.HEADING)
        case CheckpointLine():
            return Cell(f" {'▾' if line.opened else '▸'}{line.found.id}")
        case CheckpointPartitionLine():
            subject = line.part.subject
            named = "?" if subject is None else f"{subject.topic}-{subject.partition}"
            return Cell(f"    {named}")


def _state(line: Line) -> Cell:
    match line:
        case StoreLine():
            held = line.seen.held
            if isinstance(held, Unknown):
                return UNKNOWN
            return Cell(f"{len(held):,} checkpoint{'s' * (len(held) != 1)}", Role.MUTED)
        case CheckpointLine():
            return Cell(line.found.state, ROLES[line.found.status])
        case CheckpointPartitionLine():
            return Cell(line.part.status, ROLES[line.part.status])


def _level(line: Line) -> Cell:
    if not isinstance(line, CheckpointLine):
        return EMPTY
    take = line.found.take
    return UNKNOWN if take is None else Cell(take.level)


def _copied(line: Line) -> Cell:
    match line:
        case CheckpointLine():
            return Cell(f"{line.found.completed:,}/{len(line.found.partitions):,}")
        case CheckpointPartitionLine() if line.far is not None and line.far.offsets:
            return Cell(f"{min(line.far.records / line.far.offsets, 1):.0%}", Role.RUNNING)
        case _:
            return EMPTY


def _size(line: Line) -> Cell:
    match line:
        case StoreLine():
            held = line.seen.held
            if isinstance(held, Unknown):
                return UNKNOWN
            return _total(size for found in held for size in sizes(found))
        case CheckpointLine():
            return _total(sizes(line.found))
        case CheckpointPartitionLine():
            if line.far is not None:
                return Cell(size_text(line.far.bytes), Role.RUNNING)
            copy = line.part.counting
            size = None if copy is None else copy.size
            return EMPTY if size is None else Cell(size_text(size))


def _total(parts: Iterable[int | Unknown]) -> Cell:
    """What is copied; at least so much where not all of it is."""
    held = list(parts)
    known = [size for size in held if isinstance(size, int)]
    if held and not known:
        return UNKNOWN
    least = "" if len(known) == len(held) else ">= "
    return Cell(f"{least}{size_text(sum(known))}")


def _cut(line: Line) -> Cell:
    if not isinstance(line, CheckpointPartitionLine):
        return EMPTY
    cut = line.found.cut
    return UNKNOWN if cut is None else Cell(count(cut.positions.get(line.part.number)))


def _records(line: Line) -> Cell:
    if not isinstance(line, CheckpointPartitionLine):
        return EMPTY
    if line.far is not None:
        return Cell(count(line.far.records), Role.RUNNING)
    copy = line.part.counting
    return EMPTY if copy is None or copy.manifest is None else Cell(count(copy.manifest.records))


def _in_transit(line: Line) -> Cell:
    if isinstance(line, StoreLine):
        return EMPTY
    cut = line.found.cut
    if cut is None:
        return UNKNOWN
    if isinstance(line, CheckpointLine):
        return Cell(count(sum(map(len, cut.in_transit.values()))))
    return Cell(count(len(cut.in_transit.get(line.part.number, ()))))


def _node(line: Line) -> Cell:
    if not isinstance(line, CheckpointPartitionLine) or line.part.counting is None:
        return EMPTY
    return Cell(str(line.part.counting.id.node))
