"""Compresses objects with Zstandard in its seekable format: frames, followed by a table of them.

``zstd -d`` decompresses such an object. Frames are small, so a range is read by decompressing
little else. Source: zstd_seekable_compression_format.md in Zstandard's repository.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from itertools import accumulate
from typing import BinaryIO, ClassVar

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import NewFile
from breakglass.services.topic_backup.store.layer import Blocks, BlockWriter, Layer

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
        """The compressed and plain size of each frame."""
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
