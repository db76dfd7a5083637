"""A record of a command topic and its line in a backup; compares topic and backup.

Records and lines are compared in order, ignoring offsets. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple

from breakglass.services.metastore.lines import BackupLine

Headers = tuple[tuple[str, bytes | None], ...]

SEPARATOR = b":"
END = b"\n"


class CommandRecord(NamedTuple):
    """A record of the topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()

    @property
    def line(self) -> bytes:
        """The record as ``key:value`` with a line end; null becomes an empty string."""
        return b"%b:%b\n" % (self.key or b"", self.value or b"")

    @property
    def problem(self) -> str:
        """Why KLIP-31's single line cannot represent the record; empty if it can."""
        if self.key is None or self.value is None:
            return f"its {'key' if self.key is None else 'value'} is null"
        key, value = self.key, self.value
        if b"\n" in value or b"\r" in value or b"\n" in key or b"\r" in key:
            return "it holds a raw line break, where ksqlDB's own reader splits the line"
        return ""


class CommandStanding(StrEnum):
    """How a command of the topic and a line of the backup compare."""

    SAME = "="
    DIFFERENT = "!"
    ONLY_TOPIC = ">"
    """The command is not backed up yet."""
    ONLY_BACKUP = "<"
    """The topic ends before this line."""


@dataclass(frozen=True, slots=True)
class CommandPair:
    """A command of the topic, the line at the same index, or both."""

    number: int
    """The index, from 1."""
    standing: CommandStanding
    offset: int | None
    line: int | None
    topic: bytes
    """Key, ':' and value from the topic; empty if the topic has no command there."""
    backup: bytes


@dataclass(frozen=True, slots=True)
class ComparisonCounts:
    """The number of pairs by standing, and the first difference."""

    same: int
    different: int
    only_topic: int
    only_backup: int
    first: CommandPair | None
    """The first pair whose command and line differ."""


def pairs(records: Sequence[CommandRecord], lines: Sequence[BackupLine]) -> Iterator[CommandPair]:
    """All pairs, in order. Blank lines are not counted."""
    usable = [line for line in lines if line.usable]
    for number, (record, line) in enumerate(zip_longest(records, usable), 1):
        topic = b"" if record is None else record.line[:-1]
        backup = b"" if line is None else line.raw
        if record is None:
            standing = CommandStanding.ONLY_BACKUP
        elif line is None:
            standing = CommandStanding.ONLY_TOPIC
        else:
            standing = CommandStanding.SAME if topic == backup else CommandStanding.DIFFERENT
        offset = None if record is None else record.offset
        at = None if line is None else line.number
        yield CommandPair(number, standing, offset, at, topic, backup)


def counted(found: Sequence[CommandPair]) -> ComparisonCounts:
    """The number of pairs by standing."""
    numbers = dict.fromkeys(CommandStanding, 0)
    for pair in found:
        numbers[pair.standing] += 1
    first = next((pair for pair in found if pair.standing is CommandStanding.DIFFERENT), None)
    return ComparisonCounts(
        numbers[CommandStanding.SAME],
        numbers[CommandStanding.DIFFERENT],
        numbers[CommandStanding.ONLY_TOPIC],
        numbers[CommandStanding.ONLY_BACKUP],
        first,
    )
