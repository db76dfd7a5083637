"""The table of an election: a row for each partition, and its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from breakglass.screens.elect.progress import (
    ASKED,
    CONFIRMED,
    PartitionStanding,
    alone,
    left_out,
    spared,
)
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.services.guard.consent import Price
from breakglass.services.model import TopicPartition, Unknown, known
from breakglass.services.recovery.guarded.election_quote import Priced
from breakglass.services.recovery.guarded.subject import ElectionSubject
from breakglass.services.recovery.judgement.loss import UnreadRecords
from breakglass.services.words.figures import count, unread_text
from breakglass.themes.roles import Role


@dataclass(frozen=True, slots=True)
class ElectionRow:
    """One partition of an election. Where it stands is looked up when its line is drawn."""

    partition: TopicPartition
    asked: PartitionStanding
    """Where it stands before anything was sent."""
    designee: int | None = None
    epoch: int | Unknown | None = None
    """Last written epoch of the designee."""
    log_end: int | Unknown | None = None
    price: Price | None = None
    unread: UnreadRecords | None = None


StandingOf = Callable[[ElectionRow], PartitionStanding]


def rows_of(subject: ElectionSubject) -> tuple[ElectionRow, ...]:
    """A row for each partition of *subject*, in its order; those left out come last."""
    elected = (
        _row(subject, priced, unread)
        for priced, unread in zip(subject.wanted, subject.unread, strict=True)
    )
    confirmed = (ElectionRow(led.partition, CONFIRMED, led.designee) for led in subject.led)
    left = (ElectionRow(omitted.partition, left_out(omitted.reason)) for omitted in subject.left)
    return (*elected, *confirmed, *left)


def _row(subject: ElectionSubject, priced: Priced, unread: UnreadRecords) -> ElectionRow:
    designee = priced.target.designee
    replica = priced.evidence.replica(designee)
    return ElectionRow(
        priced.partition,
        _asked(subject, priced.partition),
        designee,
        None if replica is None else replica.last_written_epoch,
        None if replica is None else replica.log_end,
        priced.stake.price,
        unread,
    )


def _asked(subject: ElectionSubject, partition: TopicPartition) -> PartitionStanding:
    """What an operator should know of it before consenting."""
    why = subject.why_alone.get(partition, "")
    if partition in subject.spared:
        return spared(subject.spared[partition], why)
    return alone(why) if why else ASKED


def _loses(row: ElectionRow) -> Cell:
    if row.price is None:
        return Cell("-", Role.MUTED)
    if not known(row.price.records):
        return Cell("?", Role.UNKNOWN)
    return Cell(str(row.price), Role.LOST if row.price.records else None)


def _unread(row: ElectionRow) -> Cell:
    if row.unread is None:
        return Cell("-", Role.MUTED)
    text = unread_text(row.unread)
    return Cell(text, None if text == "0" else Role.UNKNOWN)


def columns(standing: StandingOf) -> tuple[LineColumn[ElectionRow], ...]:
    """The columns; *standing* tells where a row stands now."""

    def state(row: ElectionRow) -> Cell:
        found = standing(row)
        return Cell(found.text, found.role)

    return (*_FIGURES, LineColumn("State", state, most=60, shrinks=True))


_FIGURES: tuple[LineColumn[ElectionRow], ...] = (
    LineColumn("Topic-partition", lambda row: Cell(str(row.partition)), shrinks=True, tail="-"),
    LineColumn("Elect", lambda row: Cell("-" if row.designee is None else f"b{row.designee}")),
    LineColumn("Epoch", lambda row: Cell(count(row.epoch)), right=True, least_width=70),
    LineColumn("LEO", lambda row: Cell(count(row.log_end)), right=True, least_width=70),
    LineColumn("Loses", _loses, right=True),
    LineColumn("Unread", _unread, right=True, least_width=56),
)
