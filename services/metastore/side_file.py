"""The side file of a backup: its format, its reader, and the verification by it.

The side file of a backup: offset, time and headers of each command, and a hash chain.

::

    {"schema":1,"topic":...,"topic_id":...,"cluster_id":...,...,"c":"<64 hex digits>"}
    {"n":2,"b":512,"o":[12,14],"t":[1593540976000,1593540976000],"s":[302,210],"k":[24,19],
     "x":[3632233996,2405603159],"h":{"1":[["name","<base64>"]]},"c":"<64 hex digits>"}

Each line after the header describes a group of commands that were written together. ``n`` is the
number of commands, ``b`` the end of the last command in the backup. The lists have for each
command its offset ``o``, its timestamp ``t`` in milliseconds, the size ``s`` of its line (with
leading blank lines), the size ``k`` of its key, and the CRC-32C ``x`` of its line; ``h`` has the
headers, and ``z`` says which keys and values are null. ``c`` of the header is the SHA-256 of the
line before ``,"c"``. ``c`` of a group is the SHA-256 of the previous ``c`` (32 bytes), the group's
line before ``,"c"``, and the SHA-256 of the group's bytes in the backup. A line that was changed,
removed or inserted breaks the chain there, and its CRC-32C shows which line.

Reads a side file next to its backup: how much of the backup it covers, and each command.

Checks that a backup is unchanged since it was written: its lines, and their hash chain.

A backup is compared with its side file, which has an entry for every command. Without a side file
nothing shows whether commands are missing.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from google_crc32c import value as crc32c
from pydantic_core import to_json

from breakglass.services.errors import BreakglassError, MalformedInput, UnsupportedSchema
from breakglass.services.metastore.command import parse_json
from breakglass.services.metastore.lines import (
    MOST_LINE,
    CommandRecord,
    Headers,
    LineFinding,
    checked,
    lines_in,
    read_lines,
)
from breakglass.services.metastore.settings import is_locked, lock_file
from breakglass.services.model import Unknown
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors

SCHEMA = 1
SUFFIX = ".side"
"""The suffix after the backup's name. ksqlDB ignores the file: its name ends in no number."""
COLUMNS = "otskx"
"""Names of a group's lists: the fields of `Noted`, in order."""
_BLANKS = re.compile(rb"(?:[ \t\r]*\n)*")
_SEALED = re.compile(rb',"c":"[0-9a-f]{64}"\}\n')
_SEAL = len(b',"c":""}\n') + 64
_EXTENT = re.compile(rb'\{"n":(\d{1,18}),"b":(\d{1,18}),')


@dataclass(frozen=True, slots=True)
class SideHeader:
    """The header of a side file, valid for all lines of the backup."""

    topic: str
    topic_id: str
    cluster_id: str
    created_ms: int
    diverged: dict[str, Any] = field(default_factory=dict)
    """The first difference from the previous backup, if a difference started this backup."""

    def prefix(self) -> bytes:
        """The line before its digest."""
        return _open_json({"schema": SCHEMA, **asdict(self)})


class SideEntry(NamedTuple):
    """The side file's entry for one command."""

    offset: int
    timestamp_ms: int | None
    end: int
    """The end of its line in the backup, exclusive."""
    key_size: int
    """Size of its key in bytes."""
    headers: Headers = ()
    null_key: bool = False
    null_value: bool = False

    def record(self, line: bytes) -> CommandRecord:
        """The record; *line* is its line in the backup, including leading blank lines."""
        begin = _BLANKS.match(line)
        text = line[begin.end() if begin else 0 : -1]
        key, value = text[: self.key_size], text[self.key_size + 1 :]
        return CommandRecord(
            self.offset,
            None if self.null_key else key,
            None if self.null_value else value,
            self.timestamp_ms,
            self.headers,
        )


