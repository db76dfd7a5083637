"""The lines of a backup file, ``key:value``, numbered as by grep -n, compared with a command topic.

ksqlDB's own reader splits a line at the first ':' and ends at a blank line
(BackupReplayFile.readRecords). Here a key is a complete JSON string, so it may contain ':'; blank,
torn and null lines are reported with their numbers. `producible_lines` selects lines for
kafka-console-producer, with which KLIP-31 restores: it would split a key with ':' or a value with a
line end into other commands. `checked` words its findings as ksqlDB's restore does.

Records and lines are compared in order, ignoring offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

from breakglass.services.errors import Refused
from breakglass.services.metastore.command import (
    SHOWN,
    VERSION,
    Command,
    CommandId,
    EntityType,
    IncompatibleCommand,
    InvalidCommand,
    InvalidCommandId,
    parse_json,
)
from breakglass.services.record_batches import MAX_BATCH_BYTES
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.words.inert import bounded_bytes

KEY = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
COMMAND_KEY = re.compile(
    rb'"(?:%b)/' % b"|".join(type_.value.encode() for type_ in EntityType), re.IGNORECASE
)
"""The start of a command's line."""
MOST_LINE = MAX_BATCH_BYTES
"""Maximum bytes of a line that is kept: Breakglass reads no record with more from a topic."""
PIECE = 1024 * 1024
MOST_JOINED = 16 * 1024 * 1024
"""Maximum bytes of lines that are read as one value with raw newlines."""


class LineProblem(StrEnum):
    """What is wrong with a line."""

    BLANK = "blank"
    TORN = "torn"
    """The line lacks its line end, or a complete key and ':'."""
    NULL_KEY = "null key"
    NULL_VALUE = "null value"
    RAW_NEWLINES = "raw newlines"
    """The value contains line ends; it is kept whole, but ksqlDB would split it."""
    TOO_LONG = "too long"
    """More bytes than a record of a topic has; only its beginning was kept."""


@dataclass(frozen=True, slots=True)
class BackupLine:
    """One line, or several lines that form one value with raw newlines."""

    number: int
    """The number of the first line in the file, from 1."""
    start: int
    """The position of the first byte in the file."""
    end: int
    """The position after the last byte, including the line end."""
    key: bytes
    value: bytes
    problem: LineProblem | None = None

    @property
    def usable(self) -> bool:
        """Whether the line is a command: a key and a value."""
        return self.problem in (None, LineProblem.RAW_NEWLINES)

    @property
    def raw(self) -> bytes:
        """The bytes without the line end, as far as they were split."""
        return self.key + b":" + self.value if self.problem is not LineProblem.BLANK else b""


def split(line: bytes) -> tuple[bytes, bytes] | None:
    """Key and value of one line without its end; None if there is no key followed by ':'.

    A key that is not a JSON string ends at the first ':'.
    """
    found = KEY.match(line)
    if found is not None:
        end = found.end()
        return (line[:end], line[end + 1 :]) if line[end : end + 1] == b":" else None
    if line[:1] == b'"':
        return None
    key, between, value = line.partition(b":")
    return (key, value) if between else None


class LongLine(bytes):
    """The beginning of a line that has more than `MOST_LINE` bytes."""

    size = 0
    """Bytes of the whole line, with its end."""


def lines_in(file: BinaryIO) -> Iterator[bytes]:
    """The lines of *file* from its position on, with their ends; a `LongLine` of one too long."""
    while line := file.readline(MOST_LINE + 1):
        if len(line) <= MOST_LINE:
            yield line
            continue
        long = LongLine(line[:SHOWN])
        long.size = len(line)
        while not line.endswith(b"\n") and (line := file.readline(PIECE)):
            long.size += len(line)
        yield long


def _size(line: bytes) -> int:
    return line.size if isinstance(line, LongLine) else len(line)


