"""Byte for byte what the original's own classes wrote, read and written."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from breakglass.services.topic_backup import consumer_offsets, partition_index
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST, listing
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import BytesAs, as_json
from breakglass.services.topic_backup.reindex import reindex
from breakglass.services.topic_backup.segment_index import SegmentIndex
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.unit.topic_backup.golden import (
    CASES,
    GOLDEN,
    WHOLE,
    GoldenPartition,
    expected,
    partitions,
)

every_partition = pytest.mark.parametrize("golden", partitions(*CASES), ids=str)
whole_partition = pytest.mark.parametrize("golden", partitions(*WHOLE), ids=str)


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


@pytest.mark.parametrize("case", CASES)
def test_the_golden_files_are_the_ones_that_were_recorded(case: str) -> None:
    for name, recorded in expected(case)["files"].items():
        content = (GOLDEN / case / name).read_bytes()
        assert len(content) == recorded["size"]
        assert hashlib.sha256(content).hexdigest() == recorded["sha256"]


@every_partition
def test_records_are_read_as_recorded(golden: GoldenPartition) -> None:
    reader = PartitionReader(LocalFolder(golden.folder), golden.partition, None)
    assert tuple(reader.records()) == golden.records


@every_partition
def test_records_are_shown_as_recorded(golden: GoldenPartition) -> None:
    shown = [as_json(record, BytesAs.HEX) for record in golden.records]
    recorded = [
        {name: value for name, value in raw.items() if name != "on_disk_type_int"}
        for raw in golden.raw_records
    ]
    assert shown == recorded


@every_partition
def test_reading_can_begin_at_every_offset(golden: GoldenPartition) -> None:
    reader = PartitionReader(LocalFolder(golden.folder), golden.partition, None)
    for number, record in list(enumerate(golden.records))[:: max(1, len(golden.records) // 25)]:
        assert next(reader.records(record.offset)) == record
        assert next(reader.records(record.offset, record.offset), None) is None
        following = golden.records[number + 1 : number + 2]
        assert tuple(reader.records(record.offset + 1))[:1] == following


@every_partition
def test_indexes_are_read_as_recorded(golden: GoldenPartition) -> None:
    folder = LocalFolder(golden.folder)
    assert partition_index.read(folder, golden.partition) == golden.partition_index
    for prefix, entries in golden.segments.items():
        with SegmentIndex(folder, prefix) as index:
            assert [index[number] for number in range(len(index))] == entries


@every_partition
def test_segments_are_listed_in_the_order_of_the_partition_index(golden: GoldenPartition) -> None:
    found = listing(LocalFolder(golden.folder).names())[golden.partition]
    assert (
        tuple((segment.prefix, segment.start_offset) for segment in found.segments)
        == golden.partition_index
    )


@whole_partition
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


@whole_partition
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


@pytest.mark.parametrize("case", ["torn_records_tail", "unindexed_record_tail"])
def test_the_end_a_killed_writer_left_is_cut_off_on_resume(case: str, tmp_path: Path) -> None:
    """What then stands there is what a writer would have written who was never killed."""
    (golden,) = partitions(case)
    shutil.copytree(golden.folder, tmp_path / "resumed" / golden.topic)
    with TopicWriter(tmp_path / "resumed", TopicIdentity(golden.topic)) as writer:
        (cut,) = writer.partition(0).cuts
        assert (cut.position, writer.partition(0).next_offset) == (206, 5)
        writer.commit()
    unharmed = write(golden, tmp_path / "unharmed")
    assert files_of(tmp_path / "resumed" / golden.topic) == files_of(unharmed)


OFFSETS = GOLDEN / "consumer_offsets"
GROUPS = [
    (topic, int(partition), groups)
    for topic, partitions_of in expected("consumer_offsets")["consumer_offsets"].items()
    for partition, groups in partitions_of.items()
]


@pytest.mark.parametrize(("topic", "partition", "groups"), GROUPS)
def test_group_offsets_are_read_as_recorded(
    topic: str, partition: int, groups: dict[str, int]
) -> None:
    assert consumer_offsets.read(LocalFolder(OFFSETS / topic), partition) == groups


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
        consumer_offsets.update(LocalFolder(tmp_path), partition, offsets)
    name = f"consumer_offsets_partition_{partition:03d}"
    assert (tmp_path / name).read_bytes() == (OFFSETS / topic / name).read_bytes()