class Noted(NamedTuple):
    """Entries of consecutive commands, with a list for each field."""

    offsets: list[int]
    times: list[int | None]
    sizes: list[int]
    """Size of each line in bytes, including leading blank lines."""
    key_sizes: list[int]
    checks: list[int]
    """CRC-32C of each line."""
    headers: dict[int, Headers]
    """By index in these lists, for commands with headers."""
    nulls: dict[int, str]
    """``k``, ``v`` or both, for commands with a null key or value."""

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, end: int) -> Noted:
        """The entries from *start* to *end*, exclusive."""
        if start == 0 and end >= len(self):
            return self
        return Noted(
            self.offsets[start:end],
            self.times[start:end],
            self.sizes[start:end],
            self.key_sizes[start:end],
            self.checks[start:end],
            {at - start: one for at, one in self.headers.items() if start <= at < end},
            {at - start: one for at, one in self.nulls.items() if start <= at < end},
        )

    def prefix(self, end: int) -> bytes:
        """Their line before its digest; *end* is the end of the group in the backup."""
        told = b",".join(
            b'"%b":%b' % (name.encode(), to_json(column))
            for name, column in zip(COLUMNS, self[:5], strict=True)
        )
        rest: dict[str, Any] = {}
        if self.headers:
            rest["h"] = {
                at: [
                    [name, None if value is None else base64.b64encode(value).decode()]
                    for name, value in one
                ]
                for at, one in self.headers.items()
            }
        if self.nulls:
            rest["z"] = self.nulls
        begin = b'{"n":%d,"b":%d,%b' % (len(self.offsets), end, told)
        return begin + (b"," + _open_json(rest)[1:] if rest else b"")

    def entries(self, begin: int) -> Iterator[SideEntry]:
        """The entries one by one; *begin* is the start of the group in the backup."""
        for at, end in enumerate(accumulate(self.sizes)):
            null = self.nulls.get(at, "")
            yield SideEntry(
                self.offsets[at],
                self.times[at],
                begin + end,
                self.key_sizes[at],
                self.headers.get(at, ()),
                "k" in null,
                "v" in null,
            )


def note(records: Sequence[CommandRecord], lines: Sequence[bytes]) -> Noted:
    """The entries of *records*, whose lines in the backup are *lines*.

    Works field by field, because it builds a million entries while the disk writes their lines.
    """
    keys = [record.key for record in records]
    no_key = [at for at, key in enumerate(keys) if key is None]
    no_value = [at for at, one in enumerate(records) if one.value is None]
    some_headers = any(record.headers for record in records)
    return Noted(
        [record.offset for record in records],
        [record.timestamp_ms for record in records],
        list(map(len, lines)),
        [len(key or b"") for key in keys],
        list(map(crc32c, lines)),
        {at: one.headers for at, one in enumerate(records) if one.headers} if some_headers else {},
        {at: "k" * (at in no_key) + "v" * (at in no_value) for at in sorted({*no_key, *no_value})},
    )


class Chain:
    """The running digest; seals the lines of a side file in order."""

    def __init__(self, digest: bytes = b"") -> None:
        self._digest = digest

    @classmethod
    def behind(cls, sealed: bytes) -> Chain:
        """The chain after the complete line *sealed*."""
        return cls(bytes.fromhex(sealed[-67:-3].decode("ascii")))

    @property
    def digest(self) -> str:
        """The digest up to here: a copy kept elsewhere proves that nothing was changed since."""
        return self._digest.hex()

    def seal(self, prefix: bytes, held: bytes = b"") -> bytes:
        """The complete line of the side file for *prefix*.

        *held* is the SHA-256 of the corresponding bytes of the backup; empty for the header.
        """
        self._digest = sha256(self._digest + prefix + held).digest()
        return b'%b,"c":"%b"}\n' % (prefix, self._digest.hex().encode())


def digest_of(held: Iterable[bytes | memoryview]) -> bytes:
    """The digest of these backup bytes for `Chain.seal`; threads may compute it in parallel."""
    digest = sha256()
    for piece in held:
        digest.update(piece)
    return digest.digest()


