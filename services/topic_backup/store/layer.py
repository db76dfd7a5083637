"""The common part of compression and encryption: objects in another form, with a name suffix."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, ClassVar, cast

from breakglass.services.topic_backup.folder import NewFile, State
from breakglass.services.topic_backup.store.blobs import Blobs

if TYPE_CHECKING:
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
        return cast(BinaryIO, io.BufferedReader(blocks, BUFFER_BYTES))

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


class Blocks(io.RawIOBase, ABC):
    """Plain bytes that are decoded block by block; one block is cached."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self._held: tuple[int, bytes] = (-1, b"")
        """The cached block's number and plain bytes."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of plain bytes."""

    @abstractmethod
    def place(self, position: int) -> tuple[int, int]:
        """The number of the block that contains the byte at *position*, and the block's start."""

    @abstractmethod
    def block(self, number: int) -> bytes:
        """The plain bytes of a block."""

    def close(self) -> None:
        self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = base + offset
        return self._position

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
