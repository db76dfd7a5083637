"""How offsets, epochs and losses are written in tables: exact, ``~``, ``>=``, or ``?``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from services.model import EpochHistory, Unknown
from services.recovery.judgement.assessment import Assessment
from services.recovery.judgement.loss import Loss, Unread

if TYPE_CHECKING:
    from services.recovery.plan.document import RecordedLoss


def count(value: int | Unknown | None) -> str:
    """``1,874``, ``?`` for what is not known, ``-`` for none."""
    if isinstance(value, Unknown):
        return "?"
    return "-" if value is None else f"{value:,}"


def loss_text(loss: Loss | RecordedLoss | None) -> str:
    """What a choice loses: ``50``, ``~50``, ``?``; ``-`` where nobody is chosen."""
    if loss is None:
        return "-"
    about = "~" if loss.approximate and isinstance(loss.total, int) and loss.total else ""
    return about + count(loss.total)


def unread_text(unread: Unread) -> str:
    """What only unread replicas may hold: ``0``, ``>= 25``, ``?``."""
    if isinstance(unread.at_least, Unknown):
        return "?"
    if not unread.replicas and not unread.at_least:
        return "0"
    return f">= {unread.at_least:,}"


def epochs_text(epochs: EpochHistory | Unknown) -> str:
    """Written epochs, newest last: ``0 2``, ``... 7 9 12``; ``-`` for none."""
    if isinstance(epochs, Unknown):
        return "?"
    written = [str(one.epoch) for one in epochs.ranges]
    shown = written if len(written) <= SHOWN_EPOCHS else ["...", *written[-SHOWN_EPOCHS:]]
    return " ".join(shown) or "-"


SHOWN_EPOCHS = 4


def time_text(milliseconds: int | None | Unknown) -> str:
    """A timestamp as UTC date and time; ``-`` for a log without records."""
    if isinstance(milliseconds, Unknown):
        return "?"
    if milliseconds is None or milliseconds < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def heard_text(assessment: Assessment) -> str:
    """``2 of 3`` replicas have answered."""
    return f"{assessment.heard[0]} of {assessment.heard[1]}"


def total_text(values: Iterable[int | Unknown]) -> str:
    """The sum of *values*; ``>= n`` where some are not known, ``?`` where none is."""
    held = list(values)
    known_values = [one for one in held if isinstance(one, int)]
    if len(known_values) == len(held):
        return f"{sum(known_values):,}"
    return f">= {sum(known_values):,}" if known_values else "?"
