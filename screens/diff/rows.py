"""What stands on each line of the list: records beside or below each other, and marks between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.entry import RecordField, UnreadableRange
from breakglass.services.divergence.replicas import Facing
from breakglass.services.model import EpochHistory, ReplicaLog, Unknown

LETTERS = {
    RecordField.EPOCH: "e",
    RecordField.KEY: "k",
    RecordField.VALUE: "v",
    RecordField.HEADERS: "h",
    RecordField.TIMESTAMP: "t",
    RecordField.TYPE: "y",
    RecordField.MARKER: "m",
}
"""How fields that differ are named on a line."""


class Side(Enum):
    """Which side of a pair a line shows."""

    BOTH = "both"
    LEFT = "left"
    RIGHT = "right"


class OffsetMark(NamedTuple):
    """Something to be known of the offset that a line stands before."""

    offset: int
    text: str
    parting: bool = False
    """The two logs part here."""


class DiffRow(NamedTuple):
    """One line."""

    place: int
    """Which pair of the window it belongs to, or stands before."""
    pair: RecordPair | None
    side: Side = Side.BOTH
    mark: OffsetMark | None = None


def rows_of(
    pairs: Sequence[RecordPair], marks: Iterable[OffsetMark], end: int, *, stacked: bool
) -> list[DiffRow]:
    """The lines of *pairs* that reach up to *end*, *marks* between them.

    *stacked*: what differs takes two lines, the left side's above the right side's.
    """
    waiting = sorted(marks, key=lambda mark: mark.offset)
    first = pairs[0].offset if pairs else end
    waiting = [mark for mark in waiting if first <= mark.offset <= end]
    rows: list[DiffRow] = []
    for place, pair in enumerate(pairs):
        while waiting and waiting[0].offset <= pair.offset:
            rows.append(DiffRow(place, None, mark=waiting.pop(0)))
        rows += [DiffRow(place, pair, side) for side in _sides(pair, stacked=stacked)]
    last = max(len(pairs) - 1, 0)
    return [*rows, *(DiffRow(last, None, mark=mark) for mark in waiting)]


def _sides(pair: RecordPair, *, stacked: bool) -> Iterator[Side]:
    if not stacked or pair.kind is PairKind.EQUAL:
        yield Side.BOTH
        return
    if pair.left is not None:
        yield Side.LEFT
    if pair.right is not None:
        yield Side.RIGHT


def marks_of(facing: Facing) -> Iterator[OffsetMark]:
    """Where the two part, where either ends, and what was committed, by what their brokers say."""
    if not isinstance(facing.divergence, Unknown):
        yield OffsetMark(facing.divergence, parting_text(facing), parting=True)
    yield from _high_watermarks(facing)
    for log in (facing.left, facing.right):
        if not isinstance(log.log_end, Unknown):
            committed = ", all of it committed" if log.high_watermark == log.log_end else ""
            yield OffsetMark(log.log_end, f"b{log.broker} ends at {log.log_end:,}{committed}")


def _high_watermarks(facing: Facing) -> Iterator[OffsetMark]:
    """Up to where each side knows its records to be committed, if that is not all of them."""
    told: dict[int, list[str]] = {}
    for log in (facing.left, facing.right):
        mark = log.high_watermark
        if not isinstance(mark, Unknown) and mark != log.log_end:
            told.setdefault(mark, []).append(f"b{log.broker}")
    for mark, names in told.items():
        yield OffsetMark(mark, f"committed up to {mark:,}, as {' and '.join(names)} heard")


def parting_text(facing: Facing) -> str:
    """``diverge at 100: b1 in epoch 2, b2 in epoch 1``."""
    at = facing.divergence
    if isinstance(at, Unknown):
        return f"it is unknown where they diverge: {at.reason}"
    return f"diverge at {at:,}: {_goes_on(facing.left, at)}, {_goes_on(facing.right, at)}"


def _goes_on(log: ReplicaLog, at: int) -> str:
    if log.log_end == at:
        return f"b{log.broker} ends"
    epoch = log.epochs.epoch_at(at) if isinstance(log.epochs, EpochHistory) else None
    return f"b{log.broker} continues" if epoch is None else f"b{log.broker} in epoch {epoch}"


def letters(pair: RecordPair) -> str:
    """The fields that differ, a letter each."""
    return "".join(LETTERS[field] for field in pair.fields)


def fields_told(pair: RecordPair, *, letters: bool = True) -> str:
    """The fields that differ: ``epoch (e), value (v)``; *letters* are those of the list."""
    return ", ".join(
        [f"{field} ({LETTERS[field]})" if letters else str(field) for field in pair.fields]
    )


def about(pair: RecordPair, facing: Facing, *, letters: bool = True) -> str:
    """What *pair* is, in words: ``offset 100: different in epoch (e), value (v)``."""
    if pair.kind is PairKind.DIFFERENT:
        return f"offset {pair.offset:,}: different in {fields_told(pair, letters=letters)}"
    for item, log in ((pair.left, facing.left), (pair.right, facing.right)):
        if isinstance(item, UnreadableRange):
            return (
                f"b{log.broker} cannot be read from {item.start:,} to {item.end:,}: {item.reason}"
            )
    only = facing.left if pair.kind is PairKind.LEFT else facing.right
    where = "the same on both" if pair.kind is PairKind.EQUAL else f"only on b{only.broker}"
    return f"offset {pair.offset:,}: {where}"
