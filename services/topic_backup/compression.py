"""Decompresses the codecs of record batches, with a limit on the output's size.

Snappy is either framed as by Java producers (xerial: a header, then length-prefixed blocks) or one
raw block; LZ4 and Zstandard are frames. Producers before Kafka 0.10 wrote a wrong checksum in the
header of LZ4 frames (KAFKA-3160). Source: CompressionType.java and its codecs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Protocol

from breakglass.services.errors import MalformedMessage

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = struct.Struct(
    ">8s"  # Magic
    "i"  # Version
    "i"  # CompatibleVersion
)
BLOCK_LENGTH = struct.Struct(">i")
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_WITH_SIZE = 0x08
"""Flag in the first byte after the magic: the content's size follows the second byte."""
LZ4_SIZE_BYTES = 8

FIRST_GUESS = 16
"""Initial guess for the ratio of output to input; it grows if the output does not fit."""


class Compression(IntEnum):
    """The codecs, by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(number: int, data: bytes, limit: int, spot: str) -> bytes:
    """Decompress *data* with codec *number* to at most *limit* bytes.

    Raises:
        MalformedMessage: the codec is unknown, the bytes are invalid, or *limit* is exceeded.
    """
    import cramjam

    try:
        codec = Compression(number)
        if codec is Compression.SNAPPY:
            output = bytearray()
            for block in _snappy_blocks(data):
                output += _snappy_block(block, limit - len(output))
            return bytes(output)
        return _stream(getattr(cramjam, codec.name.lower()), data, limit)
    except ValueError:
        reason = f"compression type {number} is not known"
    except (cramjam.DecompressionError, struct.error) as error:
        reason = f"it cannot be decompressed ({error})"
    except _TooLarge:
        reason = f"it decompresses to more than {limit} bytes"
    raise MalformedMessage(f"{spot}: {reason}; read it from another replica.")


class _TooLarge(Exception):
    pass


class _Codec(Protocol):
    def decompress_into(self, data: bytes, output: bytearray, /) -> int: ...


def _stream(codec: _Codec, data: bytes, limit: int) -> bytes:
    """Decompress into buffers that grow up to *limit*, because the output's size is unknown.

    The codec fails when the buffer is full, so a decompression bomb uses no more memory than
    *limit*.
    """
    from cramjam import DecompressionError

    size = min(limit, max(64 * 1024, len(data) * FIRST_GUESS))
    while True:
        output = bytearray(size)
        try:
            return bytes(memoryview(output)[: codec.decompress_into(data, output)])
        except DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
        if size == limit:
            raise _TooLarge
        size = min(limit, size * 8)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(XERIAL_MAGIC):
        yield data
        return
    at = XERIAL_HEADER.size
    while at < len(data):
        (size,) = BLOCK_LENGTH.unpack_from(data, at)
        at += BLOCK_LENGTH.size
        if not 0 <= size <= len(data) - at:
            raise struct.error(f"a block claims {size} bytes")
        yield data[at : at + size]
        at += size


def _snappy_block(block: bytes, limit: int) -> bytes:
    import cramjam

    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise _TooLarge
    output = bytearray(size)
    written = cramjam.snappy.decompress_raw_into(block, output)
    return bytes(memoryview(output)[:written])


def with_right_checksum(frame: bytes) -> bytes:
    """The LZ4 *frame* with the header checksum that the codec expects.

    Bytes that are not a frame are returned unchanged; the codec rejects them.
    """
    begin = len(LZ4_MAGIC)
    if not frame.startswith(LZ4_MAGIC) or len(frame) <= begin + 2 + LZ4_SIZE_BYTES:
        return frame
    end = begin + 2 + (LZ4_SIZE_BYTES if frame[begin] & LZ4_WITH_SIZE else 0)
    checksum = _xxh32(frame[begin:end]) >> 8 & 0xFF
    return b"".join((frame[:end], bytes([checksum]), frame[end + 1 :]))


_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_WORD_BYTES = 4


def _xxh32(content: bytes) -> int:
    """XXH32 of fewer than 16 bytes, with seed 0."""
    first, second, third, fourth, fifth = _PRIMES
    words = len(content) // _WORD_BYTES
    value = fifth + len(content)
    for word in struct.unpack_from(f"<{words}I", content):
        value = _rotated(value + word * third, 17) * fourth
    for byte in content[words * _WORD_BYTES :]:
        value = _rotated(value + byte * fifth, 11) * first
    for shift, factor in ((15, second), (13, third), (16, 1)):
        value &= 0xFFFFFFFF
        value = (value ^ (value >> shift)) * factor
    return value & 0xFFFFFFFF


def _rotated(value: int, by: int) -> int:
    value &= 0xFFFFFFFF
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF
