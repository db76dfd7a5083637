"""What is fuzzed: readers of untrusted bytes, each with what must hold whatever they are given.

A target takes any bytes. It ends, and raises nothing but an error of ours, or AssertionError where
the reader took in what it must not.
"""

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from kafka.record.util import calc_crc32c

from breakglass.services.errors import BreakglassError
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import ATTRIBUTES_AT, BATCH_HEADER, decompress, read_headers
from breakglass.services.topic_backup import manifest
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.group_history import decode_offsets, encode_offsets
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import NeedMore, UnreadableRecord, decode, encode
from breakglass.services.topic_backup.segment_index import (
    decode_partition_index,
    encode_partition_index,
)
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC, read_segment
from tests.kit.batches import decode_batches

LARGEST: Final = 8_192
"""Bytes of one input."""
LIMIT: Final = 1_000_000
"""Bytes of what a batch may grow to."""
FIRST = segment_prefix(0, 0)


def one_record(data: bytes) -> None:
    """A record that is read is written as the same bytes: there is one way to write it."""
    try:
        record, end = decode(data, 0, len(data))
    except (NeedMore, UnreadableRecord):
        return
    assert encode(record) == data[:end]


def segment(data: bytes) -> None:
    """What is read of a segment is all of it up to the damage, byte by byte."""
    folder = _folder_with(records_name(FIRST), MAGIC + data)
    position, content = FIRST_POSITION, MAGIC + data
    with contextlib.suppress(BreakglassError):
        for placed in read_segment(folder, records_name(FIRST)):
            assert placed.position == position
            assert encode(placed.record) == content[placed.position : placed.end]
            position = placed.end
        assert position == len(content)


def indexed_segment(data: bytes) -> None:
    """A segment and its index, each damaged: offsets rise, and a resumed one reads the same."""
    # Records and their index: where one ends is in the first two bytes.
    at = 2 + int.from_bytes(data[:2]) % (len(data) + 1)
    folder = _folder_with(
        *(records_name(FIRST), MAGIC + data[2:at], segment_index_name(FIRST), MAGIC + data[at:])
    )
    with contextlib.suppress(BreakglassError):
        _offsets(PartitionReader(folder, 0, None))
    with contextlib.suppress(BreakglassError):
        PartitionWriter(folder, TopicPartition("orders", 0), None).close()
        resumed = PartitionReader(folder, 0, None)
        _offsets(resumed)
        assert not resumed.left_out


def index_of_a_partition(data: bytes) -> None:
    """A partition index that is read is written as the same bytes."""
    with contextlib.suppress(BreakglassError):
        entries = decode_partition_index(MAGIC + data, "file")
        assert encode_partition_index(entries) == MAGIC + data


def groups_offsets(data: bytes) -> None:
    """Consumer offsets that are read are the same once they were written."""
    with contextlib.suppress(BreakglassError):
        offsets = decode_offsets(data, "file")
        assert decode_offsets(encode_offsets(offsets), "file") == offsets


def batches(data: bytes) -> None:
    """Record batches, as they are: their CRC and their length are nearly always wrong."""
    with contextlib.suppress(BreakglassError):
        read_headers(data, "b2")
    with contextlib.suppress(BreakglassError):
        for batch in decode_batches(data, "b2", max_batch_bytes=LIMIT):
            assert len(batch.records) <= LIMIT


def sealed_batch(data: bytes) -> None:
    """One record batch of a hostile broker: length and CRC fit what it sends."""
    if len(data) < BATCH_HEADER.size:
        return
    content = bytearray(data)
    struct.pack_into(">i", content, 8, len(data) - 12)
    struct.pack_into(">bI", content, 16, 2, calc_crc32c(bytes(content[ATTRIBUTES_AT:])))
    batches(bytes(content))


def compressed(data: bytes) -> None:
    """A compressed payload, by a codec or by none there is, grows to the limit at most."""
    codec = 1 + (data[0] if data else 0) % 7
    with contextlib.suppress(BreakglassError):
        assert len(decompress(codec, data[1:], LIMIT, "b2")) <= LIMIT


def side_manifest(data: bytes) -> None:
    """A manifest of this schema, or an error that says what is wrong."""
    with contextlib.suppress(BreakglassError):
        manifest.decode(data, "file")


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    function.__name__: function
    for function in (
        one_record,
        segment,
        indexed_segment,
        index_of_a_partition,
        groups_offsets,
        batches,
        sealed_batch,
        compressed,
        side_manifest,
    )
}


def _offsets(reader: PartitionReader) -> None:
    last = -1
    for record in reader.records():
        assert record.offset > last
        last = record.offset


_SCRATCH: list[Path] = []


def _folder_with(*names_and_contents: str | bytes) -> LocalFolder:
    """A folder that holds these files and nothing else; the same one each time."""
    if not _SCRATCH:
        _SCRATCH.append(Path(mkdtemp(prefix="fuzz-")))
    (scratch,) = _SCRATCH
    for old in scratch.iterdir():
        old.unlink()
    for name, content in _pairs(names_and_contents):
        (scratch / name).write_bytes(content)
    return LocalFolder(scratch)


def _pairs(flat: tuple[str | bytes, ...]) -> Iterator[tuple[str, bytes]]:
    for name, content in zip(flat[::2], flat[1::2], strict=True):
        assert isinstance(name, str)
        assert isinstance(content, bytes)
        yield name, content