def read_lines(file: BinaryIO, first: int = 1, at: int = 0) -> Iterator[BackupLine]:
    """Every line of *file* from its position on.

    *first* is the number of the first line and *at* the position of its first byte. Keeps only one
    line in memory, or the lines of one value with raw newlines.
    """
    held: _Held | None = None
    for number, line in enumerate(lines_in(file), first):
        if held is None:
            held = _Held(number, at, [line])
        elif COMMAND_KEY.match(line) or not held.takes(line):
            yield from held.lines()
            held = _Held(number, at, [line])
        at += _size(line)
    if held is not None:
        yield from held.lines()


class _Held:
    """Lines that may form one command; more than one only if the first is not complete JSON."""

    def __init__(self, number: int, start: int, lines: list[bytes]) -> None:
        self._number = number
        self._start = start
        self._lines = lines
        self._size = _size(lines[0])
        self._open: bool | None = None

    def takes(self, line: bytes) -> bool:
        """Add *line* to an incomplete value, if the line can belong to it."""
        if self._open is None:
            self._open = COMMAND_KEY.match(self._lines[0]) is not None and not self._whole()
        elif self._open and len(self._lines) > 1:
            self._open = not self._whole()
        if not self._open or self._size + _size(line) > MOST_JOINED:
            return False
        self._lines.append(line)
        self._size += _size(line)
        return True

    def _whole(self) -> bool:
        parts = split(b"".join(self._lines).removesuffix(b"\n"))
        return parts is not None and is_json(parts[1])

    def lines(self) -> Iterator[BackupLine]:
        if len(self._lines) > 1 and self._whole():
            yield _line(self._number, self._start, b"".join(self._lines), joined=True)
            return
        at = self._start
        for number, line in enumerate(self._lines, self._number):
            yield _line(number, at, line)
            at += _size(line)


def _line(number: int, start: int, line: bytes, *, joined: bool = False) -> BackupLine:
    end = start + _size(line)
    if isinstance(line, LongLine):
        return BackupLine(number, start, end, line, b"", LineProblem.TOO_LONG)
    text = line.removesuffix(b"\n")
    if not text.strip():
        return BackupLine(number, start, end, b"", b"", LineProblem.BLANK)
    parts = split(text)
    if parts is None or text is line:
        key, value = parts or (text, b"")
        return BackupLine(number, start, end, key, value, LineProblem.TORN)
    key, value = parts
    problem = LineProblem.RAW_NEWLINES if joined else None
    if key in (b"", b"null"):
        problem = LineProblem.NULL_KEY
    elif value in (b"", b"null"):
        problem = LineProblem.NULL_VALUE
    return BackupLine(number, start, end, key, value, problem)


def is_json(text: bytes) -> bool:
    """Whether *text* is one whole JSON value."""
    try:
        parse_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def producible_lines(file: Path) -> Iterator[bytes]:
    """The lines of *file*, after checking that all are producible; blank lines are left out.

    Raises:
        Refused: a line is not producible.
        StorageError: it cannot be read.
    """
    with storage_errors(str(file)), open_regular(file) as data:
        for line in read_lines(data):
            problem = _problem(line)
            if problem:
                raise Refused(
                    f"{file.name} line {line.number} {problem}, so kafka-console-producer would "
                    "write another command: use `breakglass ksql restore` for this one"
                )
        data.seek(0)
        yield from (line for line in lines_in(data) if line.strip())


def _problem(line: BackupLine) -> str:
    if line.problem is LineProblem.BLANK:
        return ""
    if line.problem is not None:
        return f"is of the kind: {line.problem.value}"
    if b":" in line.key:
        return "has ':' in its name"
    return "holds a carriage return" if b"\r" in line.key + line.value else ""


