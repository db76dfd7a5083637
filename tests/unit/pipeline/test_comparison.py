"""Records against stored ones, without Spark: what a task of verification does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from breakglass.services.pipeline.comparison import Differences, StretchComparison
from breakglass.services.pipeline.part_writer import PartTarget, PartTask, RecordChunk
from breakglass.services.pipeline.stored_segments import StoredSegment, stored_segments
from breakglass.services.topic_backup.assembler import TopicAssembler
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.part import Addition, Missing, NewSegment
from breakglass.services.topic_backup.record import Record, TimestampType, encode


def record(offset: int, value: bytes = b"v") -> Record:
    return Record(offset, TimestampType.CREATE, 1000 + offset, b"k%d" % offset, value)


def chunk(*records: Record) -> RecordChunk:
    """The *records* as Spark gives them to a task."""
    encoded = [encode(record) for record in records]
    return RecordChunk(
        0,
        np.array([record.offset for record in records]),
        np.array([record.timestamp or 0 for record in records]),
        np.cumsum([0, *map(len, encoded)]),
        memoryview(b"".join(encoded)),
    )


def stored(root: Path, *records: Record, limit: int = 100) -> list[StoredSegment]:
    """A backup of *records*, assembled from parts."""
    path = root / "t"
    with TopicAssembler(path, TopicIdentity("t"), max_segment_bytes=limit) as assembler:
        with PartTask(PartTarget(LocalFolder(path), "run", limit), 0) as task:
            parts = [*task.take(chunk(*records)), *task.finish()]
        segments = [NewSegment(part) for part in parts]
        assembler.add([Addition(0, segments, Missing(), records[-1].offset + 1)])
        manifest = assembler.commit()
    assert len(manifest.partitions[0].segments) > 1
    return stored_segments(LocalFolder(path), manifest.partitions[0].segments)


def compared(segments: list[StoredSegment], *chunks: RecordChunk) -> Differences:
    comparison = StretchComparison(0, segments)
    for chunk in chunks:
        comparison.take(chunk)
    return comparison.found


def test_equal_records_are_equal_however_they_are_cut(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(20)]
    found = compared(stored(tmp_path, *records), chunk(*records[:7]), chunk(*records[7:]))
    assert (found.equal, found.counts) == (20, {})
    assert (found.first, found.last) == (0, 19)


def test_each_kind_of_difference_has_its_offsets(tmp_path: Path) -> None:
    held = stored(tmp_path, *[record(offset) for offset in range(0, 40, 2)])
    seen = [record(offset) for offset in range(0, 40, 2) if offset != 10]
    seen[3] = record(6, b"other")
    seen.insert(2, record(3))
    found = compared(held, chunk(*seen))
    assert found.offsets == {"different": [6], "extra": [3], "missing": [10]}
    assert found.equal == 18


def test_records_behind_the_last_stored_one_are_extra(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(20)]
    found = compared(stored(tmp_path, *records), chunk(*records, record(20), record(21)))
    assert found.offsets == {"extra": [20, 21]}


def test_an_index_that_lies_is_made_anew(tmp_path: Path) -> None:
    records = [record(offset) for offset in range(20)]
    held = stored(tmp_path, *records, limit=300)
    index = LocalFolder(tmp_path / "t").path / f"{held[0].prefix}_index"
    content = bytearray(index.read_bytes())
    content[1 + 24 + 8 : 1 + 24 + 16] = (999).to_bytes(8, "big")
    index.write_bytes(content)
    assert compared(held, chunk(*records)).equal == 20
