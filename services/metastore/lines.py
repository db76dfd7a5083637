"""The lines of a backup file, ``key:value``, split as they were meant, and numbered as by grep -n.

ksqlDB's own reader cuts at the first ':', wherever it is, and ends at a blank line
(BackupReplayFile.readRecords). Here a key is a whole JSON string, so ':' within it is part of it,
and what is blank, torn or null is told with its line number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.metastore.command_id import EntityType

KEY = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
COMMAND_KEY = re.compile(
    rb'"(?:%b)/' % b"|".join(one.value.encode() for one in EntityType), re.IGNORECASE
)
"""How the line of a command begins."""
MOST_JOINED = 16 * 1024 * 1024
"""Bytes of lines that are looked at as one value with raw newlines."""


class LineProblem(StrEnum):
    """What is wrong with a line."""

    BLANK = "blank"
    TORN = "torn"
    """It ends before its line end, or without a whole key and ':'."""
    NULL_KEY = "null key"
    NULL_VALUE = "null value"
    RAW_NEWLINES = "raw newlines"
    """The value holds line ends of its own; it is kept whole, and ksqlDB would split it."""


@dataclass(frozen=True, slots=True)
class BackupLine:
    """One line, or the several that are one value with raw newlines."""

    number: int
    """Of its first line in the file, from 1."""
    start: int
    """Its first byte in the file."""
    end: int
    """One past its last byte, the line end included."""
    key: bytes
    value: bytes
    problem: LineProblem | None = None

    @property
    def usable(self) -> bool:
        """Whether it is a command: a key and a value."""
        return self.problem in (None, LineProblem.RAW_NEWLINES)

    @property
    def raw(self) -> bytes:
        """Its bytes without the line end, as far as it was split."""
        return self.key + b":" + self.value if self.problem is not LineProblem.BLANK else b""


def split(line: bytes) -> tuple[bytes, bytes] | None:
    """Key and value of one line without its end; None where there is no key followed by ':'.

    A key that is no JSON string ends at the first ':'.
    """
    found = KEY.match(line)
    if found is not None:
        end = found.end()
        return (line[:end], line[end + 1 :]) if line[end : end + 1] == b":" else None
    if line[:1] == b'"':
        return None
    key, between, value = line.partition(b":")
    return (key, value) if between else None


def read_lines(chunks: Iterable[bytes], first: int = 1, at: int = 0) -> Iterator[BackupLine]:
    """Every line of *chunks*, which are lines with their ends as a binary file gives them.

    *first* is the number of the first line and *at* its first byte. Holds one line at a time, or
    the lines of one value with raw newlines.
    """
    held: _Held | None = None
    for number, line in enumerate(chunks, first):
        if held is None:
            held = _Held(number, at, [line])
        elif COMMAND_KEY.match(line) or not held.takes(line):
            yield from held.lines()
            held = _Held(number, at, [line])
        at += len(line)
    if held is not None:
        yield from held.lines()


class _Held:
    """Lines that may be one command; more than one only where the first is no whole JSON."""

    def __init__(self, number: int, start: int, lines: list[bytes]) -> None:
        self._number = number
        self._start = start
        self._lines = lines
        self._size = len(lines[0])
        self._open: bool | None = None

    def takes(self, line: bytes) -> bool:
        """Take *line* as the next one of a value that is not whole yet, if it can be."""
        if self._open is None:
            self._open = COMMAND_KEY.match(self._lines[0]) is not None and not self._whole()
        elif self._open and len(self._lines) > 1:
            self._open = not self._whole()
        if not self._open or self._size + len(line) > MOST_JOINED:
            return False
        self._lines.append(line)
        self._size += len(line)
        return True

    def _whole(self) -> bool:
        parts = split(b"".join(self._lines).removesuffix(b"\n"))
        return parts is not None and _is_json(parts[1])

    def lines(self) -> Iterator[BackupLine]:
        if len(self._lines) > 1 and self._whole():
            yield _line(self._number, self._start, b"".join(self._lines), joined=True)
            return
        at = self._start
        for number, line in enumerate(self._lines, self._number):
            yield _line(number, at, line)
            at += len(line)


def _line(number: int, start: int, line: bytes, *, joined: bool = False) -> BackupLine:
    end = start + len(line)
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


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