class Finding(StrEnum):
    """What is wrong with a line, classified by the remedy."""

    LINE = "line"
    """Not a line of ``key:value``: torn, or without key or value."""
    BLANK = "blank"
    INVALID_ID = "invalid id"
    INVALID = "invalid command"
    INCOMPATIBLE = "incompatible command"
    """A command of a newer version: `--skip-incompatible` leaves it out."""
    ENDS_CLUSTER = "terminates the cluster"
    """A replay of the command ends the service and deletes its topics (M11)."""
    UNREADABLE_BY_KSQLDB = "unreadable by ksqlDB"
    """The id has '/' in the name, where ksqlDB's own CommandId.fromString splits it."""
    RAW_NEWLINES = "raw newlines"
    """ksqlDB's own restore would split it."""
    CARRIAGE_RETURN = "carriage return"
    """No side file proves that it belongs to the command: the line ends were converted to CRLF."""

    @property
    def prevents_restore(self) -> bool:
        """Whether a restore must refuse the line, unless an option says how to handle it."""
        return self not in (Finding.BLANK, Finding.UNREADABLE_BY_KSQLDB, Finding.RAW_NEWLINES)

    @property
    def damages(self) -> bool:
        """Whether a backup with such a line is not whole: a restore refuses what the line holds."""
        return self.prevents_restore and self is not Finding.ENDS_CLUSTER


@dataclass(frozen=True, slots=True)
class LineFinding:
    """One finding about a line."""

    line: int
    finding: Finding
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A line and its command."""

    line: BackupLine
    id: CommandId | None
    command: Command | None
    findings: tuple[LineFinding, ...] = ()


def checked(
    lines: Iterable[BackupLine], newest: int = VERSION, *, noted: int = 0
) -> Iterator[CheckedLine]:
    """Each line with its findings; *newest* is the highest command version that is accepted.

    The first *noted* bytes are as they were written, by the side file: carriage returns there
    belong to the commands.
    """
    for line in lines:
        found = _checked(line, newest)
        if found.findings and line.end <= noted:
            told = "holds a carriage return, where ksqlDB's restore splits the line"
            number = line.number
            harmless = LineFinding(number, Finding.RAW_NEWLINES, f"line {number} {told}")
            findings = [
                harmless if one.finding is Finding.CARRIAGE_RETURN else one
                for one in found.findings
            ]
            found = replace(found, findings=tuple(findings))
        yield found


def _checked(line: BackupLine, newest: int) -> CheckedLine:
    number = line.number
    if line.problem is LineProblem.BLANK:
        return _refused(line, Finding.BLANK, f"line {number} is blank")
    if not line.usable:
        state = {
            LineProblem.TORN: "torn: it has no whole key followed by ':', or no end",
            LineProblem.NULL_KEY: "without a key",
            LineProblem.NULL_VALUE: "without a value",
            LineProblem.TOO_LONG: f"too long: it has {line.end - line.start:,} bytes, and a "
            f"record of a topic has {MOST_LINE:,} at most ({_shown(line.key)})",
        }.get(line.problem or LineProblem.TORN, "torn")
        return _refused(line, Finding.LINE, f"line {number} is {state}")
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
    if b"\r" in line.key + line.value:
        told = (
            f"line {number} holds a carriage return, and no side file shows that it belongs to the "
            "command: where the file was converted to CRLF, convert it back (dos2unix)"
        )
        yield LineFinding(number, Finding.CARRIAGE_RETURN, told)
    if line.problem is LineProblem.RAW_NEWLINES:
        told = f"line {number} is a value with raw newlines, which ksqlDB's restore splits"
        yield LineFinding(number, Finding.RAW_NEWLINES, told)


def _refused(
    line: BackupLine, finding: Finding, message: str, key: CommandId | None = None
) -> CheckedLine:
    return CheckedLine(line, key, None, (LineFinding(line.number, finding, message),))


def _shown(content: bytes) -> str:
    """The beginning of *content*; its length, too, if that is not all of it."""
    shown = bounded_bytes(content, SHOWN)
    return f"{shown} ({len(content):,} bytes)" if len(content) > SHOWN else shown


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
