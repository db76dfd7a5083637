"""How a partition, or a group of them, is written in a list, by every front end. Pure."""

from __future__ import annotations

from breakglass.services.incident.groups import PartitionGroup, Sum, span_text
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, unread_figure

Listed = IncidentRow | PartitionGroup
"""What a line of a list stands for."""


def verdict_text(listed: Listed) -> str:
    """``BOMB``; ``...`` where the replicas are still being read."""
    return "..." if listed.verdict is None else listed.verdict.value


def action_text(listed: Listed) -> str:
    """``stop b4 NOW``."""
    return "" if listed.action is None else str(listed.action)


def name_text(listed: Listed) -> str:
    """``ledger-3``, ``carts-0..2 (3)``, ``orders-* (1,874)``."""
    if isinstance(listed, IncidentRow):
        return str(listed.partition)
    return f"{listed.topic}-{span_text(listed.span)} ({len(listed.rows):,})"


def best_text(listed: Listed) -> str:
    """The designee: ``b1``, ``various``, ``-``."""
    if isinstance(listed, PartitionGroup) and listed.various:
        return "various"
    return "-" if listed.designee is None else f"b{listed.designee}"


def log_end_text(listed: Listed) -> str:
    """The log end of the designee; a group has none."""
    return count(listed.log_end) if isinstance(listed, IncidentRow) else ""


def epoch_text(listed: Listed) -> str:
    """Last written epoch of the designee; a group has none."""
    return count(listed.epoch) if isinstance(listed, IncidentRow) else ""


def loses_text(listed: Listed) -> str:
    """``50``, ``~50``, ``>= 50``, ``?``; ``-`` where nobody is chosen."""
    if isinstance(listed, PartitionGroup):
        return _sum_text(listed.loss, about=listed.approximate)
    about = "~" if listed.approximate and isinstance(listed.loss, int) and listed.loss else ""
    return about + count(listed.loss)


def unread_text(listed: Listed) -> str:
    """Which replicas are unread, and what only they may hold: ``0``, ``b3``, ``b3 >= 25``."""
    if listed.verdict is None:
        return "-"
    if isinstance(listed, PartitionGroup):
        return _unread(listed.unread_brokers, listed.unread.at_least)
    return _unread(listed.unread, listed.unread_at_least)


def _unread(brokers: tuple[int, ...], at_least: int | Unknown | None) -> str:
    return "-" if at_least is None else unread_figure(brokers, at_least)


def heard_text(listed: Listed) -> str:
    """``2 of 3`` replicas have answered."""
    return "-" if listed.heard is None else f"{listed.heard[0]} of {listed.heard[1]}"


def _sum_text(total: Sum, *, about: bool) -> str:
    value = total.at_least
    if not isinstance(value, int):
        return count(value)
    sign = "" if total.exact else ">= "
    return f"{sign}{'~' if about and value else ''}{value:,}"
