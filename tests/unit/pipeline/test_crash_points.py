"""A backup that ends at any operation on its files: the last commit stands, the next is whole."""

from __future__ import annotations

import secrets
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from breakglass.services.pipeline.part_writer import PartTarget, PartTask, RecordChunk
from breakglass.services.topic_backup import consumer_offsets, group_history, partition_index
from breakglass.services.topic_backup.assembler import TopicAssembler
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.part import Addition, Missing, NewSegment, SegmentPart
from breakglass.services.topic_backup.prune import PruneLimits, prune
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import Record, TimestampType, encode
from breakglass.services.topic_backup.verification import verify_files
from tests.unit.topic_backup.crash_points import CrashPoints

ORDERS = TopicIdentity("orders", "cluster", UUID(int=1), 2)
SEGMENT_BYTES = 400
COMMITS = (4, 9, 30, 33)
"""Where each run ends: a first segment, one appended to it, several, another one appended."""
TRUTH = [
    Record(offset, TimestampType.CREATE, offset, b"k", b"v%d" % offset) for offset in range(33)
]


def chunk(records: list[Record], partition: int) -> RecordChunk:
    encoded = [encode(record) for record in records]
    return RecordChunk(
        partition,
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
        np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        memoryview(b"".join(encoded)),
    )


def written(folder: Path, partition: int, start: int, end: int) -> list[SegmentPart]:
    """Records *start* to *end* as a task writes them."""
    target = PartTarget(LocalFolder(folder), secrets.token_hex(8), SEGMENT_BYTES)
    with PartTask(target, attempt=0) as task:
        return [*task.take(chunk(TRUTH[start:end], partition)), *task.finish()]


def run(path: Path, end: int) -> None:
    """Back up partition 0 to *end*, and an empty partition 1; with the offset of a group."""
    with TopicAssembler(path, ORDERS, max_segment_bytes=SEGMENT_BYTES) as assembler:
        start = assembler.partition(0).next_offset or 0
        assembler.partition(1)
        parts = written(path, 0, start, end)
        assembler.add([Addition(0, [NewSegment(part) for part in parts], Missing(), end)])
        assembler.commit()
        group_history.update(assembler.folder, {0: {"group": end}}, at_ms=10**13 + end)


def committed(folder: LocalFolder) -> int:
    manifest = read_manifest(folder)
    return (manifest.partitions[0].next_offset or 0) if manifest else 0


def offsets(folder: LocalFolder) -> list[int]:
    manifest = read_manifest(folder)
    held = manifest.partition(0) if manifest else None
    return [record.offset for record in PartitionReader(folder, 0, held).records()]


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashPoints:
    """What can be left of `COMMITS`, one after the other."""
    points = CrashPoints(tmp_path / "orders", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        for end in COMMITS:
            run(points.folder, end)
    return points


def test_what_was_committed_is_whole_wherever_the_run_ends(
    points: CrashPoints, tmp_path: Path
) -> None:
    assert len(points.states) > 80
    seen = set()
    for before, path in points.materialized(tmp_path / "left"):
        folder = LocalFolder(path)
        seen.add(committed(folder))
        if read_manifest(folder):
            assert verify_files(folder).whole, before
            assert offsets(folder) == list(range(committed(folder))), before
    assert seen == {0, *COMMITS}


def test_only_the_manifest_commits(points: CrashPoints, tmp_path: Path) -> None:
    """What had its name but no commit is copied again, for its log may be another one by then."""
    for before, path in points.materialized(tmp_path / "left"):
        done = committed(LocalFolder(path))
        with TopicAssembler(path, ORDERS, max_segment_bytes=SEGMENT_BYTES) as assembler:
            assert (assembler.partition(0).next_offset or 0) == done, before


def test_the_next_run_loses_and_doubles_nothing(points: CrashPoints, tmp_path: Path) -> None:
    for before, path in points.materialized(tmp_path / "left"):
        folder = LocalFolder(path)
        run(path, len(TRUTH))
        manifest = read_manifest(folder)
        assert manifest is not None
        assert list(PartitionReader(folder, 0, manifest.partition(0)).records()) == TRUTH, before
        assert verify_files(folder).whole, before
        for part in manifest.partitions:
            named = [(segment.prefix, segment.start_offset) for segment in part.segments]
            assert list(partition_index.read(folder, part.partition)) == named, before
        assert consumer_offsets.read(folder, 0) == {"group": len(TRUTH)}, before
        assert [name for name in folder.names() if name.startswith(".")] == [], before
        segments = sum(len(part.segments) for part in manifest.partitions)
        assert len(list(path.glob("segment_*"))) == 2 * segments, before


def test_a_prune_that_ends_anywhere_leaves_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had not removed yet belongs to the backup again with the next run."""
    points = CrashPoints(tmp_path / "orders", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        run(points.folder, 30)
        points.states.clear()
        assert len(prune(LocalFolder(points.folder), PruneLimits(keep_bytes=500))) == 2
    for before, path in points.materialized(tmp_path / "left"):
        folder = LocalFolder(path)
        left = offsets(folder)
        assert left == list(range(left[0], 30)), before
        run(path, len(TRUTH))
        again = offsets(folder)
        assert again == list(range(again[0], len(TRUTH))), before
        assert again[0] <= left[0], before
        assert verify_files(folder).whole, before
