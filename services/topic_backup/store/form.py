"""Detects how a backup is stored: as Kafka Backup writes it, compressed, encrypted, or both.

Every file's name shows the form, so no file must be read to detect it, and Kafka Backup's readers
ignore files of another form.

Compresses objects with Zstandard in its seekable format: frames, followed by a table of them.

``zstd -d`` decompresses such an object. Frames are small, so a range is read by decompressing
little else. Source: zstd_seekable_compression_format.md in Zstandard's repository.

Encrypts objects with AES-256-GCM, chunk by chunk, each object with its own derived key.

::

    Object =>
      Magic       => "BGSEAL1
"
      KeyId       => 8 bytes    of the key it was sealed with
      Salt        => 32 bytes   random
      NoncePrefix => 7 bytes    random
      Chunks      => [Chunk]

    Chunk => AES-256-GCM of 1 MiB of plain bytes, fewer in the last one, with its tag of 16 bytes
      key   = HKDF-SHA256(key, salt, "breakglass sealed object" || 0 || folder "/" name)
      nonce = NoncePrefix || number as uint32, big-endian || 1 for the last chunk, else 0

The construction is Tink's AES-GCM-HKDF streaming. Decryption fails if chunks are missing, repeated,
moved or cut off, or if an object was renamed or moved to another topic's folder.

The common part of compression and encryption: objects in another form, with a name suffix.
"""

from __future__ import annotations

import io
import re
import secrets
import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO, ClassVar, cast

from breakglass.services.errors import DamagedBackup, UsageError
from breakglass.services.topic_backup.folder import NewFile, State
from breakglass.services.topic_backup.layout import MANIFEST, segment_of
from breakglass.services.topic_backup.store.blobs import Blobs, Key, SeekableBytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from typing_extensions import Buffer


BUFFER_BYTES = 64 * 1024


@dataclass(frozen=True)
class Layer(ABC):
    """Objects stored in *inner* in another form, under names with a suffix."""

    inner: Blobs
    suffix: ClassVar[str]

    @abstractmethod
    def writing(self, name: str, file: NewFile, /) -> NewFile:
        """A file that converts plain bytes to the form and writes them to *file*."""

    @abstractmethod
    def reading(self, name: str, file: BinaryIO, /) -> Blocks:
        """The plain bytes of *file*."""

    def where(self, name: str = "") -> str:
        return self.inner.where(name + self.suffix if name else "")

    def names(self) -> list[str]:
        found = (name for name in self.inner.names() if name.endswith(self.suffix))
        return [text.removesuffix(self.suffix) for text in found]

    def size(self, name: str) -> int | None:
        if self.inner.size(name + self.suffix) is None:
            return None
        with self.open(name) as file:
            return file.seek(0, io.SEEK_END)

    def state(self, name: str) -> State | None:
        return self.inner.state(name + self.suffix)

    def open(self, name: str) -> BinaryIO:
        file = self.inner.open(name + self.suffix)
        try:
            blocks = self.reading(name, file)
        except BaseException:
            file.close()
            raise
        return cast("BinaryIO", io.BufferedReader(blocks, BUFFER_BYTES))

    def begin(self, name: str) -> NewFile:
        return self.writing(name, self.inner.begin(name + self.suffix))

    def create(self, name: str, content: bytes) -> bool:
        held = _InMemory()
        file = self.writing(name, held)
        file.write(memoryview(content))
        file.close()
        return self.inner.create(name + self.suffix, bytes(held.content))

    def remove(self, names: Sequence[str]) -> None:
        self.inner.remove([name + self.suffix for name in names])


class Blocks(SeekableBytes):
    """Plain bytes that are decoded block by block; one block is cached."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held: tuple[int, bytes] = (-1, b"")
        """The cached block's number and plain bytes."""

    @abstractmethod
    def place(self, position: int) -> tuple[int, int]:
        """The number of the block that contains the byte at *position*, and the block's start."""

    @abstractmethod
    def block(self, number: int) -> bytes:
        """The plain bytes of a block."""

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        if self._position >= self.size or not view:
            return 0
        number, start = self.place(self._position)
        if self._held[0] != number:
            self._held = (number, self.block(number))
        at = self._position - start
        some = self._held[1][at : at + len(view)]
        view[: len(some)] = some
        self._position += len(some)
        return len(some)


