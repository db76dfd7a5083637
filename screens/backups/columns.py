"""The columns of backups: how each stands first, figures after it."""

from __future__ import annotations

from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.backup_watch.location import BackupState
from breakglass.services.backup_watch.watch import (
    BackupPartitionLine,
    Lag,
    Line,
    PlaceLine,
    TopicLine,
)
from breakglass.services.model import Unknown, known
from breakglass.services.words.figures import count, size_text
from breakglass.services.words.moments import moment_text
from breakglass.themes.roles import Role

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
EMPTY = Cell("")


def columns(now_ms: int) -> tuple[LineColumn[Line], ...]:
    """The columns at that moment."""

    def age(line: Line) -> Cell:
        match line:
            case PlaceLine():
                value = line.place.held.value
                at = value.newest_ms if known(value) else None
            case TopicLine():
                at = line.held.status.committed_at_ms if line.held.status else None
            case BackupPartitionLine():
                return EMPTY
        return Cell("-") if at is None else Cell(age_text(max(now_ms - at, 0) / 1000))

    def verified(line: Line) -> Cell:
        status = line.held.status if isinstance(line, TopicLine) else None
        if status is None:
            return EMPTY
        last = status.verified
        return Cell("never" if last is None else f"{moment_text(last.at_ms, now_ms)} {last.how}")

    return (
        LineColumn("Backup", _name, most=LONGEST_NAME, shrinks=True),
        LineColumn("State", _state),
        LineColumn("Lag", _lag, right=True),
        LineColumn("Age", age, right=True),
        LineColumn("Size", _size, right=True),
        LineColumn("First", _first, right=True, least_width=100),
        LineColumn("Last", _last, right=True, least_width=100),
        LineColumn("Records", _records, right=True, least_width=110),
        LineColumn("Segments", _segments, right=True, least_width=76),
        LineColumn("Lost", _lost, right=True),
        LineColumn("Verified", verified, least_width=120),
    )


def _name(line: Line) -> Cell:
    match line:
        case PlaceLine():
            return Cell(("▸" if line.closed else "▾") + line.place.url, Role.HEADING)
        case TopicLine():
            sign = " " if not line.held.partitions else "▾" if line.opened else "▸"
            return Cell(f" {sign}{line.held.name}")
        case BackupPartitionLine():
            return Cell(f"    {line.held.name}-{line.part.partition}")


def _state(line: Line) -> Cell:
    match line:
        case PlaceLine():
            held = line.place.held
            if held.failed is not None:
                return Cell("STALE", Role.STALE)
            if not known(held.value):
                return Cell("?", Role.UNKNOWN)
            if line.jobs:
                return Cell("running", Role.RUNNING)
            number = len(line.place.topics)
            return Cell(f"{number:,} topic{'s' * (number != 1)}", Role.MUTED)
        case TopicLine():
            return Cell(line.state, ROLES[line.state])
        case BackupPartitionLine():
            return Cell("lost", Role.LOST) if line.part.lost else EMPTY


def _lag(line: Line) -> Cell:
    return EMPTY if isinstance(line, PlaceLine) else _lag_cell(line.lag)


def _lag_cell(lag: Lag) -> Cell:
    return Cell(count(lag), Role.UNKNOWN if isinstance(lag, Unknown) else None)


def _size(line: Line) -> Cell:
    match line:
        case PlaceLine():
            topics = line.place.topics
            return Cell(size_text(sum(topic.bytes for topic in topics))) if topics else Cell("-")
        case TopicLine():
            return Cell(size_text(line.held.bytes)) if _counted(line) else Cell("?", Role.UNKNOWN)
        case BackupPartitionLine():
            return Cell(size_text(line.part.bytes))


def _counted(line: TopicLine) -> bool:
    """Whether there is a manifest that counts what is there."""
    return line.held.status is not None and line.held.status.commit is not None


def _first(line: Line) -> Cell:
    return Cell(count(line.part.first_offset)) if isinstance(line, BackupPartitionLine) else EMPTY


def _last(line: Line) -> Cell:
    return Cell(count(line.part.last_offset)) if isinstance(line, BackupPartitionLine) else EMPTY


def _records(line: Line) -> Cell:
    return _counts(line, "records")


def _segments(line: Line) -> Cell:
    return _counts(line, "segments")


def _lost(line: Line) -> Cell:
    cell = _counts(line, "lost")
    return Cell(cell.text, Role.LOST) if cell.text not in ("", "0", "?") else cell


def _counts(line: Line, what: str) -> Cell:
    match line:
        case PlaceLine():
            return EMPTY
        case TopicLine() if not _counted(line):
            return Cell("?", Role.UNKNOWN)
        case TopicLine():
            return Cell(count(getattr(line.held, what)))
        case BackupPartitionLine():
            return Cell(count(getattr(line.part, what)))