def unseal(line: bytes) -> bytes | None:
    """The prefix of a sealed line; None if the line is torn or invalid."""
    begin, seal = line[:-_SEAL], line[-_SEAL:]
    return begin if begin and _SEALED.fullmatch(seal) else None


def extent_of(prefix: bytes) -> tuple[int, int] | None:
    """The number of commands in a group, and its end in the backup; None: not a group."""
    found = _EXTENT.match(prefix)
    return None if found is None else (int(found[1]), int(found[2]))


def read_header(line: bytes, where: str) -> SideHeader:
    """The first line of a side file.

    Raises: MalformedInput, UnsupportedSchema.
    """
    prefix = unseal(line)
    document = _document(prefix) if prefix is not None else None
    if document is None:
        raise MalformedInput(
            f"{where} line 1: no header of a side file; move the file away, and the next backup "
            "writes it again."
        )
    schema = document.pop("schema", None)
    if schema != SCHEMA:
        raise UnsupportedSchema(
            f"{where} has schema {schema!r} and this release reads {SCHEMA}: use a newer one."
        )
    try:
        return SideHeader(**document)
    except TypeError:
        raise MalformedInput(
            f"{where} line 1: no header of a side file; move the file away, and the next backup "
            "writes it again."
        ) from None


def read_group(prefix: bytes) -> Noted | None:
    """A group; None if the bytes are not a group."""
    document = _document(prefix)
    if document is None:
        return None
    try:
        offsets, times, sizes, key_sizes, checks = (
            _column(document[name], unknown=name == "t") for name in COLUMNS
        )
        headers = {
            int(at): tuple(
                [
                    (str(name), (None if value is None else base64.b64decode(value, validate=True)))
                    for name, value in told
                ]
            )
            for at, told in document.get("h", {}).items()
        }
        nulls = {int(at): str(told) for at, told in document.get("z", {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    noted = Noted(offsets, times, sizes, key_sizes, checks, headers, nulls)
    whole = all(len(column) == document.get("n") for column in noted[:5])
    whole = whole and all(size > 0 for size in sizes) and sum(sizes) <= MOST_GROUP
    return noted if whole else None


def _column(told: object, *, unknown: bool) -> list[Any]:
    """A list of integers, with null where it is allowed."""
    kinds = {int, type(None)} if unknown else {int}
    if not isinstance(told, list) or not set(map(type, told)) <= kinds:
        raise ValueError("no list of whole numbers")
    return told


def _open_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()[:-1]


def _document(prefix: bytes) -> dict[str, Any] | None:
    try:
        document = parse_json(prefix + b"}")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


@dataclass(frozen=True, slots=True)
class SideExtent:
    """The complete part of a side file."""

    header: SideHeader
    entries: int
    covered: int
    """The number of backup bytes that the entries cover."""


def side_header(path: Path) -> SideHeader | None:
    """The header of the side file at *path*; None if it is missing or unreadable."""
    try:
        with storage_errors(str(path)), open_regular(path) as file:
            return read_header(file.readline(MOST_LINE), str(path))
    except BreakglassError:
        return None


def side_extent(path: Path) -> SideExtent | None:
    """The extent of the side file at *path*; None if it is missing or unreadable."""
    try:
        with storage_errors(str(path)), open_regular(path) as file:
            header = read_header(file.readline(MOST_LINE), str(path))
            entries = covered = 0
            for line in lines_in(file):
                extent = extent_of(unseal(line) or b"")
                if extent is None:
                    break
                entries, covered = entries + extent[0], extent[1]
    except BreakglassError:
        return None
    return SideExtent(header, entries, covered)


def groups(side: BinaryIO) -> Iterator[tuple[Noted, bytes]]:
    """Each group from the position of *side*, with its line; ends before a torn group."""
    for line in lines_in(side):
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


def stored_groups(data: BinaryIO, side: BinaryIO, count: int) -> Iterator[Stored]:
    """The first *count* commands of *side* by groups, with their bytes in *data*.

    Ends before a torn group, and before a command whose bytes are missing.
    """
    side.seek(0)
    side.readline(MOST_LINE)
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


MOST_GROUP = 2 * MOST_LINE
"""Maximum bytes of the commands of a group: those of one answer of a broker."""
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
    absent: bool = False
    """There is no side file."""
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
            return Unknown(f"the commands cannot be compared with a side file: {self.side}")
        if self.unnoted_bytes and self.being_written:
            return Unknown("a backup is running that has not noted the last commands yet")
        return not self.unnoted_bytes

    def require_unchanged(self, *, only_read: bool = False) -> None:
        """Return if these are the lines of the side file, or if there is no side file.

        With *only_read* the last lines of a running backup may lack their entries.

        Raises: MalformedInput.
        """
        if self.side and not self.absent:
            what = f"its side file cannot be read ({self.side})"
        elif self.changed:
            lines = f"line {self.changed[0]} is" if len(self.changed) == 1 else "lines are"
            lines = lines if self.changed[0] else "the first line of the side file is"
            what = f"{lines} not what was written, or the side file is not"
        elif self.missing:
            what = f"{self.missing:,} commands are missing at its end"
        elif self.unnoted_bytes and not (only_read and self.being_written):
            what = f"its last {self.unnoted_bytes:,} bytes are not in its side file"
        else:
            return
        raise MalformedInput(
            f"{self.file}: {what} (`breakglass ksql verify` names every line): back up the "
            "topic again, or take both files from another copy. To use the lines as they are, move "
            "the side file away: then nothing shows whether commands are missing."
        )


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


def verify_backup(path: Path, entries: dict[int, SideEntry] | None = None) -> MetastoreVerification:
    """Read the complete backup at *path*, and its side file if it exists.

    *entries* gets the entry of each command, by the end of its line in the backup.

    Raises: StorageError.
    """
    verified = MetastoreVerification(str(path))
    with storage_errors(str(path)), open_regular(path) as data:
        verified.bytes = data.seek(0, 2)
        side = path.with_name(path.name + SUFFIX)
        try:
            with storage_errors(str(side)), open_regular(side) as file:
                first = file.readline(MOST_LINE)
                verified.header = header = read_header(first, str(side))
                verified.being_written = is_locked(lock_file(side.parent, header.topic))
                _verify_entries(data, file, first, verified, entries)
        except MalformedInput:
            verified.changed.append(0)
            verified.unnoted_bytes = verified.bytes
        except BreakglassError as error:
            verified.side, verified.absent = str(error), not os.path.lexists(side)
        data.seek(0)
        for line in checked(read_lines(data), noted=verified.noted_bytes):
            verified.commands += line.line.usable
            for finding in line.findings:
                if len(verified.findings) < MOST_TOLD:
                    verified.findings.append(finding)
                else:
                    verified.untold += 1
    return verified


def _verify_entries(
    data: BinaryIO,
    side: BinaryIO,
    first: bytes,
    verified: MetastoreVerification,
    entries: dict[int, SideEntry] | None,
) -> None:
    """Each group is checked against the digest before it, so a change breaks only its own group."""
    at = data.seek(0)
    line, above = 1, first
    if Chain().seal(unseal(first) or b"") != first:
        verified.changed.append(0)
    for sealed in lines_in(side):
        prefix = unseal(sealed)
        noted = None if prefix is None else read_group(prefix)
        extent = extent_of(prefix or b"")
        if prefix is None or noted is None or extent is None:
            # A writer that was killed leaves a torn group only after the lines of that group.
            if sealed.endswith(b"\n") or at >= verified.bytes:
                _changed(verified, line)
            break
        data.seek(at)
        held = data.read(min(sum(noted.sizes), max(verified.bytes - at, 0)))
        if Chain.behind(above).seal(prefix, digest_of([held])) != sealed:
            _verify_group(noted, held, line, verified)
        if entries is not None:
            entries.update((entry.end, entry) for entry in noted.entries(at))
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
