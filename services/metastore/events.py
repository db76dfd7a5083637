"""What a backup tells while it runs: each event is a value with a sentence of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from breakglass.services.lag import Behind, CaughtUpAgain
from breakglass.services.words.moments import time_text


@dataclass(frozen=True, slots=True)
class CommandDifference:
    """Where a topic and a backup part: the first command that is not the same."""

    line: int
    """Of the backup."""
    offset: int
    """Of the topic."""
    field: str
    """``key`` or ``value``."""
    byte: int
    """The first byte of it that differs."""
    expected: str
    """What the backup has from there, bounded."""
    found: str
    """What the topic has from there, bounded."""

    def __str__(self) -> str:
        return (
            f"line {self.line} of the backup and the command at offset {self.offset} differ from "
            f"byte {self.byte} of the {self.field}: {self.expected!r} and {self.found!r}"
        )


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    kind: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class Begun(Event):
    """A new file was begun."""

    kind: ClassVar[str] = "begun"
    file: str
    difference: CommandDifference | None = None
    before: str = ""
    """The file that is kept, where the topic differs from it."""

    def __str__(self) -> str:
        if self.difference is None:
            return f"new backup file {self.file}"
        return f"new backup file {self.file}, and {self.before} is kept: {self.difference}"


@dataclass(frozen=True, slots=True)
class Continued(Event):
    """Every line of a file is in the topic: what follows is appended."""

    kind: ClassVar[str] = "continued"
    file: str
    lines: int

    def __str__(self) -> str:
        return f"{self.file} has the first {self.lines:,} commands of the topic and is continued"


@dataclass(frozen=True, slots=True)
class Mended(Event):
    """What a killed writer left behind was put right."""

    kind: ClassVar[str] = "mended"
    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(frozen=True, slots=True)
class Flagged(Event):
    """A command that one line of ``key:value`` cannot carry as it is."""

    kind: ClassVar[str] = "flagged"
    file: str
    offset: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}: the command at offset {self.offset} is kept whole, but {self.problem}"


@dataclass(frozen=True, slots=True)
class Shorter(Event):
    """The topic ends before the backup does."""

    kind: ClassVar[str] = "shorter"
    file: str
    commands: int
    """That the topic has."""
    missing: int
    """Lines of the backup behind them."""

    def __str__(self) -> str:
        return (
            f"the topic ends after {self.commands:,} commands and {self.file} holds "
            f"{self.missing:,} more: compare them, then `breakglass metastore restore` puts them "
            "back"
        )


@dataclass(frozen=True, slots=True)
class NotNoted(Event):
    """Something that was told and could not be put on disk."""

    kind: ClassVar[str] = "not noted"
    danger: str
    """Of the alarm, or ``the status``."""
    reason: str

    def __str__(self) -> str:
        return f"this could not be noted on disk ({self.danger}): {self.reason}"


@dataclass(frozen=True, slots=True)
class FellBehind(Event):
    """The backup does not have everything that the topic has, or nobody knows whether."""

    kind: ClassVar[str] = "behind"
    since_ms: int
    since: str
    """The same, in UTC."""
    reason: str

    def __str__(self) -> str:
        return f"the backup is behind since {self.since}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CameBack(Event):
    """A backup that was behind has everything again."""

    kind: ClassVar[str] = "caught up again"
    since: str
    at: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"the backup caught up at {self.at}: it was behind since {self.since}, for "
            f"{self.seconds:,.1f} s"
        )


def of_lag(change: Behind | CaughtUpAgain) -> Event:
    """The event that tells of *change*."""
    since = time_text(change.since_ms)
    if isinstance(change, Behind):
        return FellBehind(change.since_ms, since, change.reason)
    return CameBack(since, time_text(change.at_ms), change.seconds)


Tell = Callable[[Event], None]


def document(event: Event) -> dict[str, Any]:
    """The event as one JSON object."""
    return {"event": event.kind, **asdict(event), "text": str(event)}


@dataclass(frozen=True, slots=True)
class CaughtUp(Event):
    """Everything that the topic holds is in the backup."""

    kind: ClassVar[str] = "caught up"
    file: str
    commands: int
    next_offset: int

    def __str__(self) -> str:
        return f"all {self.commands:,} commands of the topic are in {self.file or 'no file'}"
