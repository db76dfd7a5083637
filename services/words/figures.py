"""How figures and hostile texts are written, and how operators write amounts and broker ids.

Commands, screens and settings share these readers, so that an amount (``30d``, ``20MB/s``) and a
list of brokers (``4 7``, ``4,7``, ``b4, b7``) are written one way everywhere.
"""

from __future__ import annotations

import re
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


_BETWEEN = re.compile(r"[\s,]+")
_ID = re.compile(r"b?([0-9]{1,10})", re.ASCII)


def brokers_in(text: str) -> tuple[int, ...]:
    """The ids in *text*, each once, in its order.

    Raises:
        ValueError: a word is not an id.
    """
    found = [_ID.fullmatch(word) for word in _BETWEEN.split(text) if word]
    if not all(found):
        raise ValueError(f"{text!r} names no brokers")
    return tuple(dict.fromkeys(int(match[1]) for match in found if match))


def names_brokers(word: str) -> bool:
    """Whether *word* consists of ids alone."""
    try:
        return bool(brokers_in(word))
    except ValueError:
        return False


def brokers_among(texts: Iterable[str]) -> tuple[int, ...]:
    """The ids in all of *texts*, each once. Raises ValueError."""
    return brokers_in(" ".join(texts))


_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,3})?)"
_DURATION = re.compile(_NUMBER + "(ms|s|m|h|d)?", re.ASCII)
_SIZE = re.compile(_NUMBER + "([kKMGT]i?)?B?", re.ASCII)
_RATE = re.compile(_NUMBER + "(?:([kKMGT]i?)?B/s)?", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
UNITS = "kB, MB, GB and TB are powers of 1,000 (K, KB: as kB), KiB, MiB, GiB and TiB of 1,024"
UNLIMITED = "unlimited"


def duration_ms(text: str, *, bare: str = "") -> int:
    """The milliseconds of a duration such as ``30d``, ``12h``, ``90m``, ``45s`` or ``500ms``.

    *bare* is the unit of a number without a unit; empty where a unit must be written.

    Raises:
        ValueError: *text* is not a duration.
    """
    match = _DURATION.fullmatch(text)
    unit = match[2] or bare if match else ""
    if match is None or not unit:
        raise ValueError(f"{text!r} is not a duration: write it as 30d, 12h, 90m or 45s")
    return round(float(match[1]) * _MILLISECONDS[unit])


def size_bytes(text: str) -> int:
    """The bytes of a size such as ``10GB``, ``1GiB``, ``64K`` or ``500000``.

    Raises:
        ValueError: *text* is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size: write it as 10GB, 512MiB or 4096; {UNITS}")
    return round(float(match[1]) * _bytes(match[2]))


def _bytes(unit: str | None) -> int:
    return _BYTES[(unit or "").replace("K", "k")]


def rate_bytes(text: str) -> float:
    """The bytes a second of a rate such as ``20MB/s``; 0.0 for ``unlimited``.

    Raises:
        ValueError: *text* is not a rate.
    """
    if text == UNLIMITED:
        return 0.0
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a rate: write it as 20MB/s, 500kB/s or unlimited")
    return float(match[1]) * _bytes(match[2])
