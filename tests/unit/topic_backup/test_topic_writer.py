"""How a partition is written: rotation, repeated and missing offsets, the order on disk."""

import errno
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.errors import ConflictingRecord, StorageError, UsageError, WrongCluster
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup import partition_writer
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_index import SegmentIndex
from breakglass.services.topic_backup.summary import EpochStart, Gap, GapReason, SegmentSummary
from breakglass.services.topic_backup.topic_writer import TopicWriter
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.extent import examples
from tests.unit.topic_backup.backups import (
    ORDERS,
    back_up,
    committed,
    manifest_of,
    read,
    segments,
)
from tests.unit.topic_backup.crash_points import CrashPoints
from tests.unit.topic_backup.shapes import log, plain, run

SIZE = len(encode(plain(0)))


def only_segment(topic: Path) -> SegmentSummary:
    partition = committed(topic)
    assert partition is not None
    (segment,) = partition.segments
    return segment


class TestRotation:
    @pytest.mark.parametrize(
        ("start", "count", "limit", "begins"),
        [
            pytest.param(0, 7, 3 * SIZE, [0, 3, 6], id="larger than the limit, so it is left"),
            pytest.param(0, 4, 3 * SIZE + 1, [0], id="as large as the limit, so it is not"),
            pytest.param(10**6, 3, 2**30, [0], id="the first is named 0 wherever records begin"),
        ],
    )
    def test_a_segment_is_left_when_it_is_larger_than_the_limit(
        self, tmp_path: Path, start: int, count: int, limit: int, begins: list[int]
    ) -> None:
        """The check comes before the record and counts the magic byte: one record over."""
        topic = back_up(tmp_path, run(start, start + count), max_segment_bytes=limit)
        assert [int(prefix[-10:]) for prefix in segments(topic)] == begins


