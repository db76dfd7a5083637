r"""Encrypts objects with AES-256-GCM, chunk by chunk, each object with its own derived key.

::

    Object =>
      Magic       => "BGSEAL1\n"
      KeyId       => 8 bytes    of the key it was sealed with
      Salt        => 32 bytes   random
      NoncePrefix => 7 bytes    random
      Chunks      => [Chunk]

    Chunk => AES-256-GCM of 1 MiB of plain bytes, fewer in the last one, with its tag of 16 bytes
      key   = HKDF-SHA256(key, salt, "breakglass sealed object" || 0 || folder "/" name)
      nonce = NoncePrefix || number as uint32, big-endian || 1 for the last chunk, else 0

The construction is Tink's AES-GCM-HKDF streaming. Decryption fails if chunks are missing, repeated,
moved or cut off, or if an object was renamed or moved to another topic's folder.
"""

from __future__ import annotations

import io
import secrets
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from breakglass.services.errors import DamagedBackup, UsageError
from breakglass.services.topic_backup.folder import NewFile
from breakglass.services.topic_backup.store.key import Key
from breakglass.services.topic_backup.store.layer import Blocks, BlockWriter, Layer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

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
