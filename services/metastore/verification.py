"""Checks that a backup is unchanged since it was written: its lines, and their hash chain.

A backup is compared with its side file, which has an entry for every command. Without a side file
nothing shows whether commands are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from google_crc32c import value as crc32c

from breakglass.services.errors import BreakglassError
from breakglass.services.metastore.lines import LineFinding, checked, read_lines
from breakglass.services.metastore.private_files import is_locked, lock_file
from breakglass.services.metastore.side_file import (
    SUFFIX,
    Chain,
    Noted,
    SideHeader,
    digest_of,
    extent_of,
    read_group,
    read_header,
    unseal,
)
from breakglass.services.model import Unknown
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors

MOST_TOLD = 1_000
"""Maximum number of findings that are listed; further findings are counted."""


@dataclass(slots=True)
class MetastoreVerification:
    """The findings in one backup."""

    file: str
    bytes: int = 0
    commands: int = 0
    """Lines that have a key and a value."""
    findings: list[LineFinding] = field(default_factory=list)
    untold: int = 0
    """Findings after the first `MOST_TOLD`."""
    side: str = ""
    """Why the side file cannot be read; empty if it was read."""
    being_written: bool = False
    """A backup is running, which notes its last lines in the side file after it wrote them."""
    header: SideHeader | None = None
    noted: int = 0
    """Commands that the side file covers."""
    unnoted_bytes: int = 0
    """Bytes of the backup after the part that the side file covers."""
    changed: list[int] = field(default_factory=list)
    """Lines that were changed after they were written."""
    missing: int = 0
    """Commands in the side file after the end of the backup."""
    digest: str = ""
    """The end of the chain: it equals a copy kept elsewhere only if nothing was changed."""

    @property
    def noted_bytes(self) -> int:
        """The bytes that the side file covers, from the beginning."""
        return 0 if self.side else self.bytes - self.unnoted_bytes

    @property
    def whole(self) -> bool | Unknown:
        """Whether every line is a command, and these are the commands of the side file, unchanged.

        A file without a command is not whole: it is what a failed copy or a full disk leaves.
        """
        broken = any(finding.finding.damages for finding in self.findings)
        if not self.commands or broken or self.untold or self.changed or self.missing:
            return False
        if self.side:
            return Unknown(f"there is no side file to compare the commands with: {self.side}")
        if self.unnoted_bytes and self.being_written:
            return Unknown("a backup is running that has not noted the last commands yet")
        return not self.unnoted_bytes


class LineCheck:
    """Checks the lines of a backup that grows, each line once, as a restore checks them."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._at = self._line = 0
        self.refused = 0
        """Lines so far that `verify` and a restore refuse."""

    def look(self, path: Path) -> Iterator[LineFinding]:
        """What a restore refuses in the lines that were not checked yet. Raises: StorageError.

        All of them are in the side file, for this process has compared or written them.
        """
        with storage_errors(str(path)), open_regular(path) as data:
            size = data.seek(0, 2)
            if path != self._path or size < self._at:
                self._path, self._at, self._line, self.refused = path, 0, 1, 0
            data.seek(self._at)
            for line in checked(read_lines(data, self._line, self._at), noted=size):
                self._at = line.line.end
                self._line = line.line.number + 1
                for finding in line.findings:
                    if finding.finding.damages:
                        self.refused += 1
                        yield finding


def verify_backup(path: Path) -> MetastoreVerification:
    """Read the complete backup at *path*, and its side file if it exists.

    Raises: StorageError.
    """
    verified = MetastoreVerification(str(path))
    with storage_errors(str(path)), open_regular(path) as data:
        verified.bytes = data.seek(0, 2)
        _verify_chain(data, path.with_name(path.name + SUFFIX), verified)
        data.seek(0)
        _verify_lines(data, verified)
    return verified


def _verify_lines(data: BinaryIO, verified: MetastoreVerification) -> None:
    for line in checked(read_lines(data), noted=verified.noted_bytes):
        verified.commands += line.line.usable
        for finding in line.findings:
            if len(verified.findings) < MOST_TOLD:
                verified.findings.append(finding)
            else:
                verified.untold += 1


def _verify_chain(data: BinaryIO, side: Path, verified: MetastoreVerification) -> None:
    try:
        with storage_errors(str(side)), open_regular(side) as file:
            first = file.readline()
            verified.header = header = read_header(first, str(side))
            verified.being_written = is_locked(lock_file(side.parent, header.topic))
            _verify_entries(data, file, first, verified)
    except BreakglassError as error:
        verified.side = str(error)


def _verify_entries(
    data: BinaryIO, side: BinaryIO, first: bytes, verified: MetastoreVerification
) -> None:
    """Each group is checked against the digest before it, so a change breaks only its own group."""
    at = data.seek(0)
    line, above = 1, first
    if Chain().seal(unseal(first) or b"") != first:
        verified.changed.append(0)
    for sealed in side:
        prefix = unseal(sealed)
        noted = None if prefix is None else read_group(prefix)
        extent = extent_of(prefix or b"")
        if prefix is None or noted is None or extent is None:
            if sealed.endswith(b"\n"):
                _changed(verified, line)
            break
        data.seek(at)
        held = data.read(min(sum(noted.sizes), max(verified.bytes - at, 0)))
        if Chain.behind(above).seal(prefix, digest_of([held])) != sealed:
            _verify_group(noted, held, line, verified)
        line += held.count(b"\n")
        at, above = extent[1], sealed
        verified.noted += len(noted)
    verified.unnoted_bytes = max(verified.bytes - at, 0)
    verified.digest = Chain.behind(above).digest


def _verify_group(noted: Noted, held: bytes, line: int, verified: MetastoreVerification) -> None:
    """Report the lines of a group that differ from their entries; its first if none differs."""
    at, found = 0, False
    for size, check in zip(noted.sizes, noted.checks, strict=True):
        one = held[at : at + size]
        if len(one) < size:
            verified.missing += 1
            found = True
        elif crc32c(one) != check:
            _changed(verified, line)
            found = True
        line += one.count(b"\n")
        at += size
    if not found:
        # The lines match their entries, so the group's line in the side file was changed.
        _changed(verified, line - held.count(b"\n"))


def _changed(verified: MetastoreVerification, line: int) -> None:
    if len(verified.changed) < MOST_TOLD:
        verified.changed.append(line)
    else:
        verified.untold += 1
