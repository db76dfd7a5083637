"""The two kinds of index: what they hold, and what they do when they are damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import DamagedBackup, UnsupportedSchema
from breakglass.services.topic_backup import partition_index
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import segment_prefix
from breakglass.services.topic_backup.segment_index import (
    IndexedRecord,
    SegmentIndex,
    encode_entry,
    open_index,
)

PREFIX = "segment_partition_000_from_offset_0000000000"


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path)


def put_index(folder: LocalFolder, entries: list[IndexedRecord], tail: bytes = b"") -> None:
    content = b"\x01" + b"".join(map(encode_entry, entries)) + tail
    (folder.path / f"{PREFIX}_index").write_bytes(content)


class TestSegmentIndex:
    ENTRIES = (IndexedRecord(3, 1, 40), IndexedRecord(5, 41, 9), IndexedRecord(10, 50, 100))

    @pytest.mark.parametrize(
        ("offset", "number"), [(0, 0), (3, 0), (4, 1), (5, 1), (6, 2), (10, 2), (11, 3)]
    )
    def test_the_first_entry_from_an_offset_is_found(
        self, folder: LocalFolder, offset: int, number: int
    ) -> None:
        put_index(folder, list(self.ENTRIES))
        with SegmentIndex(folder, PREFIX) as index:
            assert index.first_from(offset) == number

    @pytest.mark.parametrize(
        ("size", "count"), [(0, 0), (40, 0), (41, 1), (49, 1), (50, 2), (149, 2), (150, 3)]
    )
    def test_the_entries_within_a_size_are_counted(
        self, folder: LocalFolder, size: int, count: int
    ) -> None:
        put_index(folder, list(self.ENTRIES))
        with SegmentIndex(folder, PREFIX) as index:
            assert index.count_within(size) == count

    @pytest.mark.parametrize("cut", [1, 12, 23])
    def test_half_an_entry_at_the_end_is_ignored(self, folder: LocalFolder, cut: int) -> None:
        put_index(folder, list(self.ENTRIES), bytes(cut))
        with SegmentIndex(folder, PREFIX) as index:
            assert len(index) == 3
            assert index.last == self.ENTRIES[-1]

    def test_an_index_without_entries_has_no_last(self, folder: LocalFolder) -> None:
        put_index(folder, [])
        with SegmentIndex(folder, PREFIX) as index:
            assert (len(index), index.last, index.first_from(0)) == (0, None, 0)

    @pytest.mark.parametrize("content", [None, b"", b"\x02", b"garbage that is no index"])
    def test_what_is_no_index_counts_as_missing(
        self, folder: LocalFolder, content: bytes | None
    ) -> None:
        if content is not None:
            (folder.path / f"{PREFIX}_index").write_bytes(content)
        assert open_index(folder, PREFIX) is None

    def test_another_version_is_named(self, folder: LocalFolder) -> None:
        (folder.path / f"{PREFIX}_index").write_bytes(b"\x02")
        with pytest.raises(UnsupportedSchema, match="0x02, so this is not version 1"):
            SegmentIndex(folder, PREFIX)


class TestPartitionIndex:
    @staticmethod
    def read(folder: LocalFolder, content: bytes) -> tuple[partition_index.SegmentEntry, ...]:
        (folder.path / "index_partition_000").write_bytes(content)
        return partition_index.read(folder, 0)

    @given(st.lists(st.integers(0, 2**63 - 1), unique=True).map(sorted))
    def test_what_was_written_is_read(self, offsets: list[int]) -> None:
        entries = [
            partition_index.SegmentEntry(segment_prefix(0, offset), offset) for offset in offsets
        ]
        content = partition_index.encode(entries)
        assert partition_index.decode(content[1:], "file") == tuple(entries)

    @pytest.mark.parametrize("cut", [1, 8, 9, 50, 55])
    def test_an_entry_that_is_cut_is_an_error_with_its_place(
        self, folder: LocalFolder, cut: int
    ) -> None:
        content = partition_index.encode([partition_index.SegmentEntry(PREFIX, 0)] * 1)
        with pytest.raises(DamagedBackup, match="byte 1: the last entry is cut") as caught:
            self.read(folder, content[:-cut])
        assert caught.value.torn

    @pytest.mark.parametrize("size", [-1, 256, 2**31 - 1, -(2**31)])
    def test_a_name_length_that_cannot_be_is_an_error(self, folder: LocalFolder, size: int) -> None:
        with pytest.raises(DamagedBackup, match=f"no name has {size} bytes"):
            self.read(folder, b"\x01" + struct.pack(">i", size) + bytes(300))

    def test_start_offsets_that_do_not_rise_are_an_error(self, folder: LocalFolder) -> None:
        name = segment_prefix(0, 5)
        entries = [partition_index.SegmentEntry(name, 5), partition_index.SegmentEntry(name, 5)]
        place = 1 + 4 + len(name) + 8
        with pytest.raises(DamagedBackup, match=f"byte {place}: start offset 5 follows 5"):
            self.read(folder, partition_index.encode(entries))

    def test_a_name_that_is_no_text_is_an_error(self, folder: LocalFolder) -> None:
        with pytest.raises(DamagedBackup, match="byte 5: the name is not UTF-8"):
            self.read(folder, b"\x01" + struct.pack(">i1sq", 1, b"\xff", 0))
