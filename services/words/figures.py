"""How figures are written in tables and sentences: exact, ``~``, ``>=``, or ``?``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from services.model import Unknown
from services.words.inert import inert

if TYPE_CHECKING:
    from services.model import EpochHistory
    from services.recovery.judgement.loss import Loss, Unread
    from services.recovery.plan.document import RecordedLoss


def shown(value: object) -> str:
    """Return *value* as a table's cell shows it: ``?`` for what is not known, ``-`` for none."""
    if isinstance(value, Unknown):
        return "?"
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return inert(str(value))


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


def total_text(values: Iterable[int | Unknown]) -> str:
    """The sum of *values*; ``>= n`` where some are not known, ``?`` where none is."""
    held = list(values)
    known_values = [one for one in held if isinstance(one, int)]
    if len(known_values) == len(held):
        return f"{sum(known_values):,}"
    return f">= {sum(known_values):,}" if known_values else "?"


def unread_total(bounds: Sequence[Unread]) -> str:
    """What all *bounds* together say: ``0``, ``>= 25``, ``?``."""
    if len(bounds) == 1:
        return unread_text(bounds[0])
    if not any(one.replicas or one.at_least for one in bounds):
        return "0"
    at_least = total_text(one.at_least for one in bounds)
    return at_least if at_least.startswith((">=", "?")) else f">= {at_least}"


def partitions_text(number: int) -> str:
    """``1 partition``, ``1,874 partitions``."""
    return f"{number:,} partition{'' if number == 1 else 's'}"


def size_text(number: int | Unknown | None) -> str:
    """``512 B``, ``1.2 MB``, ``34 GB``; ``?`` for what is not known, ``-`` for none."""
    if not isinstance(number, int):
        return count(number)
    size, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    digits = 1 if unit != "B" and size < 9.95 else 0
    return f"{size:.{digits}f} {unit}"
