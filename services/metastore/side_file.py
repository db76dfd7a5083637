"""What a backup's line cannot hold, in a file beside it: offset, time, headers, and a hash chain.

::

    {"schema":1,"topic":...,"topic_id":...,"cluster_id":...,...,"c":"<64 hex digits>"}
    {"n":2,"b":512,"o":[12,14],"t":[1593540976000,1593540976000],"s":[302,210],"k":[24,19],
     "x":[3632233996,2405603159],"h":{"1":[["name","<base64>"]]},"c":"<64 hex digits>"}

Behind the header one line a group of commands that were written at once: how many they are, the
byte of the backup behind the last of them, and of each its offset, its timestamp in milliseconds,
the bytes of its line (with blank lines before it), of its key, and the CRC-32C of its line; headers
of those that have some, and under ``"z"`` which of key and value are null. ``c`` of the first line
is the SHA-256 of that line before ``,"c"``; ``c`` of a group is the SHA-256 of the one above (32
bytes), the group before ``,"c"``, and the SHA-256 of the bytes of the backup that it stands for. A
line that was changed, taken out or put in breaks the chain there, and its CRC-32C tells which.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import accumulate
from typing import Any, NamedTuple

from google_crc32c import value as crc32c
from pydantic_core import to_json

from breakglass.services.errors import MalformedInput, UnsupportedSchema
from breakglass.services.metastore.record_json import parse_json
from breakglass.services.metastore.records import CommandRecord, Headers

SCHEMA = 1
SUFFIX = ".side"
"""Behind the name of the backup. ksqlDB passes over it: what follows its prefix is no number."""
COLUMNS = "otskx"
"""Names of the lists of a group: those of the fields of `Noted`, in their order."""
_BLANKS = re.compile(rb"(?:[ \t\r]*\n)*")
_SEALED = re.compile(rb',"c":"[0-9a-f]{64}"\}\n')
_SEAL = len(b',"c":""}\n') + 64
_EXTENT = re.compile(rb'\{"n":(\d{1,18}),"b":(\d{1,18}),')


@dataclass(frozen=True, slots=True)
class SideHeader:
    """What holds for every line of a backup."""

    topic: str
    topic_id: str
    cluster_id: str
    created_ms: int
    diverged: dict[str, Any] = field(default_factory=dict)
    """The first difference to the backup before this one, where that is why it was begun."""

    def prefix(self) -> bytes:
        """The line before its digest."""
        return _open_json({"schema": SCHEMA, **asdict(self)})


class SideEntry(NamedTuple):
    """What is noted of one command."""

    offset: int
    timestamp_ms: int | None
    end: int
    """One past the last byte of its line in the backup."""
    key_size: int
    """Bytes of its key."""
    headers: Headers = ()
    null_key: bool = False
    null_value: bool = False

    def record(self, line: bytes) -> CommandRecord:
        """The record again; *line* is what the backup has of it, blank lines before it too."""
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
    """What is noted of commands that follow each other, a list for each of their fields."""

    offsets: list[int]
    times: list[int | None]
    sizes: list[int]
    """Bytes of each line, with blank lines before it."""
    key_sizes: list[int]
    checks: list[int]
    """CRC-32C of each line."""
    headers: dict[int, Headers]
    """By place in these lists, of those that have some."""
    nulls: dict[int, str]
    """``k``, ``v`` or both, of those that are null."""

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, end: int) -> Noted:
        """Those from *start* to *end*, which is not among them."""
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
        """Their line before its digest; *end* is the byte of the backup behind them."""
        told = b",".join(
            b'"%b":%b' % (name.encode(), to_json(column))
            for name, column in zip(COLUMNS, self[:5], strict=True)
        )
        rest: dict[str, Any] = {}
        if self.headers:
            rest["h"] = {
                at: [[name, _base64(value)] for name, value in one]
                for at, one in self.headers.items()
            }
        if self.nulls:
            rest["z"] = self.nulls
        begin = b'{"n":%d,"b":%d,%b' % (len(self.offsets), end, told)
        return begin + (b"," + _open_json(rest)[1:] if rest else b"")

    def entries(self, begin: int) -> Iterator[SideEntry]:
        """One by one; *begin* is the byte of the backup where they begin."""
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
    """What is noted of *records*, of which the backup has *lines*.

    A million of them are noted while a disk takes their lines, so it goes field by field.
    """
    keys = [one.key for one in records]
    no_key = [at for at, key in enumerate(keys) if key is None]
    no_value = [at for at, one in enumerate(records) if one.value is None]
    some_headers = any(one.headers for one in records)
    return Noted(
        [one.offset for one in records],
        [one.timestamp_ms for one in records],
        list(map(len, lines)),
        [len(key or b"") for key in keys],
        list(map(crc32c, lines)),
        {at: one.headers for at, one in enumerate(records) if one.headers} if some_headers else {},
        {at: "k" * (at in no_key) + "v" * (at in no_value) for at in sorted({*no_key, *no_value})},
    )


class Chain:
    """The digest so far; makes the lines of a side file, one after the other."""

    def __init__(self, digest: bytes = b"") -> None:
        self._digest = digest

    @classmethod
    def behind(cls, sealed: bytes) -> Chain:
        """The chain that goes on behind the line *sealed*, which is whole."""
        return cls(bytes.fromhex(sealed[-67:-3].decode("ascii")))

    @property
    def digest(self) -> str:
        """Of everything up to here: noted elsewhere, it proves that nothing was changed since."""
        return self._digest.hex()

    def seal(self, prefix: bytes, held: bytes = b"") -> bytes:
        """The whole line of the side file for *prefix*.

        *held* is the SHA-256 of what it stands for of the backup; empty for the header.
        """
        self._digest = sha256(self._digest + prefix + held).digest()
        return b'%b,"c":"%b"}\n' % (prefix, self._digest.hex().encode())


def digest_of(held: Iterable[bytes | memoryview]) -> bytes:
    """What `Chain.seal` takes for these bytes of the backup; threads may make it side by side."""
    digest = sha256()
    for piece in held:
        digest.update(piece)
    return digest.digest()


def unseal(line: bytes) -> bytes | None:
    """The prefix of a sealed line; None where it is torn or no such line."""
    begin, seal = line[:-_SEAL], line[-_SEAL:]
    return begin if begin and _SEALED.fullmatch(seal) else None


def extent_of(prefix: bytes) -> tuple[int, int] | None:
    """How many commands a group has, and the byte of the backup behind them; None: no group."""
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
    """One group; None where the bytes are none."""
    document = _document(prefix)
    if document is None:
        return None
    try:
        offsets, times, sizes, key_sizes, checks = (
            _column(document[name], unknown=name == "t") for name in COLUMNS
        )
        headers = {int(at): _headers(told) for at, told in document.get("h", {}).items()}
        nulls = {int(at): str(told) for at, told in document.get("z", {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    noted = Noted(offsets, times, sizes, key_sizes, checks, headers, nulls)
    whole = all(len(column) == document.get("n") for column in noted[:5])
    return noted if whole and all(size > 0 for size in sizes) else None


def _column(told: object, *, unknown: bool) -> list[Any]:
    """A list of whole numbers, null among them where that may be."""
    kinds = {int, type(None)} if unknown else {int}
    if not isinstance(told, list) or not set(map(type, told)) <= kinds:
        raise ValueError("no list of whole numbers")
    return told


def _headers(told: Any) -> Headers:
    return tuple([(str(name), _bytes(value)) for name, value in told])


def _open_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()[:-1]


def _document(prefix: bytes) -> dict[str, Any] | None:
    try:
        document = parse_json(prefix + b"}")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
