"""Reading backups: with and without a manifest, whole and damaged, proved sound."""

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.errors import BreakglassError
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.manifest import write_manifest
from breakglass.services.topic_backup.mending import mend
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_bytes import OTHER_BYTES, altered
from breakglass.services.topic_backup.segment_index import IndexedRecord, encode_entry, reindex
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.store.store import RunsFolder
from breakglass.services.topic_backup.summary import SegmentSummary
from tests.fuzz.damage import Damage, bounded, damage
from tests.kit.extent import examples
from tests.unit.topic_backup.backups import (
    INDEX,
    RECORDS,
    append_to,
    as_the_originals,
    back_up,
    committed,
    cut_to,
    manifest_of,
    overwrite,
    read,
    reading,
    segments,
)
from tests.unit.topic_backup.shapes import log, plain, run
from tests.unit.topic_backup.store.stores import (
    BOTH,
    COMPRESSED,
    PLAIN,
    in_memory,
    on_disk,
    runs_folder,
)

SIZE = len(encode(plain(0)))
ROTATING = 4 * SIZE
"""A limit that leaves four records in a segment."""


def originals(root: Path, count: int = 5) -> Path:
    return as_the_originals(back_up(root, run(0, count)))


@given(records=log(), start=st.integers(0, 60), limit=st.sampled_from([1, 60, 2**30]))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_range_of_offsets_is_read(
    records: list[Record], start: int, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = back_up(tmp_path_factory.mktemp("b"), records, max_segment_bytes=limit)
    end = start + 20
    wanted = [record for record in records if start <= record.offset < end]
    assert list(reading(topic).records(start, end)) == wanted
    as_the_originals(topic)
    assert list(reading(topic).records(start, end)) == wanted


class TestWithoutManifest:
    @pytest.mark.parametrize("index", [None, b"", b"\x02not an index", b"\x01" + b"\x7f" * 24])
    def test_without_an_index_every_whole_record_is_read(
        self, tmp_path: Path, index: bytes | None
    ) -> None:
        topic = originals(tmp_path)
        (topic / INDEX).unlink()
        if index is not None:
            (topic / INDEX).write_bytes(index)
        append_to(topic / RECORDS, encode(plain(5))[:-1])
        reader = reading(topic)
        assert list(reader.records()) == run(0, 5)
        assert [out.size for out in reader.left_out] == [SIZE - 1]

    @pytest.mark.parametrize(
        "lie",
        [
            IndexedRecord(0, 2**63 - 2, 1),
            IndexedRecord(0, 1, -SIZE),
            IndexedRecord(0, -5, SIZE),
            IndexedRecord(2, 300, 0),
            IndexedRecord(4, 1 + 4 * SIZE, SIZE + 1),
        ],
    )
    @pytest.mark.parametrize("number", range(5))
    def test_an_index_that_points_nowhere_blocks_nothing(
        self, tmp_path: Path, lie: IndexedRecord, number: int
    ) -> None:
        topic = back_up(tmp_path, run(0, 5))
        overwrite(topic / INDEX, 1 + 24 * number, encode_entry(lie))
        for start in range(6):
            assert list(reading(topic).records(start)) == run(start, 5)
        reader = reading(as_the_originals(topic))
        found = list(reader.records())
        assert [record for record in run(0, 5) if record in found] == found
        assert len(found) == 5 or reader.damages

    def test_an_index_ahead_of_its_records_ends_where_they_do(self, tmp_path: Path) -> None:
        topic = originals(tmp_path)
        cut_to(topic / RECORDS, FIRST_POSITION + 4 * SIZE + 7)
        reader = reading(topic)
        assert list(reader.records()) == run(0, 4)
        (left_out,) = reader.damages
        assert (left_out.size, left_out.reason) == (7, "named by the index and not there")
        assert left_out.offsets == "4..4"

    @pytest.mark.parametrize(("at", "number"), [(8, 77), (20, 2**31 - 1)], ids=["type", "length"])
    def test_damage_within_the_indexed_records_costs_that_record_alone(
        self, tmp_path: Path, at: int, number: int
    ) -> None:
        """The index says that more records follow, so nothing is quietly dropped."""
        topic = originals(tmp_path)
        place = FIRST_POSITION + 2 * SIZE
        overwrite(topic / RECORDS, place + at, struct.pack(">i", number))
        reader = reading(topic)
        assert list(reader.records()) == [*run(0, 2), *run(3, 5)]
        (left_out,) = reader.damages
        assert (left_out.position, left_out.size, left_out.offsets) == (place, SIZE, "2..2")


@pytest.mark.parametrize("bare", [False, True], ids=["ours", "the originals"])
@pytest.mark.parametrize("gone", [0, 1])
def test_a_segment_that_is_gone_is_damage_and_the_rest_is_read(
    tmp_path: Path, gone: int, bare: bool
) -> None:
    topic = back_up(tmp_path, run(0, 12), max_segment_bytes=ROTATING)
    if bare:
        as_the_originals(topic)
    for path in topic.glob(f"{segments(topic)[gone]}_*"):
        path.unlink()
    reader = reading(topic)
    assert list(reader.records()) == [*run(0, 4 * gone), *run(4 * gone + 4, 12)]
    assert [damage.offsets for damage in reader.damages] == [f"{4 * gone}..{4 * gone + 3}"]


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    """A hundred records in one segment."""
    return back_up(tmp_path / "backup", run(0, 100))


@pytest.fixture
def segment(topic: Path) -> SegmentSummary:
    """That segment as it was committed."""
    part = committed(topic)
    assert part is not None
    return part.segments[0]


@pytest.fixture
def in_store(topic: Path) -> Iterator[RunsFolder]:
    """The same in a store that proves nothing about its objects."""
    with in_memory() as store:
        yield copied(topic, runs_folder(store, PLAIN))


def copied(topic: Path, folder: RunsFolder) -> RunsFolder:
    """*folder* with the files of *topic*."""
    local = LocalFolder(topic)
    for name in local.names():
        folder.replace(name, [(topic / name).read_bytes()])
    return folder


def changed(content: bytes) -> bytes:
    return content[:-6] + bytes([content[-6] ^ 1]) + content[-5:]


def test_an_object_is_read_again_where_the_store_does_not_prove_it_unchanged(
    topic: Path, segment: SegmentSummary, in_store: RunsFolder
) -> None:
    name = records_name(segment.prefix)
    assert in_store.state(name) is None
    assert altered(in_store, segment) == ""
    in_store.replace(name, [changed((topic / name).read_bytes())])
    assert altered(in_store, segment) == OTHER_BYTES


def test_a_compressed_file_that_was_replaced_is_proved_again(
    topic: Path, segment: SegmentSummary, tmp_path: Path
) -> None:
    folder = copied(topic, runs_folder(on_disk(tmp_path / "runs"), COMPRESSED))
    name = records_name(segment.prefix)
    assert folder.state(name) is not None
    assert altered(folder, segment) == ""
    folder.replace(name, [changed((topic / name).read_bytes())])
    assert altered(folder, segment) == OTHER_BYTES


def test_a_copy_of_an_encrypted_backup_has_every_segment_that_opens(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 20), max_segment_bytes=8 * 40)
    first, *others = segments(topic)
    folder = runs_folder(on_disk(tmp_path / "sealed"), BOTH)
    part = committed(topic)
    assert part is not None
    in_run = {one.prefix: f"run-0000000001-a-0/{one.prefix}" for one in part.segments}
    for name in (topic / name for prefix in in_run for name in files(prefix)):
        folder.replace(f"run-0000000001-a-0/{name.name}", [name.read_bytes()])
    held = tuple(replace(one, prefix=in_run[one.prefix]) for one in part.segments)
    write_manifest(
        folder, replace(manifest_of(topic), partitions=(replace(part, segments=held),), groups={})
    )
    (sealed,) = (tmp_path / "sealed").rglob(f"{records_name(first)}*")
    overwrite(sealed, sealed.stat().st_size - 20, b"\x00\x01\x02")
    (copy,) = mend(folder, "orders", tmp_path / "copy").partitions
    lost = part.segments[0].count
    assert others
    assert (copy.salvaged, copy.records) == (True, 20 - lost)
    assert [one.offsets for one in copy.left_out] == [f"0..{lost - 1}"]


