"""What the files of a topic backup hold, byte by byte as Kafka Backup writes them."""

import json
import re
import shutil
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import DamagedBackup, MalformedInput, UnsupportedSchema, UsageError
from breakglass.services.record_batches import MAX_HEADERS, Record
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.group_history import (
    decode_offsets,
    encode_offsets,
    hash_order,
    read_offsets,
    update_offsets,
)
from breakglass.services.topic_backup.layout import (
    MANIFEST,
    batch_log_name,
    listing,
    records_name,
    segment_index_name,
    segment_prefix,
    topic_path,
)
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.manifest import decode as decode_manifest
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import (
    BytesAs,
    NeedMore,
    UnreadableRecord,
    as_json,
    decode,
    encode,
)
from breakglass.services.topic_backup.segment_index import (
    IndexedRecord,
    SegmentEntry,
    SegmentIndex,
    encode_entry,
    encode_partition_index,
    open_index,
    read_partition_index,
    reindex,
)
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.topic_backup.backups import (
    INDEX,
    RECORDS,
    append_to,
    as_the_originals,
    back_up,
    manifest_of,
    overwrite,
    read,
)
from tests.unit.topic_backup.golden import CASES, GOLDEN, WHOLE, GoldenPartition, partitions
from tests.unit.topic_backup.shapes import plain, record, run


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of *folder* that the original knows."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


def write(golden: GoldenPartition, root: Path, writers: int = 1) -> Path:
    """Write the partition's records by *writers* one after the other, as the case was written."""
    share = max(1, -(-len(golden.records) // writers))
    for begin in range(0, max(1, len(golden.records)), share):
        with TopicWriter(
            root, TopicIdentity(golden.topic), max_segment_bytes=golden.max_segment_bytes
        ) as writer:
            for record in golden.records[begin : begin + share]:
                writer.partition(golden.partition).append(record)
            writer.partition(golden.partition).sync()
            writer.commit()
    return root / golden.topic


@pytest.mark.parametrize("golden", partitions(*CASES), ids=str)
def test_what_kafka_backup_wrote_is_read_and_shown_as_recorded(golden: GoldenPartition) -> None:
    folder = LocalFolder(golden.folder)
    reader = PartitionReader(folder, golden.partition, None)
    assert tuple(reader.records()) == golden.records
    for raw, one in zip(golden.raw_records, golden.records, strict=True):
        shown = {name: value for name, value in raw.items() if name != "on_disk_type_int"}
        assert as_json(one, BytesAs.HEX) == shown
    for number, one in list(enumerate(golden.records))[:: max(1, len(golden.records) // 8)]:
        assert next(reader.records(one.offset)) == one
        assert next(reader.records(one.offset, one.offset), None) is None
        following = golden.records[number + 1 : number + 2]
        assert tuple(reader.records(one.offset + 1))[:1] == following
    assert read_partition_index(folder, golden.partition) == golden.partition_index
    for prefix, entries in golden.segments.items():
        with SegmentIndex(folder, prefix) as index:
            assert [index[number] for number in range(len(index))] == entries


@pytest.mark.parametrize("golden", partitions(*WHOLE), ids=str)
@pytest.mark.parametrize("writers", [1, 3])
def test_the_same_records_become_the_same_bytes(
    golden: GoldenPartition, writers: int, tmp_path: Path
) -> None:
    written = files_of(write(golden, tmp_path, writers))
    for name in written:
        assert written[name] == (golden.folder / name).read_bytes(), name
    assert written.keys() == {
        name
        for name in files_of(golden.folder)
        if f"partition_{golden.partition:03d}" in name and not name.startswith("consumer_offsets")
    }


@pytest.mark.parametrize(
    "golden", {golden.folder: golden for golden in partitions(*WHOLE)}.values(), ids=str
)
def test_indexes_rebuilt_from_the_records_are_the_same_bytes(
    golden: GoldenPartition, tmp_path: Path
) -> None:
    topic = tmp_path / golden.topic
    shutil.copytree(golden.folder, topic)
    for path in topic.glob("*index*"):
        path.unlink()
    for partition in listing(LocalFolder(topic).names()):
        reindex(LocalFolder(topic), partition)
    assert files_of(topic) == files_of(golden.folder)


OFFSETS = GOLDEN / "consumer_offsets"


@pytest.mark.parametrize(
    ("topic", "partition", "flushes"),
    [
        ("orders", 0, [{"g-alpha": 8, "g-at-end": 10, "g-at-zero": 0}, {"g-alpha": 9}]),
        ("orders", 1, [{"g-alpha": 3, 'g.ünïcode-组 "quoted"\\': 5}, {"g-alpha": 4}]),
        ("orders", 2, [{"g-alpha": 2}, {"g-alpha": 5, "g-new": 1, "": 2}]),
        ("payments", 0, [{"g-alpha": 1, "g-large": 12345678901234}, {"g-alpha": 103}]),
    ],
)
def test_group_offsets_flushed_in_turn_become_the_same_bytes(
    topic: str, partition: int, flushes: list[dict[str, int]], tmp_path: Path
) -> None:
    for offsets in flushes:
        update_offsets(LocalFolder(tmp_path), partition, offsets)
    name = f"consumer_offsets_partition_{partition:03d}"
    assert (tmp_path / name).read_bytes() == (OFFSETS / topic / name).read_bytes()


@given(st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 2**63 - 1)), unique=True))
def test_names_are_read_back_and_ordered_by_number(segments: list[tuple[int, int]]) -> None:
    names = [records_name(segment_prefix(*segment)) for segment in segments]
    names += [segment_index_name(segment_prefix(*segment)) for segment in segments]
    found = [
        (segment.partition, segment.start_offset)
        for files in listing(names).values()
        for segment in files.segments
    ]
    assert found == sorted(segments)


@pytest.mark.parametrize(
    "name",
    [
        *(MANIFEST, batch_log_name(0), ".breakglass-00.tmp", "index_partition_"),
        "segment_partition_000_from_offset_0000000000",
        "segment_partition_000_from_offset_0000000000_records.bak",
        "xsegment_partition_000_from_offset_0000000000_records",
        "segment_partition_000_from_offset_-000000001_records",
        "segment_partition_٣_from_offset_0_records",
        "segment_partition_0_from_offset_9223372036854775808_records",
        "segment_partition_2147483648_from_offset_0_records",
    ],
)
def test_other_names_are_passed_over(name: str) -> None:
    assert listing([name]) == {}
    assert "consumer_offsets_partition_" not in name


def test_a_segment_may_have_any_number_of_digits_and_one_name() -> None:
    names = ["segment_partition_7_from_offset_5_records", "segment_partition_007_from_offset_5_"]
    found = listing([names[0], "index_partition_7"])
    assert found[7].segments[0].prefix == "segment_partition_7_from_offset_5"
    assert found[7].partition_index == "index_partition_7"
    for kind in ("records", "index"):
        with pytest.raises(DamagedBackup):
            listing([names[0], names[1] + kind])


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "ü", "a b", "n" * 250, "a\n"])
def test_a_name_that_is_no_topics_leads_nowhere(topic: str) -> None:
    with pytest.raises(UsageError, match="not a topic name"):
        topic_path(Path("backup"), topic)