class BlockWriter(ABC):
    """Buffers plain bytes to blocks, and writes each block in its form."""

    block_bytes: ClassVar[int]

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._gathered = bytearray()

    @abstractmethod
    def put(self, block: memoryview) -> None:
        """Write a block that is not the last."""

    @abstractmethod
    def end(self, block: memoryview) -> None:
        """Write the last block, which may be smaller or empty, and what follows it."""

    def write(self, data: memoryview) -> None:
        self._gathered += data
        whole = len(self._gathered) - 1
        if whole < self.block_bytes:
            return
        # One block stays buffered, because only `close` knows which block is the last.
        upto = whole - whole % self.block_bytes
        gathered, self._gathered = self._gathered, self._gathered[upto:]
        view = memoryview(gathered)
        for at in range(0, upto, self.block_bytes):
            self.put(view[at : at + self.block_bytes])

    def close(self) -> None:
        self.end(memoryview(self._gathered))
        self._file.close()

    def abandon(self) -> None:
        self._file.abandon()


class _InMemory:
    """A small object before it is written."""

    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, data: memoryview) -> None:
        self.content += data

    def close(self) -> None: ...

    def abandon(self) -> None: ...


MAGIC = b"BGSEAL1\n"
HEADER = struct.Struct(
    ">8s"  # Magic
    "8s"  # KeyId
    "32s"  # Salt
    "7s"  # NoncePrefix
)
NONCE = struct.Struct(
    ">7s"  # NoncePrefix
    "I"  # Number
    "B"  # 1 for the last chunk
)
PURPOSE = b"breakglass sealed object\0"
CHUNK_BYTES = 1024 * 1024
TAG_BYTES = 16


@dataclass(frozen=True)
class Sealed(Layer):
    """Objects stored as ``name.aes``."""

    key: Key
    folder: str
    """The name of the topic's folder; it is part of each object's identity."""
    suffix: ClassVar[str] = ".aes"

    def writing(self, name: str, file: NewFile, /) -> NewFile:
        return _Sealing(file, self.key, self._identity(name))

    def reading(self, name: str, file: BinaryIO, /) -> Blocks:
        return _Opened(file, self.where(name), self.key, self._identity(name))

    def _identity(self, name: str) -> bytes:
        return PURPOSE + f"{self.folder}/{name}".encode()


class _Sealing(BlockWriter):
    block_bytes: ClassVar[int] = CHUNK_BYTES

    def __init__(self, file: NewFile, key: Key, identity: bytes) -> None:
        super().__init__(file)
        salt, self._prefix = secrets.token_bytes(32), secrets.token_bytes(7)
        self._cipher = _cipher(key, salt, identity)
        self._number = 0
        self._file.write(memoryview(HEADER.pack(MAGIC, key.id, salt, self._prefix)))

    def put(self, block: memoryview) -> None:
        self._seal(block, last=False)

    def end(self, block: memoryview) -> None:
        self._seal(block, last=True)

    def _seal(self, block: memoryview, *, last: bool) -> None:
        nonce = NONCE.pack(self._prefix, self._number, last)
        self._number += 1
        self._file.write(memoryview(self._cipher.encrypt(nonce, bytes(block), None)))


