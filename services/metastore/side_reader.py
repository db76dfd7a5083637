"""Reads a side file next to its backup: how much of the backup it covers, and each command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from breakglass.services.errors import BreakglassError
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.side_file import (
    Noted,
    SideEntry,
    SideHeader,
    extent_of,
    read_group,
    read_header,
    unseal,
)
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors


@dataclass(frozen=True, slots=True)
class SideExtent:
    """The complete part of a side file."""

    header: SideHeader
    entries: int
    """The number of commands with an entry."""
    covered: int
    """The number of backup bytes that the entries cover."""


def side_header(path: Path) -> SideHeader | None:
    """The header of the side file at *path*; None if it is missing or unreadable."""
    try:
        with storage_errors(str(path)), open_regular(path) as file:
            return read_header(file.readline(), str(path))
    except BreakglassError:
        return None


def side_extent(path: Path) -> SideExtent | None:
    """The extent of the side file at *path*; None if it is missing or unreadable."""
    try:
        with storage_errors(str(path)), open_regular(path) as file:
            header = read_header(file.readline(), str(path))
            entries = covered = 0
            for line in file:
                extent = extent_of(unseal(line) or b"")
                if extent is None:
                    break
                entries, covered = entries + extent[0], extent[1]
    except BreakglassError:
        return None
    return SideExtent(header, entries, covered)


def groups(side: BinaryIO) -> Iterator[tuple[Noted, bytes]]:
    """Each group from the position of *side*, with its line; ends before a torn group."""
    for line in side:
        prefix = unseal(line)
        noted = None if prefix is None else read_group(prefix)
        if noted is None:
            return
        yield noted, line


class Stored(NamedTuple):
    """Commands of one group, with the bytes of each in the backup."""

    noted: Noted
    held: list[bytes]
    begin: int
    """The start of the commands in the backup."""


def stored_groups(data: BinaryIO, side: BinaryIO, count: int) -> Iterator[Stored]:
    """The first *count* commands of *side* by groups, with their bytes in *data*.

    Ends before a torn group, and before a command whose bytes are missing.
    """
    side.seek(0)
    side.readline()
    size = data.seek(0, 2)
    begin = data.seek(0)
    for noted, _ in groups(side):
        wanted = noted.part(0, count)
        block = data.read(min(sum(wanted.sizes), size - begin))
        ends = [0, *accumulate(wanted.sizes)]
        held = [block[at:end] for at, end in pairwise(ends) if end <= len(block)]
        if held:
            yield Stored(wanted.part(0, len(held)), held, begin)
        count -= len(held)
        begin += ends[-1]
        if not count or len(held) < len(noted):
            return


def stored_commands(
    data: BinaryIO, side: BinaryIO, count: int
) -> Iterator[tuple[SideEntry, bytes]]:
    """The same commands one by one."""
    for noted, held, begin in stored_groups(data, side, count):
        yield from zip(noted.entries(begin), held, strict=True)


def stored_records(data: BinaryIO, side: BinaryIO, count: int) -> Iterator[CommandRecord]:
    """The same commands as records."""
    for entry, held in stored_commands(data, side, count):
        yield entry.record(held)
