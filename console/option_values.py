"""What texts of options stand for: names with commas between, pairs, durations and moments."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def names_in(text: str | None) -> tuple[str, ...]:
    """The names in ``A,B``; none where nothing was given."""
    return tuple(filter(None, (one.strip() for one in (text or "").split(","))))


def broker_ids(given: Sequence[str] | None, option: str) -> tuple[int, ...]:
    """The brokers that *option* names: ``4 7``, ``4,7``, ``b4``, or given again and again.

    Raises:
        UsageError: a word of it is no id.
    """
    from breakglass.services.errors import UsageError
    from breakglass.services.words.broker_ids import brokers_among

    try:
        return brokers_among(given or ())
    except ValueError:
        raise UsageError(
            f"{option} {' '.join(given or ())!r} names no brokers: write their ids, as 4 7 or 4,7."
        ) from None


def spread(args: Sequence[str], option: str) -> list[str]:
    """*args* with *option* repeated before each id that follows its first, as in ``--gone 4 7``."""
    from breakglass.services.words.broker_ids import names_brokers

    written: list[str] = []
    first_comes = more_may_come = False
    for word in args:
        if more_may_come and names_brokers(word):
            written.append(option)
        else:
            more_may_come = first_comes or word.startswith(f"{option}=")
            first_comes = word == option
        written.append(word)
    return written


def pairs_in(
    given: Sequence[str] | None, option: str, *, form: str = "NAME=VALUE", empty: bool = False
) -> dict[str, str]:
    """What each *option* says, by the name before its first ``=``.

    Raises:
        UsageError: one is not of the *form*, or has no value and may not be *empty*.
    """
    from breakglass.services.errors import UsageError

    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and (value or empty)):
            raise UsageError(f"{option} {text!r} is not written {form}: write it so.")
        found[name] = value
    return found


def duration_ms(text: str | None, option: str) -> int | None:
    """The milliseconds of a duration such as ``12h``; None where nothing was given.

    Raises:
        UsageError: what *option* says is none.
    """
    from breakglass.services.errors import UsageError

    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"{option} {text!r} is no duration: write it as 30d, 12h, 90m or 45s.")
    return int(match[1]) * _MILLISECONDS[match[2]]


def moment_ms(text: str | None, option: str) -> int | None:
    """The milliseconds since 1970 of a moment; None where nothing was given.

    Raises:
        UsageError: what *option* says is none.
    """
    from breakglass.services.errors import UsageError
    from breakglass.services.words.moments import moment_in

    if text is None:
        return None
    try:
        return moment_in(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no time: write it as 2026-01-31T12:00:00Z, or in ms."
        ) from None
