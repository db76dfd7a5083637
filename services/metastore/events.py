"""The events that a backup reports while it runs; each is a value with a sentence of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from breakglass.services.lag import Behind, CaughtUpAgain
from breakglass.services.words.moments import time_text


@dataclass(frozen=True, slots=True)
class CommandDifference:
    """The first command that differs between a topic and a backup."""

    line: int
    offset: int
    field: str
    """``key`` or ``value``."""
    byte: int
    """The index of the first byte that differs."""
    expected: str
    """The backup's bytes from there on, truncated."""
    found: str
    """The topic's bytes from there on, truncated."""

    def __str__(self) -> str:
        return (
            f"line {self.line} of the backup and the command at offset {self.offset} differ from "
            f"byte {self.byte} of the {self.field}: {self.expected!r} and {self.found!r}"
        )


@dataclass(frozen=True, slots=True)
class Event:
    """An event."""

    kind: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class Begun(Event):
    """A new file was started."""

    kind: ClassVar[str] = "begun"
    file: str
    difference: CommandDifference | None = None
    before: str = ""
    """The file that is kept because the topic differs from it."""

    def __str__(self) -> str:
        if self.difference is None:
            return f"new backup file {self.file}"
        return f"new backup file {self.file}, and {self.before} is kept: {self.difference}"


@dataclass(frozen=True, slots=True)
class Continued(Event):
    """Every line of a file is in the topic; new commands are appended."""

    kind: ClassVar[str] = "continued"
    file: str
    lines: int

    def __str__(self) -> str:
        return f"{self.file} has the first {self.lines:,} commands of the topic and is continued"


@dataclass(frozen=True, slots=True)
class Mended(Event):
    """The remainder of a killed writer was repaired."""

    kind: ClassVar[str] = "mended"
    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(frozen=True, slots=True)
class Flagged(Event):
    """A command that a single line of ``key:value`` cannot represent."""

    kind: ClassVar[str] = "flagged"
    file: str
    offset: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}: the command at offset {self.offset} is kept whole, but {self.problem}"


@dataclass(frozen=True, slots=True)
class Unrestorable(Event):
    """A command that is kept as it is, and that `verify` and a restore refuse."""

    kind: ClassVar[str] = "unrestorable"
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file} keeps what verify and restore refuse: {self.message}"


@dataclass(frozen=True, slots=True)
class Shorter(Event):
    """The topic ends before the backup does."""

    kind: ClassVar[str] = "shorter"
    file: str
    commands: int
    missing: int
    """Lines of the backup after the last common command."""

    def __str__(self) -> str:
        return (
            f"the topic ends after {self.commands:,} commands and {self.file} holds "
            f"{self.missing:,} more: compare them, then `breakglass ksql restore` puts them "
            "back"
        )


@dataclass(frozen=True, slots=True)
class NotNoted(Event):
    """An event that could not be written to disk."""

    kind: ClassVar[str] = "not noted"
    danger: str
    """The alarm's danger, or ``the status``."""
    reason: str

    def __str__(self) -> str:
        return f"this could not be noted on disk ({self.danger}): {self.reason}"


@dataclass(frozen=True, slots=True)
class FellBehind(Event):
    """The backup lacks commands of the topic, or it is unknown whether it does."""

    kind: ClassVar[str] = "behind"
    since_ms: int
    since: str
    """The same time, in UTC."""
    reason: str

    def __str__(self) -> str:
        return f"the backup is behind since {self.since}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CameBack(Event):
    """A backup that was behind is complete again."""

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
    """The event for *change*."""
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
    """The backup contains all commands of the topic."""

    kind: ClassVar[str] = "caught up"
    file: str
    commands: int
    next_offset: int

    def __str__(self) -> str:
        if not self.commands:
            return "the topic holds no command"
        return f"all {self.commands:,} commands of the topic are in {self.file}"