class _Opened(Blocks):
    def __init__(self, file: BinaryIO, where: str, key: Key, identity: bytes) -> None:
        """Open the object; the last chunk is decrypted first: it proves that none is missing.

        Raises:
            UsageError: another key sealed the object.
            DamagedBackup: the object is incomplete, or was not sealed under this name.
        """
        super().__init__(file)
        self._where = where
        header = file.read(HEADER.size)
        if len(header) < HEADER.size or not header.startswith(MAGIC):
            raise DamagedBackup(where, 0, "it does not begin as a sealed object does")
        _, key_id, salt, self._prefix = HEADER.unpack(header)
        if key_id != key.id:
            raise UsageError(
                f"{where} was encrypted with another key (id {key_id.hex()}, the given one is "
                f"{key.id.hex()}): give that one with --key."
            )
        self._cipher = _cipher(key, salt, identity)
        sealed = file.seek(0, io.SEEK_END) - HEADER.size
        self._chunks = max(1, -(-sealed // (CHUNK_BYTES + TAG_BYTES)))
        self._size = sealed - self._chunks * TAG_BYTES
        if self._size < 0:
            raise DamagedBackup(where, HEADER.size, "it is cut", torn=True)
        _ = self._last

    @property
    def size(self) -> int:
        return self._size

    def place(self, position: int) -> tuple[int, int]:
        number = position // CHUNK_BYTES
        return number, number * CHUNK_BYTES

    def block(self, number: int) -> bytes:
        return self._last if number == self._chunks - 1 else self._chunk(number, last=False)

    @cached_property
    def _last(self) -> bytes:
        return self._chunk(self._chunks - 1, last=True)

    def _chunk(self, number: int, *, last: bool) -> bytes:
        from cryptography.exceptions import InvalidTag

        at = HEADER.size + number * (CHUNK_BYTES + TAG_BYTES)
        self._file.seek(at)
        sealed = self._file.read(CHUNK_BYTES + TAG_BYTES)
        try:
            return self._cipher.decrypt(NONCE.pack(self._prefix, number, last), sealed, None)
        except InvalidTag:
            reason = "it was changed, cut or exchanged since it was encrypted"
            raise DamagedBackup(self._where, at, reason) from None


def _cipher(key: Key, salt: bytes, identity: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key.derived(salt, identity))


LEVEL = 3
FRAME_BYTES = 1024 * 1024
MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Larger frames are rejected."""
MAX_FRAMES = 0x8000000
"""As in zstd_seekable.h."""

SKIPPABLE = 0x184D2A5E
SEEKABLE = 0x8F92EAB1
TABLE_HEAD = struct.Struct(
    "<I"  # Skippable_Magic_Number
    "I"  # Frame_Size
)
TABLE_ENTRY = struct.Struct(
    "<I"  # Compressed_Size
    "I"  # Decompressed_Size
)
TABLE_FOOTER = struct.Struct(
    "<I"  # Number_Of_Frames
    "B"  # Seek_Table_Descriptor: no checksums
    "I"  # Seekable_Magic_Number
)


class Compressed(Layer):
    """Objects stored as ``name.zst``."""

    suffix: ClassVar[str] = ".zst"

    def writing(self, _: str, file: NewFile, /) -> NewFile:
        return _Compressing(file)

    def reading(self, name: str, file: BinaryIO, /) -> Blocks:
        return _Frames(file, self.where(name))


class _Compressing(BlockWriter):
    block_bytes: ClassVar[int] = FRAME_BYTES

    def __init__(self, file: NewFile) -> None:
        super().__init__(file)
        self._entries = bytearray()

    def put(self, block: memoryview) -> None:
        from cramjam import zstd

        frame = bytes(zstd.compress(bytes(block), level=LEVEL))
        self._entries += TABLE_ENTRY.pack(len(frame), len(block))
        self._file.write(memoryview(frame))

    def end(self, block: memoryview) -> None:
        self.put(block)
        count = len(self._entries) // TABLE_ENTRY.size
        size = len(self._entries) + TABLE_FOOTER.size
        head = TABLE_HEAD.pack(SKIPPABLE, size)
        footer = TABLE_FOOTER.pack(count, 0, SEEKABLE)
        self._file.write(memoryview(head + self._entries + footer))


class _Frames(Blocks):
    def __init__(self, file: BinaryIO, where: str) -> None:
        super().__init__(file)
        self._where = where
        sizes = self._table()
        self._starts = [0, *accumulate(plain for _, plain in sizes)]
        self._places = [0, *accumulate(packed for packed, _ in sizes)]

    @property
    def size(self) -> int:
        return self._starts[-1]

    def place(self, position: int) -> tuple[int, int]:
        number = bisect_right(self._starts, position) - 1
        return number, self._starts[number]

    def block(self, number: int) -> bytes:
        import cramjam

        at, end = self._places[number], self._places[number + 1]
        self._file.seek(at)
        frame = self._file.read(end - at)
        output = bytearray(self._starts[number + 1] - self._starts[number])
        try:
            size = cramjam.zstd.decompress_into(frame, output)
        except cramjam.DecompressionError as error:
            raise DamagedBackup(self._where, at, f"no Zstandard frame ({error})") from None
        if size != len(output):
            raise DamagedBackup(self._where, at, "the frame is not of the size that is noted")
        return bytes(output)

    def _table(self) -> list[tuple[int, int]]:
        end = self._file.seek(0, io.SEEK_END)
        footer = self._read(end - TABLE_FOOTER.size, TABLE_FOOTER.size)
        count, flags, magic = TABLE_FOOTER.unpack(footer)
        if magic != SEEKABLE or flags or count > MAX_FRAMES:
            raise DamagedBackup(self._where, end, "the table of frames is missing", torn=True)
        size = count * TABLE_ENTRY.size
        start = end - TABLE_FOOTER.size - size
        sizes = list(TABLE_ENTRY.iter_unpack(self._read(start, size)))
        packed = sum(one for one, _ in sizes)
        if packed + TABLE_HEAD.size != start or any(one > MAX_FRAME_BYTES for _, one in sizes):
            raise DamagedBackup(self._where, start, "the table of frames is not this file's")
        return sizes

    def _read(self, start: int, size: int) -> bytes:
        if start < 0:
            raise DamagedBackup(self._where, 0, "the table of frames is missing", torn=True)
        self._file.seek(start)
        content = self._file.read(size)
        if len(content) < size:
            raise DamagedBackup(self._where, start, "the file was cut while it was read")
        return content


_MANIFEST = re.compile(
    rf"{re.escape(MANIFEST.removesuffix('.json'))}(?:_[0-9]{{10,19}})?\.json(\.zst)?(\.aes)?",
    re.ASCII,
)
_IN_RUN = re.compile(r"run-[^/]*/[^/]*_(?:records|index)(\.zst)?(\.aes)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredForm:
    """How a backup is stored."""

    compressed: bool = False
    encrypted: bool = False

    def __str__(self) -> str:
        words = ["compressed"] * self.compressed + ["encrypted"] * self.encrypted
        return " and ".join(words) or "plain"

    @property
    def plain(self) -> bool:
        """Whether the form is Kafka Backup's own."""
        return not (self.compressed or self.encrypted)


def form_of(names: Iterable[str]) -> StoredForm | None:
    """The form of the backup with the files *names*; None if they belong to no backup."""
    found = None
    for name in names:
        if match := _MANIFEST.fullmatch(name):
            return StoredForm(bool(match[1]), bool(match[2]))
        if found is None and (match := _IN_RUN.fullmatch(name)):
            found = StoredForm(bool(match[1]), bool(match[2]))
        if found is None and segment_of(name) is not None:
            found = StoredForm()
    return found


def has_manifest(names: Iterable[str]) -> bool:
    """Whether *names* include a manifest in any form, so that something was committed."""
    return any(_MANIFEST.fullmatch(name) for name in names)


def in_form(blobs: Blobs, form: StoredForm, key: Key | None, folder: str) -> Blobs:
    """The plain content of *blobs*, which are stored in *form* in the folder of that name.

    Raises UsageError: they are encrypted, and there is no key.
    """
    if form.encrypted:
        if key is None:
            raise UsageError(
                f"{blobs.where()} is encrypted: name the file that holds its key with --key."
            )
        blobs = Sealed(blobs, key, folder)
    return Compressed(blobs) if form.compressed else blobs