PREFIX = "segment_partition_000_from_offset_0000000000"


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path)


def put_index(folder: LocalFolder, entries: list[IndexedRecord], tail: bytes = b"") -> None:
    content = b"\x01" + b"".join(map(encode_entry, entries)) + tail
    (folder.path / f"{PREFIX}_index").write_bytes(content)


class TestSegmentIndex:
    ENTRIES = (IndexedRecord(3, 1, 40), IndexedRecord(5, 41, 9), IndexedRecord(10, 50, 100))

    @pytest.mark.parametrize("cut", [0, 1, 23])
    def test_entries_are_found_and_half_a_one_at_the_end_is_ignored(
        self, folder: LocalFolder, cut: int
    ) -> None:
        put_index(folder, list(self.ENTRIES), bytes(cut))
        with SegmentIndex(folder, PREFIX) as index:
            assert (len(index), index.last) == (3, self.ENTRIES[-1])
            firsts = [index.first_from(offset) for offset in (0, 3, 4, 5, 6, 10, 11)]
            assert firsts == [0, 0, 1, 1, 2, 2, 3]
            counts = [index.count_within(size) for size in (0, 40, 41, 49, 50, 149, 150)]
            assert counts == [0, 0, 1, 1, 2, 2, 3]
        put_index(folder, [], bytes(cut))
        with SegmentIndex(folder, PREFIX) as index:
            assert (len(index), index.last, index.first_from(0)) == (0, None, 0)

    @pytest.mark.parametrize("content", [None, b"", b"\x02", b"garbage that is no index"])
    def test_what_is_no_index_counts_as_missing_and_another_version_is_named(
        self, folder: LocalFolder, content: bytes | None
    ) -> None:
        if content is not None:
            (folder.path / f"{PREFIX}_index").write_bytes(content)
        assert open_index(folder, PREFIX) is None
        if content == b"\x02":
            with pytest.raises(UnsupportedSchema):
                SegmentIndex(folder, PREFIX)


