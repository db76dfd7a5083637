"""Whether the lines of a backup are commands that a server takes; said as ksqlDB's restore does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.metastore.command import (
    VERSION,
    Command,
    IncompatibleCommand,
    InvalidCommand,
)
from breakglass.services.metastore.command_id import CommandId, InvalidCommandId
from breakglass.services.metastore.lines import BackupLine, LineProblem
from breakglass.services.words.inert import bounded_bytes

SHOWN = 200
"""Characters of a key or value that a message quotes."""


class Finding(StrEnum):
    """What is wrong with a line, by what can be done about it."""

    LINE = "line"
    """It is no line of ``key:value``: torn, or without key or value."""
    BLANK = "blank"
    INVALID_ID = "invalid id"
    INVALID = "invalid command"
    INCOMPATIBLE = "incompatible command"
    """Of a newer version: `--skip-incompatible` leaves it out."""
    ENDS_CLUSTER = "terminates the cluster"
    """Replayed, it ends the service and deletes its topics (M11)."""
    UNREADABLE_BY_KSQLDB = "unreadable by ksqlDB"
    """Its id holds '/' in the name, where ksqlDB's own CommandId.fromString cuts it."""
    RAW_NEWLINES = "raw newlines"
    """ksqlDB's own restore would split it."""

    @property
    def prevents_restore(self) -> bool:
        """Whether a restore must not go on with it, unless it is told what to do."""
        return self not in (Finding.BLANK, Finding.UNREADABLE_BY_KSQLDB, Finding.RAW_NEWLINES)


@dataclass(frozen=True, slots=True)
class LineFinding:
    """One thing about one line."""

    line: int
    finding: Finding
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A line and what it is."""

    line: BackupLine
    id: CommandId | None
    command: Command | None
    findings: tuple[LineFinding, ...] = ()


def checked(lines: Iterable[BackupLine], newest: int = VERSION) -> Iterator[CheckedLine]:
    """Each line with what is wrong with it; *newest* is the highest version that is taken."""
    for line in lines:
        yield _checked(line, newest)


def _checked(line: BackupLine, newest: int) -> CheckedLine:
    number = line.number
    if line.problem is LineProblem.BLANK:
        return _refused(line, Finding.BLANK, f"line {number} is blank")
    if not line.usable:
        return _refused(line, Finding.LINE, f"line {number} is {_state(line.problem)}")
    try:
        key = CommandId.from_json(line.key)
    except InvalidCommandId as error:
        told = f"Invalid CommandId string (line {number}): {_shown(line.key)} ({error})"
        return _refused(line, Finding.INVALID_ID, told)
    try:
        command = Command.from_json(line.value, newest)
    except IncompatibleCommand as error:
        told = f"Incompatible Command string (line {number}): {_shown(line.key)} ({error})"
        return _refused(line, Finding.INCOMPATIBLE, told, key)
    except InvalidCommand as error:
        told = f"Invalid Command string (line {number}): {_shown(line.value)} ({error})"
        return _refused(line, Finding.INVALID, told, key)
    return CheckedLine(line, key, command, tuple(_notes(line, key)))


def _notes(line: BackupLine, key: CommandId) -> Iterator[LineFinding]:
    number = line.number
    if key.terminates_cluster:
        told = f"line {number} terminates the cluster again when it is replayed"
        yield LineFinding(number, Finding.ENDS_CLUSTER, told)
    if not key.readable_by_ksqldb:
        told = f"line {number} has '/' in its name, which ksqlDB cannot read: {_shown(line.key)}"
        yield LineFinding(number, Finding.UNREADABLE_BY_KSQLDB, told)
    if line.problem is LineProblem.RAW_NEWLINES:
        told = f"line {number} is a value with raw newlines, which ksqlDB's restore splits"
        yield LineFinding(number, Finding.RAW_NEWLINES, told)


def _refused(
    line: BackupLine, finding: Finding, message: str, key: CommandId | None = None
) -> CheckedLine:
    return CheckedLine(line, key, None, (LineFinding(line.number, finding, message),))


def _state(problem: LineProblem | None) -> str:
    return {
        LineProblem.TORN: "torn: it has no whole key followed by ':', or no end",
        LineProblem.NULL_KEY: "without a key",
        LineProblem.NULL_VALUE: "without a value",
    }.get(problem or LineProblem.TORN, "torn")


def _shown(content: bytes) -> str:
    return bounded_bytes(content, SHOWN)
