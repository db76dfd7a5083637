"""The file of a bundle: a compressed tar that `tar -tzf` lists, written and read with distrust.

Its manifest has the version, what is in the bundle, and what could not be read and why. Nothing is
extracted: entries are streamed in memory-bounded pieces, by the names and in the order of the
manifest, which comes first. A reader here takes regular files with short plain names and nothing
else of the tar format, so that links, paths and other kinds of entries have no meaning. Sizes are
checked before anything is decompressed, and what is decompressed is bounded again.

Values are written as JSON and read back strictly as the same values, the kinds of `Unknown` among
them, because verdicts depend on these kinds. Types, ranges and depth are checked before a value is
made: what is read was written by others.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema
from breakglass.services.model import Denied, Forfeited, Silent, Unknown
from breakglass.services.regular_file import open_regular, replacing
from breakglass.services.rights import sync_folder

T = TypeVar("T")
Decoder = Callable[[Any, int], Any]
"""Reads a JSON value at a depth. Raises Unfit."""

KINDS: Mapping[str, type[Unknown]] = {
    "unknown": Unknown,
    "denied": Denied,
    "silent": Silent,
    "forfeited": Forfeited,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
LARGEST = 2**63
"""Numbers of Kafka have 64 bits."""
DEEPEST = 40
"""Values within values; those that are written have fewer than ten."""


class Unfit(ValueError):
    """A JSON value that is not what it should be; says what was expected."""


def encode(value: Any) -> Any:
    """*value* in the types of JSON.

    Raises:
        TypeError: it has none, as a secret has none.
    """
    match value:
        case Enum():
            return value.value
        case None | bool() | str() | int() | float():
            return value
        case Unknown():
            needs = {"needs": value.needs} if isinstance(value, Denied) else {}
            return {"unknown": value.reason, "kind": _NAMES[type(value)], **needs}
        case UUID():
            return str(value)
        case bytes():
            return b64encode(value).decode()
        case Mapping():
            return {str(key): encode(item) for key, item in value.items()}
        case tuple() | list():
            return [encode(item) for item in value]
        case frozenset():
            return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _field_names(type(value))}
    raise TypeError(f"a {type(value).__name__} has no place in a bundle")


def decode(kind: type[T], document: Any) -> T:
    """The value of the dataclass *kind* that *document* is.

    Raises:
        Unfit: it is none; nothing was made of it.
    """
    value: T = _decoder(cast("Any", kind))(document, 0)
    return value


@lru_cache(256)
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@lru_cache(1024)
def _decoder(kind: Any) -> Decoder:
    """What reads a *kind*, which is a type or an annotation."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _choice(args)
    if origin is tuple:
        return _sequence(args[0], tuple)
    if origin is frozenset:
        return _sequence(args[0], frozenset)
    if origin in (dict, Mapping):
        return _mapping(*args)
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {member.value: member for member in kind}

        def member(value: Any, _: int) -> Enum:
            if type(value) not in (str, int) or value not in members:
                raise Unfit(f"one of {', '.join(map(str, members))} is expected")
            return members[value]

        return member
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind)
    raise TypeError(f"{kind} cannot be read from a bundle")


def _whole_number(value: Any, _: int) -> int:
    if type(value) is not int or not -LARGEST <= value < LARGEST:
        raise Unfit("a whole number of 64 bits is expected")
    return value


def _number(value: Any, _: int) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > LARGEST:
        raise Unfit("a number is expected")
    return float(value)


def _text(value: Any, _: int) -> str:
    if type(value) is not str:
        raise Unfit("a text is expected")
    return value


def _flag(value: Any, _: int) -> bool:
    if type(value) is not bool:
        raise Unfit("true or false is expected")
    return value


def _nothing(value: Any, _: int) -> None:
    if value is not None:
        raise Unfit("null is expected")


def _uuid(value: Any, depth: int) -> UUID:
    try:
        return UUID(_text(value, depth))
    except ValueError as error:
        raise Unfit("a UUID is expected") from error


def _bytes(value: Any, depth: int) -> bytes:
    try:
        return b64decode(_text(value, depth), validate=True)
    except ValueError as error:
        raise Unfit("bytes in base64 are expected") from error


