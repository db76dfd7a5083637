"""Where a backup file ends whole: behind it is what a writer left that was killed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import BinaryIO

from breakglass.services.metastore.lines import COMMAND_KEY, read_lines, split

BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a backup file as it was found."""

    size: int
    """Bytes that were there."""
    whole: int
    """Bytes that are kept."""
    lacks_newline: bool = False
    """The last command is whole but for its line end."""

    @property
    def cut(self) -> int:
        """Bytes of a command that was not written to its end."""
        return self.size - self.whole


def find_tail(file: BinaryIO, covered: int | None) -> Tail:
    """Look at the end of *file*; *covered* are the bytes that its side file stands for.

    None: there is no side file, as beside a file that ksqlDB wrote; then a last line with a line
    end is taken as whole.
    """
    size = file.seek(0, 2)
    end = _behind_last_newline(file, size)
    if end < size:
        file.seek(end)
        if _whole_command(file.read(size - end)):
            return Tail(size, size, lacks_newline=True)
    if covered is not None and covered < end:
        end = _without_torn_value(file, covered, end)
    return Tail(size, end)


def _behind_last_newline(file: BinaryIO, size: int) -> int:
    end = size
    while end > 0:
        begin = max(0, end - BLOCK)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


def _without_torn_value(file: BinaryIO, covered: int, end: int) -> int:
    """A value with raw newlines may have been torn behind one of them."""
    file.seek(covered)
    torn: int | None = None
    for line in read_lines(iter(file.readline, b""), at=covered):
        if line.start >= end:
            break
        if COMMAND_KEY.match(line.key):
            begun = line.value.startswith(b"{") and not _is_whole(line.value)
            torn = line.start if begun else None
    return end if torn is None else torn


def _whole_command(line: bytes) -> bool:
    parts = split(line)
    return parts is not None and _is_whole(parts[1])


def _is_whole(value: bytes) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True