def files(prefix: str) -> tuple[str, str]:
    return records_name(prefix), segment_index_name(prefix)


ORDERS_0 = TopicPartition("orders", 0)


with_folders = settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@with_folders
@given(records=log(), records_damage=damage(), index_damage=damage(), start=st.integers(0, 50))
def test_damaged_segments_are_read_to_an_error_or_an_end_and_resumed_or_refused(
    records: list[Record],
    records_damage: Damage,
    index_damage: Damage,
    start: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    topic = back_up(tmp_path_factory.mktemp("b"), records)
    for name in (INDEX, "index_partition_000"):
        (topic / name).write_bytes(index_damage((topic / name).read_bytes()))
    expected = [record for record in records if record.offset >= start]
    assert list(reading(topic).records(start)) == expected, "with a manifest indexes do not count"
    (topic / RECORDS).write_bytes(records_damage((topic / RECORDS).read_bytes()))
    before = (topic / RECORDS).read_bytes()
    with bounded(), contextlib.suppress(BreakglassError):
        list(reading(topic).records(start))
    try:
        PartitionWriter(LocalFolder(topic), ORDERS_0, committed(topic)).close()
    except BreakglassError:
        assert (topic / RECORDS).read_bytes() == before
    else:
        assert read(topic) == records
    with bounded(), contextlib.suppress(BreakglassError):
        list(reading(as_the_originals(topic)).records(start))
    with bounded(), contextlib.suppress(BreakglassError):
        reindex(LocalFolder(topic), 0)
    with contextlib.suppress(BreakglassError):
        PartitionWriter(LocalFolder(topic), ORDERS_0, None).close()
        reader = reading(topic)
        list(reader.records())
        assert reader.left_out == []
