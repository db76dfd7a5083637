"""The columns of the offline partitions: the verdict and the action lead, figures follow."""

from __future__ import annotations

from collections.abc import Callable

from breakglass.screens.widgets.line_table import Cell, LineColumn
from breakglass.services.incident import cells
from breakglass.services.incident.cells import Listed
from breakglass.services.incident.groups import PartitionGroup
from breakglass.services.model import Unknown
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.themes.roles import Role

VERDICT_ROLES = {
    Verdict.BOMB: Role.BOMB,
    Verdict.FORK: Role.FORK,
    Verdict.LOSS: Role.LOST,
    Verdict.STUCK: Role.STUCK,
    Verdict.WAIT: Role.WAITING,
    Verdict.SAFE: Role.SAFE,
}
LONGEST_NAME = 80
WORD = max(len(one.value) for one in Verdict)


def columns(opened: Callable[[Listed], bool | None]) -> tuple[LineColumn[Listed], ...]:
    """The columns; *opened* says of a group whether it is, of one of its partitions None."""

    def verdict(one: Listed) -> Cell:
        shown = f"{cells.verdict_text(one):<{WORD}} {cells.action_text(one)}"
        return Cell(shown, Role.MUTED if one.verdict is None else VERDICT_ROLES[one.verdict])

    def name(one: Listed) -> Cell:
        shown = cells.name_text(one)
        if isinstance(one, PartitionGroup):
            return Cell(("▾" if opened(one) else "▸") + shown)
        return Cell(("   " if opened(one) is None else " ") + shown)

    return (
        LineColumn("Verdict", verdict),
        LineColumn(" Topic-partition", name, most=LONGEST_NAME, shrinks=True),
        LineColumn("Best", _best, least_width=50),
        LineColumn("LEO", _log_end, right=True, least_width=70, yields=2),
        LineColumn("Epoch", _epoch, right=True, least_width=78, yields=1),
        LineColumn("Loses", _loses, right=True),
        LineColumn("Unread", _unread, right=True, least_width=66),
        LineColumn("Heard", _heard, least_width=72),
    )


def _best(one: Listed) -> Cell:
    return Cell(cells.best_text(one), None if one.designee is None else Role.DESIGNEE)


def _log_end(one: Listed) -> Cell:
    return _figure(cells.log_end_text(one))


def _epoch(one: Listed) -> Cell:
    return _figure(cells.epoch_text(one))


def _loses(one: Listed) -> Cell:
    text = cells.loses_text(one)
    value = one.loss.at_least if isinstance(one, PartitionGroup) else one.loss
    if isinstance(value, Unknown):
        return Cell(text, Role.UNKNOWN)
    return Cell(text, Role.LOST if value else None)


def _unread(one: Listed) -> Cell:
    text = cells.unread_text(one)
    return Cell(text, None if text in ("0", "-") else Role.UNKNOWN)


def _heard(one: Listed) -> Cell:
    heard = one.heard
    all_heard = heard is not None and heard[0] == heard[1]
    return Cell(cells.heard_text(one), None if all_heard else Role.UNKNOWN)


def _figure(text: str) -> Cell:
    return Cell(text, Role.UNKNOWN if text == "?" else None)
