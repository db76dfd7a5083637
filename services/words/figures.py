"""How figures are written in tables and sentences: exact, ``~``, ``>=``, or ``?``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.model import EpochHistory
    from breakglass.services.recovery.judgement.loss import Loss, UnreadRecords
    from breakglass.services.recovery.plan.document import RecordedLoss


def contents_text(replica: ReplicaLog) -> str:
    """``whole 0..120``, ``whole 80..120, older not read``, ``corrupt at 40``, ``empty``."""
    contents = replica.contents
    if isinstance(contents, Unknown):
        return "not read"
    start, end = contents.verified_from, contents.verified_to
    older = ", older not read" if contents.stopped else ""
    if start == end == replica.log_end and not older:
        return "empty"
    if contents.corrupt_at is not None:
        return f"corrupt at {contents.corrupt_at:,}{older}"
    if isinstance(replica.log_end, int) and end < replica.log_end:
        return f"whole {start:,}..{end:,}, the rest not read"
    return f"whole {start:,}..{end:,}{older}"


def contents_sentence(replica: ReplicaLog) -> str:
    """The same with the reason why more was not read, or with what is wrong."""
    contents = replica.contents
    if isinstance(contents, Unknown):
        return contents.reason
    why = "; ".join([reason for reason in (contents.damage, contents.stopped) if reason])
    return f"contents {contents_text(replica)}{f' ({why})' if why else ''}"


def shown(value: object) -> str:
    """Return *value* as a table's cell shows it: ``?`` for an unknown value, ``-`` for none."""
    if isinstance(value, Unknown):
        return "?"
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return inert(str(value))


def count(value: int | Unknown | None) -> str:
    """``1,874``, ``?`` for an unknown value, ``-`` for none."""
    if isinstance(value, Unknown):
        return "?"
    return "-" if value is None else f"{value:,}"


def loss_text(loss: Loss | RecordedLoss | None) -> str:
    """What a choice loses: ``50``, ``~50``, ``?``; ``-`` if no leader is chosen."""
    if loss is None:
        return "-"
    about = "~" if loss.approximate and isinstance(loss.total, int) and loss.total else ""
    return about + count(loss.total)


def unread_text(unread: UnreadRecords) -> str:
    """Which replicas are unread, and what only they may hold: ``0``, ``b3``, ``b3 >= 25``."""
    return unread_figure(unread.replicas, unread.at_least)


def unread_figure(brokers: Sequence[int], at_least: int | Unknown) -> str:
    """Who is unread as a column has it; a bound only where it says something.

    ``>= 25`` alone: every replica was read, and at least 25 records are in no log that was read.
    """
    names = broker_names(brokers, NAMED_IN_COLUMN)
    if isinstance(at_least, Unknown):
        return names or "?"
    least = f">= {at_least:,}" if at_least else ""
    return " ".join([part for part in (names, least) if part]) or "0"


def broker_names(brokers: Sequence[int], most: int) -> str:
    """``b2,b3``; their number where there are more than *most*; empty for none."""
    if len(brokers) > most:
        return f"{len(brokers):,} brokers"
    return ",".join([f"b{broker}" for broker in brokers])


NAMED_IN_COLUMN = 2
NAMED_IN_SENTENCE = 5


def epochs_text(epochs: EpochHistory | Unknown) -> str:
    """Written epochs, newest last: ``0 2``, ``... 7 9 12``; ``-`` for none."""
    if isinstance(epochs, Unknown):
        return "?"
    written = [str(range_.epoch) for range_ in epochs.ranges]
    shown = written if len(written) <= SHOWN_EPOCHS else ["...", *written[-SHOWN_EPOCHS:]]
    return " ".join(shown) or "-"


SHOWN_EPOCHS = 4


def total_text(values: Iterable[int | Unknown]) -> str:
    """The sum of *values*; ``>= n`` where some are unknown, ``?`` where all are."""
    given = list(values)
    known_values = [value for value in given if isinstance(value, int)]
    if len(known_values) == len(given):
        return f"{sum(known_values):,}"
    return f">= {sum(known_values):,}" if known_values else "?"


def unread_total(bounds: Sequence[UnreadRecords]) -> str:
    """What all *bounds* together say: ``0``, ``b3``, ``b3 >= 25``."""
    return unread_figure(*_unread_of_all(bounds))


def unread_told(bounds: Sequence[UnreadRecords]) -> str:
    """The same in a sentence: ``b3 unread``, ``b3 unread (at least 25)``, ``nothing unread``."""
    brokers, at_least = _unread_of_all(bounds)
    least = f"at least {at_least:,}" if isinstance(at_least, int) and at_least else ""
    if not brokers:
        return f"{least} in no replica" if least else "nothing unread"
    unread = f"{broker_names(brokers, NAMED_IN_SENTENCE)} unread"
    return f"{unread} ({least})" if least else unread


def _unread_of_all(bounds: Sequence[UnreadRecords]) -> tuple[tuple[int, ...], int | Unknown]:
    """Who is unread in any of *bounds*; the sum of what is known, which is a lower bound."""
    brokers = {broker for bound in bounds for broker in bound.replicas}
    unknown = [bound.at_least for bound in bounds if isinstance(bound.at_least, Unknown)]
    if unknown and len(unknown) == len(bounds):
        return tuple(sorted(brokers)), unknown[0]
    known = sum(bound.at_least for bound in bounds if isinstance(bound.at_least, int))
    return tuple(sorted(brokers)), known


def partitions_text(number: int) -> str:
    """``1 partition``, ``1,874 partitions``."""
    return f"{number:,} partition{'' if number == 1 else 's'}"


def size_text(number: int | Unknown | None) -> str:
    """``512 B``, ``1.2 MB``, ``34 GB``; ``?`` for an unknown size, ``-`` for none."""
    if not isinstance(number, int):
        return count(number)
    size, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    digits = 1 if unit != "B" and size < 9.95 else 0
    return f"{size:.{digits}f} {unit}"
