"""Choosing who leads one partition: every replica, what it loses, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.line_table import Cell, LineColumn, LineTable
from breakglass.services.model import TopicPartition, known
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.plan.candidates import ReplicaCandidate
from breakglass.services.words.figures import count
from breakglass.themes.roles import Role


class LeaderDialog(Dialog[int]):
    """Ends with a broker that can be elected, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Elect it")]

    def __init__(
        self,
        partition: TopicPartition,
        candidates: Sequence[ReplicaCandidate],
        leader: int | None,
        recommended: int | None,
    ) -> None:
        super().__init__(f"Who leads {partition}?")
        self._candidates, self._leader, self._recommended = candidates, leader, recommended

    def body(self) -> Iterator[Widget]:
        yield LineTable(self._columns(), lambda one: one.broker, empty="no replica is known")

    def on_mount(self) -> None:
        table = self._table()
        table.set_rows(self._candidates)
        table.move_to(self._leader if self._leader is not None else self._recommended)
        table.focus()
        self._explain(table.current)

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        self._explain(message.row)

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        chosen: ReplicaCandidate = message.row
        if chosen.eligible:
            self.dismiss(chosen.broker)
        else:
            self.say(f"b{chosen.broker} cannot be elected: {chosen.refusal}")

    def action_choose(self) -> None:
        self._table().action_choose()

    def _table(self) -> LineTable[ReplicaCandidate]:
        return self.query_one(LineTable)

    def _explain(self, one: ReplicaCandidate | None) -> None:
        if one is None:
            return
        if one.refusal:
            self.say(f"b{one.broker} cannot be elected: {one.refusal}", Role.UNKNOWN)
            return
        told = [_price(one)]
        if one.own_consent:
            told.append(f"Needs a consent of its own: {one.own_consent}.")
        self.say(" ".join(told), _role(one))

    def _columns(self) -> Sequence[LineColumn[ReplicaCandidate]]:
        return (
            LineColumn("Broker", self._broker),
            LineColumn("Role", lambda one: Cell(one.replica.role.value)),
            LineColumn("LEO", lambda one: Cell(count(one.replica.log_end)), right=True),
            LineColumn(
                "Epoch", lambda one: Cell(count(one.replica.last_written_epoch)), right=True
            ),
            LineColumn("Loses", _loses, right=True),
            LineColumn("Can lead", _can, shrinks=True),
        )

    def _broker(self, one: ReplicaCandidate) -> Cell:
        remarks = []
        if one.broker == self._leader:
            remarks.append("elected")
        if one.broker == self._recommended:
            remarks.append("best")
        said = f" {', '.join(remarks)}" if remarks else ""
        return Cell(f"b{one.broker}{said}", Role.DESIGNEE if one.broker == self._leader else None)


def _wipes(one: ReplicaCandidate) -> bool:
    """Its log has no record: electing it destroys all that the others hold."""
    return not holds_records(one.replica) and one.loses.records != 0


def _price(one: ReplicaCandidate) -> str:
    counted = one.loses if known(one.loses.records) else "an unknown number of records"
    if _wipes(one):
        return f"b{one.broker} is EMPTY: electing it DESTROYS {counted}."
    return f"Electing b{one.broker} loses {counted}."


def _role(one: ReplicaCandidate) -> Role | None:
    if _wipes(one):
        return Role.LOST
    return Role.UNKNOWN if one.own_consent else None


def _loses(one: ReplicaCandidate) -> Cell:
    if not known(one.loses.records):
        return Cell("DESTROYS ?", Role.LOST) if _wipes(one) else Cell("?", Role.UNKNOWN)
    if _wipes(one):
        return Cell(f"DESTROYS {one.loses}", Role.LOST)
    return Cell(str(one.loses), Role.LOST if one.loses.records else None)


def _can(one: ReplicaCandidate) -> Cell:
    if one.refusal:
        return Cell(f"no: {one.refusal}", Role.MUTED)
    return Cell("with its own consent" if one.own_consent else "yes")