class TestRepeatedOffsets:
    @given(records=log(min_size=1), again=st.data(), limit=st.sampled_from([1, 90, 2**30]))
    @settings(
        max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    def test_records_may_come_again_in_any_order(
        self,
        records: list[Record],
        again: st.DataObject,
        limit: int,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        root = tmp_path_factory.mktemp("b")
        with TopicWriter(root, ORDERS, max_segment_bytes=limit) as writer:
            partition = writer.partition(0)
            for number, record in enumerate(records):
                assert partition.append(record)
                repeated = again.draw(st.lists(st.sampled_from(records[: number + 1]), max_size=3))
                assert not any(partition.append(record) for record in repeated)
            writer.commit()
        assert read(root / "orders") == records

    @pytest.mark.parametrize(
        "other",
        [
            plain(3, value=b"other"),
            plain(3, key=None),
            plain(3)._replace(timestamp=0),
            plain(3)._replace(headers=((b"h", None),)),
        ],
    )
    def test_another_record_at_the_same_offset_is_an_error(
        self, tmp_path: Path, other: Record
    ) -> None:
        with TopicWriter(tmp_path, ORDERS) as writer:
            partition = writer.partition(0)
            for record in run(0, 9):
                partition.append(record)
            with pytest.raises(ConflictingRecord):
                partition.append(other)
            assert not partition.append(plain(3))
            partition.skip_to(12, GapReason.CONTROL)
            with pytest.raises(ConflictingRecord):
                partition.append(plain(10))


class TestSummary:
    def test_holes_are_told_with_their_reason(self, tmp_path: Path) -> None:
        compacted = TopicIdentity("orders", config={"cleanup.policy": "compact,delete"})
        with TopicWriter(tmp_path, compacted) as writer:
            partition = writer.partition(0)
            partition.skip_to(100, GapReason.NOT_TAKEN)
            partition.append(plain(102))
            partition.skip_to(104, GapReason.CONTROL)
            partition.skip_to(105, GapReason.CONTROL)
            partition.skip_to(105, GapReason.LOST)
            writer.commit()
        segment = only_segment(tmp_path / "orders")
        assert segment.gaps == (
            Gap(100, 102, GapReason.COMPACTION),
            Gap(103, 105, GapReason.CONTROL),
        )
        assert segment.missing == {"compaction": 2, "control": 2}
        assert manifest_of(tmp_path / "orders").partitions[0].next_offset == 105

    def test_every_segment_knows_the_epoch_it_starts_under(self, tmp_path: Path) -> None:
        with TopicWriter(tmp_path, ORDERS, max_segment_bytes=2 * SIZE) as writer:
            for offset, epoch in enumerate([4, 4, 7, 7, 9]):
                writer.partition(0).append(plain(offset), leader_epoch=epoch)
            summaries = writer.commit().partitions[0].segments
        assert [summary.epochs for summary in summaries] == [
            (EpochStart(4, 0),),
            (EpochStart(7, 2),),
            (EpochStart(9, 4),),
        ]


def test_wherever_a_run_ends_the_next_one_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records reach the disk before their index, and both before the manifest."""
    points = CrashPoints(tmp_path / "orders", tmp_path / "aside")
    with monkeypatch.context() as patched:
        patched.setattr(partition_writer, "BUFFER_BYTES", 2 * SIZE)
        points.watch(patched)
        for end in (3, 9):
            back_up(tmp_path, run(0, end), max_segment_bytes=5 * SIZE)
    assert len(points.states) > 30
    for number, (before, left) in enumerate(points.materialized(tmp_path / "left")):
        root = tmp_path / f"root-{number}"
        root.mkdir()
        topic = left.rename(root / "orders")
        part = committed(topic)
        if part is not None:
            assert read(topic) == run(0, part.next_offset or 0), before
            damages = verify_files(LocalFolder(topic)).damages
            # The next run mends a partition index that ends within an entry.
            assert [one for one in damages if one.file.endswith("_records")] == [], before
        for index in topic.glob("segment_*_index"):
            records = index.with_name(index.name.replace("_index", "_records"))
            if index.stat().st_size:
                with SegmentIndex(LocalFolder(topic), index.name.removesuffix("_index")) as held:
                    end = held.last.end if held.last else 0
                assert end <= records.stat().st_size, before
        assert read(back_up(root, run(0, 12))) == run(0, 12), before


class TestFullDisk:
    @pytest.fixture
    def disk(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Put True into the list, and every write finds the disk full."""
        full: list[bool] = []
        real = os.pwrite

        def pwrite(descriptor: int, data: bytes, at: int) -> int:
            if full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(descriptor, data, at)

        monkeypatch.setattr(os, "pwrite", pwrite)
        return full

    def test_the_committed_part_stays_and_the_rest_can_follow(
        self, tmp_path: Path, disk: list[bool]
    ) -> None:
        topic = back_up(tmp_path, run(0, 3))
        with TopicWriter(tmp_path, ORDERS) as writer:
            partition = writer.partition(0)
            disk.append(True)
            partition.append(plain(3))
            with pytest.raises(StorageError):
                writer.commit()
            assert read(topic) == run(0, 3)
            disk.clear()
            assert not partition.append(plain(3))
            partition.append(plain(4))
            writer.commit()
        assert read(topic) == run(0, 5)


class TestTopic:
    @pytest.mark.parametrize(
        ("of", "anew", "error"),
        [
            ({"cluster_id": "one"}, {"cluster_id": "two"}, WrongCluster),
            ({"topic_id": UUID(int=1)}, {"topic_id": UUID(int=2)}, UsageError),
        ],
        ids=["another cluster", "created again"],
    )
    def test_a_folder_of_another_log_is_refused(
        self, tmp_path: Path, of: dict[str, Any], anew: dict[str, Any], error: type[Exception]
    ) -> None:
        identity = TopicIdentity("orders", **of)
        back_up(tmp_path, [], identity=identity)
        with pytest.raises(error):
            TopicWriter(tmp_path, TopicIdentity("orders", **anew))
        with TopicWriter(tmp_path, ORDERS) as writer:
            assert writer.commit().identity == identity