class TestPartitionIndex:
    @staticmethod
    def read(folder: LocalFolder, content: bytes) -> tuple[SegmentEntry, ...]:
        (folder.path / "index_partition_000").write_bytes(content)
        return read_partition_index(folder, 0)

    @pytest.mark.parametrize("cut", [1, 8, 9, 50, 55])
    def test_an_entry_that_is_cut_is_an_error_with_its_place(
        self, folder: LocalFolder, cut: int
    ) -> None:
        content = encode_partition_index([SegmentEntry(PREFIX, 0)])
        with pytest.raises(DamagedBackup) as caught:
            self.read(folder, content[:-cut])
        assert caught.value.torn

    @pytest.mark.parametrize(
        ("content", "place"),
        [
            *(
                (b"\x01" + struct.pack(">i", size) + bytes(300), 1)
                for size in (-1, 256, 2**31 - 1, -(2**31))
            ),
            (encode_partition_index([SegmentEntry(PREFIX, 0)] * 2), 57),
            (b"\x01" + struct.pack(">i1sq", 1, b"\xff", 0), 5),
        ],
    )
    def test_a_name_or_an_offset_that_cannot_be_is_an_error_with_its_place(
        self, folder: LocalFolder, content: bytes, place: int
    ) -> None:
        with pytest.raises(DamagedBackup, match=f"byte {place}: "):
            self.read(folder, content)


SIZE = len(encode(plain(0)))


def originals(root: Path) -> Path:
    return as_the_originals(back_up(root, run(0, 5)))


def test_a_whole_record_that_was_not_indexed_is_taken_in(tmp_path: Path) -> None:
    topic = originals(tmp_path)
    append_to(topic / RECORDS, encode(plain(5)) + encode(plain(6))[:12])
    (rebuilt,) = reindex(LocalFolder(topic), 0)
    assert (rebuilt.entries, rebuilt.left_out, rebuilt.torn) == (6, 12, True)
    assert read(topic) == run(0, 6)


def test_a_damaged_segment_keeps_its_index_and_is_told(tmp_path: Path) -> None:
    topic = originals(tmp_path)
    overwrite(topic / RECORDS, FIRST_POSITION + 2 * SIZE + 8, struct.pack(">i", 9))
    index = (topic / INDEX).read_bytes()
    (rebuilt,) = reindex(LocalFolder(topic), 0)
    assert (rebuilt.entries, rebuilt.left_out, rebuilt.torn) == (2, 3 * SIZE, False)
    assert rebuilt.damage
    assert (topic / INDEX).read_bytes() == index
    assert read(topic) == [*run(0, 2), *run(3, 5)]


def test_a_partition_without_groups_has_a_file_and_one_with_groups_keeps_them(
    tmp_path: Path,
) -> None:
    """Kafka Backup's source task throws at each record of a partition without a file."""
    folder = LocalFolder(tmp_path)
    assert read_offsets(folder, 0) == {}
    (tmp_path / "consumer_offsets_partition_003").write_bytes(b"")
    assert read_offsets(folder, 3) == {}
    group_history.update(folder, {0: {}, 1: {"g": 7}})
    assert (tmp_path / "consumer_offsets_partition_000").read_bytes() == b"{}"
    group_history.update(folder, {0: {}, 1: {}, 2: {}})
    assert (tmp_path / "consumer_offsets_partition_001").read_bytes() == b'{"g":7}'
    assert (tmp_path / "consumer_offsets_partition_002").read_bytes() == b"{}"


def test_groups_are_escaped_as_by_jackson_and_their_table_grows_as_javas_does() -> None:
    """More than three quarters of 16 buckets, and "p" moves from bucket 0 to 16."""
    assert encode_offsets({'\x1f\n"\\u001f': 1}) == b'{"\\u001F\\n\\"\\\\u001f":1}'
    assert hash_order([*"abcdefghijk", "p"]) == ["p", *"abcdefghijk"]
    assert hash_order([*"abcdefghijkl", "p"]) == [*"abcdefghijkl", "p"]


PLAIN = encode(plain(7))
KEY_LENGTH_AT = 20
VALUE_LENGTH_AT = 27
HEADER_COUNT_AT = 36


@given(record(), st.binary(max_size=9), st.binary(max_size=9))
def test_a_record_is_found_where_it_starts(one: Record, before: bytes, after: bytes) -> None:
    content = before + encode(one) + after
    assert decode(content, len(before), len(content)) == (one, len(content) - len(after))


