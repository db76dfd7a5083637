"""How moments are written: UTC, as short as can be, and read as operators write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from breakglass.services.model import Unknown

DAY = timedelta(days=1)


def moment_in(text: str) -> int:
    """The milliseconds since 1970 that *text* says: as they are, or in ISO 8601, UTC if it is bare.

    Raises:
        ValueError: *text* is not a moment.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def moment_of(milliseconds: int | None | Unknown) -> datetime | str:
    """The moment; or, where there is none, the text in its place: ``?``, ``-``, the bare number."""
    if isinstance(milliseconds, Unknown):
        return "?"
    if milliseconds is None or milliseconds < 0:
        return "-"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)


def time_text(milliseconds: int | None | Unknown) -> str:
    """A timestamp as UTC date and time; ``-`` for a log without records."""
    moment = moment_of(milliseconds)
    return moment if isinstance(moment, str) else f"{moment:%Y-%m-%d %H:%M:%S}Z"


def clock_text(milliseconds: int) -> str:
    """``13:56:12Z``, next to an age that says which day."""
    moment = moment_of(milliseconds)
    return moment if isinstance(moment, str) else f"{moment:%H:%M:%S}Z"


def moment_text(milliseconds: int | None | Unknown, now_ms: int) -> str:
    """``10:45:12`` within a day of *now_ms*, else ``2023-11-14``; ``-`` where there is none."""
    moment = moment_of(milliseconds)
    if isinstance(moment, str):
        return moment
    near = abs(datetime.fromtimestamp(now_ms / 1000, UTC) - moment) < DAY
    return f"{moment:%H:%M:%S}" if near else f"{moment:%Y-%m-%d}"