def _unknown(value: Any, _: int) -> Unknown:
    if not (_is_unknown(value) and value.keys() <= {"unknown", "kind", "needs"}):
        raise Unfit('{"unknown": REASON, "kind": KIND} is expected')
    kind, reason = KINDS.get(value["kind"]), value["unknown"]
    if kind is Denied and type(value.get("needs")) is str:
        return Denied(reason, value["needs"])
    if kind in (None, Denied) or "needs" in value:
        raise Unfit("an unknown value of a known kind is expected")
    return kind(reason)


def _is_unknown(value: Any) -> bool:
    """Whether *value* has the form of an `Unknown`; a mapping of numbers never has."""
    return type(value) is dict and all(type(value.get(key)) is str for key in ("unknown", "kind"))


_PLAIN: dict[Any, Decoder] = {
    int: _whole_number,
    float: _number,
    str: _text,
    bool: _flag,
    NoneType: _nothing,
    UUID: _uuid,
    bytes: _bytes,
    Unknown: _unknown,
}


def _choice(kinds: tuple[Any, ...]) -> Decoder:
    """One of several: null, an unknown value, or the one kind that is left."""
    (known,) = [kind for kind in kinds if kind not in (NoneType, Unknown)] or [Unknown]
    read = _decoder(known) if known in _PLAIN else None

    def choose(value: Any, depth: int) -> Any:
        if value is None and NoneType in kinds:
            return None
        if Unknown in kinds and _is_unknown(value):
            return _unknown(value, depth)
        # Looked up now: a class may have a field of its own kind.
        return (read or _decoder(known))(value, depth)

    return choose


def _sequence(kind: Any, make: Callable[[list[Any]], Any]) -> Decoder:
    read = _decoder(kind)

    def sequence(value: Any, depth: int) -> Any:
        if type(value) is not list:
            raise Unfit("a list is expected")
        return make([read(item, depth + 1) for item in value])

    return sequence


def _mapping(key_kind: Any, kind: Any) -> Decoder:
    read = _decoder(kind)

    def mapping(value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise Unfit("an object is expected")
        return {_key(key_kind, key): read(item, depth + 1) for key, item in value.items()}

    return mapping


def _key(kind: Any, key: str) -> Any:
    if kind is str:
        return key
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and str(int(key)) == key):
        raise Unfit("a broker id is expected as a key")
    return int(key)


def _object(kind: type[Any]) -> Decoder:
    hints = get_type_hints(kind)
    needed = {
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }
    readers: dict[str, Decoder] = {}

    def value_of(value: Any, depth: int) -> Any:
        if depth > DEEPEST:
            raise Unfit("its values are nested without end")
        if type(value) is not dict or not needed <= value.keys() <= hints.keys():
            raise Unfit(f"a {kind.__name__} with its fields is expected")
        if not readers:
            readers.update({name: _decoder(hints[name]) for name in hints})
        made = {}
        for name, item in value.items():
            try:
                made[name] = readers[name](item, depth + 1)
            except Unfit as error:
                raise Unfit(f"{name}: {error}") from error
        return kind(**made)

    return value_of


FORMAT = "breakglass-bundle"
VERSION = 1
"""Of the format; every change of a field makes a new version, and other versions are refused."""
MANIFEST = "manifest.json"
"""The name of the first entry."""


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One entry of a bundle."""

    name: str
    size: int
    """Bytes, not compressed."""
    sha256: str
    """Of these bytes, in hexadecimal."""
    read_at_ms: int
    """When its last figure was read, in milliseconds of the epoch."""


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """Something that a bundle lacks."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """The first entry of a bundle."""

    made_by: str
    """The release: ``breakglass 1.2``."""
    cluster_id: str | Unknown
    began_at_ms: int
    captured_at_ms: int
    """When it ended; the clock of a console on the bundle stands there."""
    entries: tuple[BundleEntry, ...]
    """In the order in which they follow."""
    unread: tuple[UnreadPart, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with the name and the version of the format."""
        return {"format": FORMAT, "version": VERSION, **encode(self)}


def parse_manifest(data: bytes, source: str) -> BundleManifest:
    """The manifest in *data*, the first entry of the file that messages call *source*.

    Raises:
        MalformedInput: it is no manifest.
        UnsupportedSchema: another release wrote it.
    """
    document = _document(data, source)
    version = document.pop("version", None)
    if document.pop("format", None) != FORMAT or type(version) is not int:
        raise no_bundle(source, "its first entry is no manifest")
    if version != VERSION:
        raise UnsupportedSchema(
            f"{source} has bundle version {version} and this release reads {VERSION}: open it with "
            "the release that captured it."
        )
    try:
        return decode(BundleManifest, document)
    except Unfit as error:
        raise no_bundle(source, f"its manifest cannot be read, {error}") from error


