"""One partition's part of a journal, step by step: over the journal, until Esc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType

from breakglass.screens.journal.rows import role_of
from breakglass.screens.widgets.overlay import Overlay
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.guard.journal_view import JournalStep
from breakglass.services.recovery.judgement.starting import do_not_start
from breakglass.services.recovery.timeline.account import Account
from breakglass.services.recovery.timeline.ending import PartitionEnding, result_of
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, role_style

LENGTH = 500
SAID = ("order", "assignment", "designee", "leader_epoch", "log_end", "from", "to")
"""What of a request is worth reading; the rest is for a resume."""


class StoryScreen(Overlay):
    """What was sent for a partition, when, and what became of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "Close")]

    def __init__(self, account: Account, ending: PartitionEnding) -> None:
        super().__init__()
        self._account, self._ending = account, ending

    def content(self) -> RenderableType:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for label, part in self._lines():
            style = role_style(self.app, part.role) if part.role else ""
            heading = Text(label, role_style(self.app, Role.HEADING))
            table.add_row(heading, Text(bounded(part.text, LENGTH), style))
        return table

    def _lines(self) -> Iterator[tuple[str, LinePart]]:
        ending = self._ending
        yield "Partition", LinePart(str(ending.partition))
        epoch = "" if ending.leader_epoch is None else f", epoch {ending.leader_epoch}"
        led = "" if ending.leader is None else f", b{ending.leader}{epoch}"
        rung = f", {ending.rung}" if ending.rung else ""
        yield "Result", LinePart(f"{ending.result}{led}{rung}", role_of(ending))
        if ending.price:
            yield "Loses", LinePart(ending.agreed)
        for broker in ending.abandons:
            yield f"b{broker}", LinePart(do_not_start(broker), Role.UNKNOWN)
        for saved in ending.rescued:
            where = f"{count(saved.records)} records of b{saved.broker} in {saved.path}"
            yield "Rescued", LinePart(where)
        if ending.order_kept:
            yield "Order", LinePart("its assignment was not put back", Role.FAILED)
        for step in self._account.view.steps_of(ending.partition):
            yield "", LinePart("")
            yield from _step(step, ending)
        yield "", LinePart("")
        yield "", LinePart("Esc closes", Role.MUTED)


def _step(step: JournalStep, ending: PartitionEnding) -> Iterator[tuple[str, LinePart]]:
    outcome = result_of(step, ending.partition)
    yield time_text(step.request.at_ms), LinePart(step.name, Role.HEADING)
    asked = _said(step.items[ending.partition], SAID)
    if asked:
        yield "asked", LinePart(asked)
    yield "became", LinePart(outcome.result)
    told = {name: detail for name, detail in outcome.details.items() if detail and name != "saved"}
    for name, value in told.items():
        yield name, LinePart(_text(value))


def _said(item: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_text(item[name])}" for name in names if name in item
    )


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value[:64]))
    return str(value)
