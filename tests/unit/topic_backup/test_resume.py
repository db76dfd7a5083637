"""After a writer was killed: what is whole is kept, the torn end is cut off, damage is an error."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.errors import DamagedBackup
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST, records_name, segment_index_name
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.summary import GapReason
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.kit.extent import examples
from tests.unit.topic_backup.backups import (
    INDEX,
    ORDERS,
    RECORDS,
    append_to,
    as_the_originals,
    back_up,
    committed,
    cut_to,
    overwrite,
    read,
    segments,
)
from tests.unit.topic_backup.shapes import log, plain, run

ORDERS_0 = TopicPartition("orders", 0)
SIZE = len(encode(plain(0)))
ENTRY = 24


def resume(root: Path, records: list[Record]) -> Path:
    """Open the backup again, write on from where it says, commit."""
    with TopicWriter(root, ORDERS) as writer:
        partition = writer.partition(0)
        start = partition.next_offset or 0
        for record in records:
            if record.offset >= start:
                assert partition.append(record)
        writer.commit()
    return root / "orders"


def originals_files(topic: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in topic.iterdir() if path.name != MANIFEST}


@given(records=log(min_size=1), data=st.data())
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wherever_a_writer_was_killed_the_result_is_the_same(
    records: list[Record], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Records reach the disk first, so a kill leaves any part of them, and less of the index."""
    root = tmp_path_factory.mktemp("b")
    unharmed = originals_files(back_up(root / "unharmed", records))
    done = data.draw(st.integers(0, len(records)), label="committed records")
    back_up(root, records[:done])
    topic = back_up(root / "all", records)
    whole = sum(len(encode(record)) for record in records)
    at_least = FIRST_POSITION + sum(len(encode(record)) for record in records[:done])
    there = data.draw(st.integers(at_least, FIRST_POSITION + whole), label="bytes of records")
    covered = sum(
        FIRST_POSITION + sum(len(encode(record)) for record in records[: number + 1]) <= there
        for number in range(len(records))
    )
    indexed = data.draw(st.integers(done * ENTRY, covered * ENTRY), label="bytes of index")
    cut_to(topic / RECORDS, there)
    cut_to(topic / INDEX, FIRST_POSITION + indexed)
    for name in (RECORDS, INDEX):
        shutil.copy(topic / name, root / "orders" / name)
    assert originals_files(resume(root, records)) == unharmed
    assert read(root / "orders") == records


class TestOriginals:
    """Backups without a manifest."""

    def test_an_index_that_was_lost_is_written_anew_over_every_whole_record(
        self, tmp_path: Path
    ) -> None:
        topic = as_the_originals(back_up(tmp_path, run(0, 5)))
        index = (topic / INDEX).read_bytes()
        for name in (INDEX, "index_partition_000"):
            (topic / name).unlink()
        append_to(topic / RECORDS, encode(plain(5))[:-3])
        PartitionWriter(LocalFolder(topic), ORDERS_0, None).close()
        assert (topic / INDEX).read_bytes() == index
        assert (topic / "index_partition_000").stat().st_size == 57
        assert read(topic) == run(0, 5)

    def test_damage_that_the_index_covers_is_an_error_and_nothing_is_cut(
        self, tmp_path: Path
    ) -> None:
        topic = as_the_originals(back_up(tmp_path, run(0, 5)))
        overwrite(topic / RECORDS, FIRST_POSITION + 2 * SIZE + 8, b"\x7f")
        before = originals_files(topic)
        with pytest.raises(DamagedBackup, match="timestamp type"):
            PartitionWriter(LocalFolder(topic), ORDERS_0, None)
        assert originals_files(topic) == before

    def test_segments_that_overlap_are_an_error(self, tmp_path: Path) -> None:
        topic = as_the_originals(back_up(tmp_path, run(0, 8), max_segment_bytes=4 * SIZE))
        first, second = segments(topic)
        for kind in ("records", "index"):
            shutil.copy(topic / f"{second}_{kind}", topic / f"{first}_{kind}")
        with pytest.raises(DamagedBackup):
            PartitionWriter(LocalFolder(topic), ORDERS_0, None)


class TestCommitted:
    """Backups with a manifest."""

    def test_records_the_original_added_since_are_kept(self, tmp_path: Path) -> None:
        back_up(tmp_path, run(0, 3))
        longer = back_up(tmp_path / "longer", [*run(0, 3), *run(5, 9)])
        for name in (RECORDS, INDEX):
            shutil.copy(longer / name, tmp_path / "orders" / name)
        topic = resume(tmp_path, [])
        assert read(topic) == [*run(0, 3), *run(5, 9)]
        partition = committed(topic)
        assert partition is not None
        assert partition.next_offset == 9
        assert partition.segments[0].missing == {GapReason.UNKNOWN: 2}

    def test_segments_may_be_gone_from_the_oldest_on_and_only_so(self, tmp_path: Path) -> None:
        topic = back_up(tmp_path, run(0, 12), max_segment_bytes=4 * SIZE)
        first, second, _ = segments(topic)
        for name in (records_name(first), segment_index_name(first)):
            (topic / name).unlink()
        assert read(resume(tmp_path, [])) == run(4, 12)
        (topic / records_name(second)).rename(topic / records_name(first))
        with pytest.raises(DamagedBackup):
            resume(tmp_path, [])