def no_bundle(source: str, why: str) -> MalformedInput:
    """The error of a file that is no bundle, or a damaged one."""
    return MalformedInput(
        f"{source} cannot be opened as a bundle ({why}): take it again from where it was captured."
    )


def _document(data: bytes, source: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise no_bundle(source, "its manifest is not JSON") from error
    if type(document) is not dict:
        raise no_bundle(source, "its manifest is no object")
    return document


MOST_FILE_BYTES = 1 << 30
MOST_BYTES = 2 << 30
"""Of all entries together, not compressed."""
MOST_MANIFEST_BYTES = 1 << 20
MOST_ENTRIES = 200
MOST_LINE_BYTES = 4 << 20
MOST_LINES = 2_000_000
"""Lines of one entry."""
BLOCK = 512
GZIP = 16 + zlib.MAX_WBITS
PIECE = 256 * 1024
NAME = re.compile(
    r"[a-z][a-z0-9-]{0,40}\.jsonl?|journal/[0-9]{8}T[0-9]{6}\.[0-9]{6}Z\.jsonl", re.ASCII
)
"""Names of entries; no other name is written or taken."""
_OCTAL = re.compile(rb"[0-7]{11}\x00")
_MAGIC = b"ustar\x0000"
_REGULAR = b"0"

Take = Callable[[BundleEntry, Iterator[bytes]], None]
"""Gets each entry with its lines, in the order of the manifest; need not read them all."""


def header_of(name: str, size: int, at_ms: int) -> bytes:
    """The tar header of an entry; every entry is for its owner alone."""
    fields = (
        name.encode("ascii").ljust(100, b"\0"),
        b"0000600\0" + b"0000000\0" * 2,
        b"%011o\0" % size,
        b"%011o\0" % (at_ms // 1000),
        b" " * 8,
        _REGULAR + b"\0" * 100,
        _MAGIC,
    )
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def write_archive(
    path: Path, manifest: bytes, entries: Iterator[tuple[BundleEntry, Iterator[bytes]]]
) -> None:
    """Write a bundle to *path*, which is there whole and readable by its owner alone, or not.

    Raises:
        FileExistsError: there is a file of that name; it is left as it is.
        StorageError: it cannot be written.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    try:
        with replacing(path, 0o600) as file:
            _write(file, manifest, entries)
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder with room."
        ) from error


def read_archive(path: Path, take: Take, opened: Callable[[BundleManifest], None]) -> None:
    """Read the bundle at *path*: its manifest goes to *opened*, then each entry to *take*.

    Raises:
        MalformedInput: it is no bundle, or damaged; what *take* got before must not be used.
        UnsupportedSchema: another release wrote it.
        StorageError: it cannot be read.
    """
    source = str(path)
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_FILE_BYTES:
                raise no_bundle(source, f"{size:,} bytes are more than a bundle has")
            _read(_Inflated(file, source), source, take, opened)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read ({error.strerror}): check its name and its rights."
        ) from error


def _write(
    file: BinaryIO, manifest: bytes, entries: Iterator[tuple[BundleEntry, Iterator[bytes]]]
) -> None:
    packing = zlib.compressobj(6, zlib.DEFLATED, GZIP)

    def put(data: bytes) -> None:
        file.write(packing.compress(data))

    put(header_of(MANIFEST, len(manifest), 0) + manifest + _padding(len(manifest)))
    for entry, pieces in entries:
        put(header_of(entry.name, entry.size, entry.read_at_ms))
        for piece in pieces:
            put(piece)
        put(_padding(entry.size))
    put(b"\0" * (2 * BLOCK))
    file.write(packing.flush())


def _padding(size: int) -> bytes:
    return b"\0" * (-size % BLOCK)


class _Inflated:
    """The decompressed bytes of a file, a piece at a time."""

    def __init__(self, file: BinaryIO, source: str) -> None:
        self._file, self._source = file, source
        self._unpacking = zlib.decompressobj(GZIP)

    def exactly(self, size: int) -> bytes:
        """The next *size* bytes, which the caller has bounded. Raises MalformedInput."""
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """The same in pieces of at most `PIECE` bytes."""
        while size:
            piece = self._piece(min(size, PIECE))
            size -= len(piece)
            yield piece

    def require_end(self) -> None:
        """Refuse what follows the last entry. Raises MalformedInput."""
        left = self._unpacking
        if not left.eof and left.decompress(left.unconsumed_tail, 1):
            raise no_bundle(self._source, "something follows its last entry")
        if not left.eof or left.unused_data or self._file.read(1):
            raise no_bundle(self._source, "something follows its end, or its end is missing")

    def _piece(self, most: int) -> bytes:
        """Some of the next bytes, at least one."""
        unpacking = self._unpacking
        while not unpacking.eof:
            packed = unpacking.unconsumed_tail or self._file.read(PIECE)
            try:
                piece = unpacking.decompress(packed, most)
            except zlib.error as error:
                raise no_bundle(self._source, "it is not compressed as a bundle is") from error
            if piece:
                return piece
            if not packed:
                break
        raise no_bundle(self._source, "it ends too early")


def _read(
    content: _Inflated, source: str, take: Take, opened: Callable[[BundleManifest], None]
) -> None:
    size = _header(content.exactly(BLOCK), MANIFEST, source)
    if size > MOST_MANIFEST_BYTES:
        raise no_bundle(source, f"a manifest of {size:,} bytes is none")
    manifest = parse_manifest(content.exactly(size), source)
    content.exactly(len(_padding(size)))
    _refuse_bombs(manifest, source)
    opened(manifest)
    for entry in manifest.entries:
        if _header(content.exactly(BLOCK), entry.name, source) != entry.size:
            raise no_bundle(source, f"the size of {entry.name} is not that of the manifest")
        _read_entry(content, entry, source, take)
        content.exactly(len(_padding(entry.size)))
    if any(content.exactly(2 * BLOCK)):
        raise no_bundle(source, "it has entries that its manifest does not name")
    content.require_end()


def _refuse_bombs(manifest: BundleManifest, source: str) -> None:
    """Refuse by what the manifest says, before any entry is decompressed."""
    names = [entry.name for entry in manifest.entries]
    if len(names) > MOST_ENTRIES or len(set(names)) < len(names):
        raise no_bundle(source, "its manifest names too many entries, or one twice")
    if not all(map(NAME.fullmatch, names)) or MANIFEST in names:
        raise no_bundle(source, "its manifest names an entry that no bundle has")
    sizes = [entry.size for entry in manifest.entries]
    if any(size < 0 for size in sizes) or sum(sizes) > MOST_BYTES:
        raise no_bundle(source, "its manifest names sizes that no bundle has")


def _header(block: bytes, name: str, source: str) -> int:
    """The size of the entry that *block* begins. Raises MalformedInput unless it is *name*."""
    size = block[124:136]
    if not _OCTAL.fullmatch(size) or not _OCTAL.fullmatch(block[136:148]):
        raise no_bundle(source, f"{name} does not follow where it has to")
    number, at_seconds = int(size[:11], 8), int(block[136:147], 8)
    if block != header_of(name, number, at_seconds * 1000):
        raise no_bundle(source, f"{name} does not follow where it has to")
    return number


def _read_entry(content: _Inflated, entry: BundleEntry, source: str, take: Take) -> None:
    digest = sha256()

    def pieces() -> Iterator[bytes]:
        for piece in content.pieces(entry.size):
            digest.update(piece)
            yield piece

    lines = _lines(pieces(), entry.name, source)
    take(entry, lines)
    for _ in lines:
        pass
    if digest.hexdigest() != entry.sha256:
        raise no_bundle(source, f"{entry.name} is damaged: its SHA-256 is another")


def _lines(pieces: Iterator[bytes], name: str, source: str) -> Iterator[bytes]:
    begun: list[bytes] = []
    length = count = 0
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for line in ended:
            whole = b"".join((*begun, line))
            begun, length, count = [], 0, count + 1
            if count > MOST_LINES or len(whole) > MOST_LINE_BYTES:
                raise no_bundle(source, f"{name} has more than it can have")
            yield whole
        begun.append(rest)
        length += len(rest)
        if length > MOST_LINE_BYTES:
            raise no_bundle(source, f"{name} has a line without end")
    if length:
        raise no_bundle(source, f"the last line of {name} does not end")
