"""Whether a backup is what it was when it was written: its lines, and the hash chain beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from google_crc32c import value as crc32c

from breakglass.services.errors import BreakglassError
from breakglass.services.metastore.lines import read_lines
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
from breakglass.services.metastore.validation import Finding, LineFinding, checked
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors

MOST_TOLD = 1_000
"""Findings that are kept; the rest is counted."""


@dataclass(slots=True)
class MetastoreVerification:
    """What was found in one backup."""

    file: str
    bytes: int = 0
    commands: int = 0
    """Lines that are a key and a value."""
    findings: list[LineFinding] = field(default_factory=list)
    untold: int = 0
    """Findings beyond the first `MOST_TOLD`."""
    side: str = ""
    """What keeps the side file from being read; empty when it was read."""
    header: SideHeader | None = None
    noted: int = 0
    """Commands that the side file stands for."""
    unnoted_bytes: int = 0
    """Of the backup, behind the last that the side file stands for."""
    changed: list[int] = field(default_factory=list)
    """Lines that are not what they were when they were written."""
    missing: int = 0
    """Commands that the side file notes behind the end of the backup."""
    digest: str = ""
    """The end of the chain; the same as one noted elsewhere means that nothing was changed."""

    @property
    def whole(self) -> bool:
        """Whether every line is a command, and the same as it was as far as that was noted."""
        broken = any(one.finding.prevents_restore for one in self._weighty())
        return not (broken or self.untold or self.changed or self.missing)

    def _weighty(self) -> Iterator[LineFinding]:
        return (one for one in self.findings if one.finding is not Finding.ENDS_CLUSTER)


def verify_backup(path: Path) -> MetastoreVerification:
    """Read the backup at *path* wholly, and its side file where there is one.

    Raises: StorageError.
    """
    verified = MetastoreVerification(str(path))
    with storage_errors(str(path)), open_regular(path) as data:
        _verify_lines(data, verified)
        verified.bytes = data.tell()
        _verify_chain(data, path.with_name(path.name + SUFFIX), verified)
    return verified


def _verify_lines(data: BinaryIO, verified: MetastoreVerification) -> None:
    for one in checked(read_lines(data)):
        verified.commands += one.line.usable
        for finding in one.findings:
            if len(verified.findings) < MOST_TOLD:
                verified.findings.append(finding)
            else:
                verified.untold += 1


def _verify_chain(data: BinaryIO, side: Path, verified: MetastoreVerification) -> None:
    try:
        with storage_errors(str(side)), open_regular(side) as file:
            first = file.readline()
            verified.header = read_header(first, str(side))
            _verify_entries(data, file, first, verified)
    except BreakglassError as error:
        verified.side = str(error)


def _verify_entries(
    data: BinaryIO, side: BinaryIO, first: bytes, verified: MetastoreVerification
) -> None:
    """Each group is checked against the digest above it, so one change breaks no other group."""
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
    """Tell which lines of a group are not what was noted; its first, where all of them are."""
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
        # Its lines are what was noted of them, so its entry in the side file is not.
        _changed(verified, line - held.count(b"\n"))


def _changed(verified: MetastoreVerification, line: int) -> None:
    if len(verified.changed) < MOST_TOLD:
        verified.changed.append(line)
    else:
        verified.untold += 1
