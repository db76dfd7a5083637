"""How a partition, or a group of them, is written in a list, by every front end. Pure."""

from __future__ import annotations

from breakglass.services.incident.groups import PartitionGroup, Sum
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, unread_figure

Listed = IncidentRow | PartitionGroup
"""What a line of a list stands for."""


def verdict_text(one: Listed) -> str:
    """``BOMB``; ``...`` where the replicas are still being read."""
    return "..." if one.verdict is None else one.verdict.value


def action_text(one: Listed) -> str:
    """``stop b4 NOW``."""
    return "" if one.action is None else str(one.action)


def name_text(one: Listed) -> str:
    """``ledger-3``, ``carts-0..2 (3)``, ``orders-* (1,874)``."""
    if isinstance(one, IncidentRow):
        return str(one.partition)
    return f"{one.topic}-{one.numbers} ({len(one.rows):,})"


def best_text(one: Listed) -> str:
    """The designee: ``b1``, ``various``, ``-``."""
    if isinstance(one, PartitionGroup) and one.various:
        return "various"
    return "-" if one.designee is None else f"b{one.designee}"


def log_end_text(one: Listed) -> str:
    """Of the designee; a group has none."""
    return count(one.log_end) if isinstance(one, IncidentRow) else ""


def epoch_text(one: Listed) -> str:
    """Last written epoch of the designee; a group has none."""
    return count(one.epoch) if isinstance(one, IncidentRow) else ""


def loses_text(one: Listed) -> str:
    """``50``, ``~50``, ``>= 50``, ``?``; ``-`` where nobody is chosen."""
    if isinstance(one, PartitionGroup):
        return _sum_text(one.loss, about=one.approximate)
    about = "~" if one.approximate and isinstance(one.loss, int) and one.loss else ""
    return about + count(one.loss)


def unread_text(one: Listed) -> str:
    """Which replicas are unread, and what only they may hold: ``0``, ``b3``, ``b3 >= 25``."""
    if one.verdict is None:
        return "-"
    if isinstance(one, PartitionGroup):
        return _unread(one.unread_brokers, one.unread.at_least)
    return _unread(one.unread, one.unread_at_least)


def _unread(brokers: tuple[int, ...], at_least: int | Unknown | None) -> str:
    return "-" if at_least is None else unread_figure(brokers, at_least)


def heard_text(one: Listed) -> str:
    """``2 of 3`` replicas have answered."""
    return "-" if one.heard is None else f"{one.heard[0]} of {one.heard[1]}"


def _sum_text(total: Sum, *, about: bool) -> str:
    value = total.at_least
    if not isinstance(value, int):
        return count(value)
    sign = "" if total.exact else ">= "
    return f"{sign}{'~' if about and value else ''}{value:,}"
