"""A command topic and its backup side by side, message by message, offsets ignored. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from breakglass.services.metastore.lines import BackupLine
from breakglass.services.metastore.records import CommandRecord


class CommandStanding(StrEnum):
    """How a command of the topic and a line of the backup stand to each other."""

    SAME = "="
    DIFFERENT = "!"
    ONLY_TOPIC = ">"
    """Not backed up yet."""
    ONLY_BACKUP = "<"
    """The topic ends before it."""


@dataclass(frozen=True, slots=True)
class CommandPair:
    """A command of the topic, the line at the same place, or both."""

    number: int
    """Its place, from 1."""
    standing: CommandStanding
    offset: int | None
    line: int | None
    topic: bytes
    """Key, ':' and value as the topic has them; empty where it has none."""
    backup: bytes


@dataclass(frozen=True, slots=True)
class ComparisonCounts:
    """Of each standing, and the first difference."""

    same: int
    different: int
    only_topic: int
    only_backup: int
    first: CommandPair | None
    """The first that is in both and is not the same."""


def pairs(records: Sequence[CommandRecord], lines: Sequence[BackupLine]) -> Iterator[CommandPair]:
    """Every place of the two, in order. Blank lines have no place."""
    usable = [one for one in lines if one.usable]
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
    """How many of each."""
    numbers = dict.fromkeys(CommandStanding, 0)
    for pair in found:
        numbers[pair.standing] += 1
    first = next((one for one in found if one.standing is CommandStanding.DIFFERENT), None)
    return ComparisonCounts(
        numbers[CommandStanding.SAME],
        numbers[CommandStanding.DIFFERENT],
        numbers[CommandStanding.ONLY_TOPIC],
        numbers[CommandStanding.ONLY_BACKUP],
        first,
    )