@given(record(), st.data())
def test_a_record_cut_anywhere_is_torn(one: Record, data: st.DataObject) -> None:
    content = encode(one)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(UnreadableRecord) as caught:
        decode(cut, 0, len(cut))
    assert caught.value.torn


@given(record(), st.data())
def test_a_record_of_which_a_part_is_loaded_asks_for_more(one: Record, data: st.DataObject) -> None:
    content = encode(one)
    loaded = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(NeedMore) as caught:
        decode(content[:loaded], 0, len(content))
    assert loaded < caught.value.size <= len(content)


@pytest.mark.parametrize(
    ("content", "at", "value"),
    [
        (PLAIN, 0, -1),
        (PLAIN, 8, 2),
        (PLAIN, 8, -3),
        (PLAIN, KEY_LENGTH_AT, -2),
        (PLAIN, VALUE_LENGTH_AT, -(2**31)),
        (PLAIN, HEADER_COUNT_AT, -1),
        (PLAIN, HEADER_COUNT_AT, MAX_HEADERS + 1),
        (encode(plain(0)._replace(headers=((b"", None),))), 36, -1),
        (PLAIN, KEY_LENGTH_AT, 2**31 - 1),
        (PLAIN, VALUE_LENGTH_AT, 10),
        (PLAIN, HEADER_COUNT_AT, 1000),
    ],
)
def test_a_number_that_cannot_be_or_is_over_the_limit_is_refused(
    content: bytes, at: int, value: int
) -> None:
    with pytest.raises(UnreadableRecord):
        decode(content, 0, len(content), max_bytes=len(content) - 1)
    with pytest.raises(UnreadableRecord):
        # content with the number at at replaced.
        decode(content[:at] + struct.pack(">i", value) + content[at + 4 :], 0, len(content))


IDENTITY = TopicIdentity(
    topic="orders",
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    topic_id=UUID(int=7),
    partition_count=12,
    config={"cleanup.policy": "compact"},
    origin={"rescued from broker": "2"},
)


def test_b17_no_flipped_bit_of_a_manifest_is_believed(tmp_path: Path) -> None:
    """A later next_offset would leave records out of the next run, and no file would tell."""
    with TopicWriter(tmp_path, IDENTITY) as writer:
        writer.partition(0).append(plain(3), leader_epoch=9)
        writer.commit()
    content = (tmp_path / "orders" / MANIFEST).read_bytes()
    assert decode_manifest(content, MANIFEST).partitions[0].next_offset == 4
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((MalformedInput, UnsupportedSchema)):
            decode_manifest(bytes(changed), MANIFEST)
    (without,) = re.findall(rb',\s+"sha256": "[0-9a-f]{64}"(?=\s*}\s*$)', content)
    assert decode_manifest(content.replace(without, b""), MANIFEST).sha256 == ""


def spoiled(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """*document* with what stands at *path* replaced."""
    *way, last = path.split(".")
    spot: Any = document
    for step in way:
        spot = spot[int(step) if step.isdigit() else step]
    spot[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("commit", "1"),
        ("commit", None),
        ("identity.topic_id", "seven"),
        ("partitions.0.segments.0.sha256", 5),
        ("partitions.0.surprise", 5),
        ("schema", True),
    ],
)
def test_a_field_that_cannot_be_is_named(tmp_path: Path, path: str, value: object) -> None:
    topic = back_up(tmp_path, run(0, 3))
    document = json.loads((topic / MANIFEST).read_bytes())
    document = spoiled({**document, "sha256": ""}, path, value)
    (topic / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(MalformedInput, match=f"{MANIFEST}.*{path}"):
        manifest_of(topic)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b"[1]", b"{}", b'{"a": }'])
def test_what_is_no_document_is_neither_a_manifest_nor_groups(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / MANIFEST).write_bytes(b'{"schema": 2}')
    with pytest.raises(UnsupportedSchema):
        read_manifest(LocalFolder(tmp_path))
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(MalformedInput, match=MANIFEST):
        read_manifest(LocalFolder(tmp_path))
    if content not in {b"", b"{}"}:
        with pytest.raises(MalformedInput):
            decode_offsets(content, "file")


@pytest.mark.parametrize("offset", [b'"1"', b"true", b"1.0", b"1" * 5_000, b'{"g":' * 100_000])
def test_the_offset_of_a_group_is_a_number(offset: bytes) -> None:
    with pytest.raises(MalformedInput):
        decode_offsets(b'{"g": ' + offset + b"}", "file")
