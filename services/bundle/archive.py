"""The file of a bundle and its manifest, written and read with distrust.

The manifest of a bundle: its version, what is in it, and what could not be read and why.

The file of a bundle: a compressed tar that `tar -tzf` lists, read with distrust.

Nothing is extracted: entries are streamed in memory-bounded pieces, by the names and in the order
of the manifest, which comes first. A reader here takes regular files with short plain names and
nothing else of the tar format, so that links, paths and other kinds of entries have no meaning.
Sizes are checked before anything is decompressed, and what is decompressed is bounded again.
"""

from __future__ import annotations

import errno
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from breakglass.services.bundle.values import Unfit, decode, encode
from breakglass.services.errors import MalformedInput, StorageError, UnsupportedSchema
from breakglass.services.model import Unknown
from breakglass.services.regular_file import open_regular, replacing
from breakglass.services.rights import sync_folder

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
