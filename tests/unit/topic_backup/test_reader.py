"""What is read of a backup, and what is left out with a word."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.errors import UnsupportedSchema
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.record import Record, encode
from breakglass.services.topic_backup.segment_index import IndexedRecord, encode_entry
from breakglass.services.topic_backup.segment_reader import (
    CHUNK_BYTES,
    FIRST_POSITION,
    read_segment,
)
from tests.unit.topic_backup.backups import (
    INDEX,
    RECORDS,
    append_to,
    as_the_originals,
    back_up,
    cut_to,
    overwrite,
    read,
    reading,
    segments,
)
from tests.unit.topic_backup.shapes import log, plain, run

SIZE = len(encode(plain(0)))
ROTATING = 4 * SIZE
"""A limit that leaves four records in a segment."""


def originals(root: Path, count: int = 5) -> Path:
    return as_the_originals(back_up(root, run(0, count)))


@given(records=log(), start=st.integers(0, 60), limit=st.sampled_from([1, 60, 2**30]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_range_of_offsets_is_read(
    records: list[Record], start: int, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = back_up(tmp_path_factory.mktemp("b"), records, max_segment_bytes=limit)
    end = start + 20
    wanted = [record for record in records if start <= record.offset < end]
    assert list(reading(topic).records(start, end)) == wanted
    as_the_originals(topic)
    assert list(reading(topic).records(start, end)) == wanted


def test_records_longer_than_a_chunk_are_read(tmp_path: Path) -> None:
    records = [plain(0), plain(1, value=bytes(3 * CHUNK_BYTES)), plain(2), *run(3, 50_000)]
    assert read(back_up(tmp_path, records)) == records


class TestWithoutManifest:
    def test_bytes_behind_the_last_indexed_record_are_left_out_with_a_word(
        self, tmp_path: Path
    ) -> None:
        topic = originals(tmp_path)
        append_to(topic / RECORDS, encode(plain(5)))
        reader = reading(topic)
        assert list(reader.records()) == run(0, 5)
        (left_out,) = reader.left_out
        assert left_out.position == FIRST_POSITION + 5 * SIZE
        assert left_out.size == SIZE
        assert "behind the last indexed record" in str(left_out)

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

    def test_a_stale_index_blocks_nothing(self, tmp_path: Path) -> None:
        """One of another segment: its last entry is not true, so all of it is not believed."""
        topic = originals(tmp_path)
        lying = [IndexedRecord(number, 1 + 30 * number, 30) for number in range(4)]
        (topic / INDEX).write_bytes(b"\x01" + b"".join(map(encode_entry, lying)))
        assert read(topic) == run(0, 5)
        assert list(reading(topic).records(3)) == run(3, 5)

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

    @pytest.mark.parametrize("number", range(5))
    def test_without_a_manifest_a_lie_of_the_index_costs_no_more_than_is_told(
        self, tmp_path: Path, number: int
    ) -> None:
        topic = originals(tmp_path)
        overwrite(
            topic / INDEX, 1 + 24 * number, encode_entry(IndexedRecord(4, 1 + 4 * SIZE, SIZE + 1))
        )
        reader = reading(topic)
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

    def test_missing_or_wrong_partition_indexes_block_nothing(self, tmp_path: Path) -> None:
        topic = as_the_originals(back_up(tmp_path, run(0, 9), max_segment_bytes=ROTATING))
        (topic / "index_partition_000").write_bytes(b"\x01garbage")
        assert read(topic) == run(0, 9)
        (topic / "index_partition_000").unlink()
        assert read(topic) == run(0, 9)

    def test_segments_deleted_from_the_oldest_on_are_simply_gone(self, tmp_path: Path) -> None:
        topic = as_the_originals(back_up(tmp_path, run(0, 12), max_segment_bytes=ROTATING))
        for path in topic.glob(f"{segments(topic)[0]}_*"):
            path.unlink()
        reader = reading(topic)
        assert list(reader.records()) == run(4, 12)
        assert [damage.offsets for damage in reader.damages] == ["0..3"]

    def test_damage_within_the_indexed_records_costs_that_record_alone(
        self, tmp_path: Path
    ) -> None:
        topic = originals(tmp_path)
        at = FIRST_POSITION + 2 * SIZE
        overwrite(topic / RECORDS, at + 8, struct.pack(">i", 77))
        reader = reading(topic)
        assert list(reader.records()) == [*run(0, 2), *run(3, 5)]
        (left_out,) = reader.damages
        assert (left_out.position, left_out.size, left_out.offsets) == (at, SIZE, "2..2")

    def test_a_length_past_the_end_is_damage_not_a_torn_end(self, tmp_path: Path) -> None:
        """The index says that more records follow, so nothing is quietly dropped."""
        topic = originals(tmp_path)
        at = FIRST_POSITION + 2 * SIZE
        overwrite(topic / RECORDS, at + 20, struct.pack(">i", 2**31 - 1))
        reader = reading(topic)
        assert list(reader.records()) == [*run(0, 2), *run(3, 5)]
        assert [damage.offsets for damage in reader.damages] == ["2..2"]

    def test_a_record_that_stands_there_twice_is_read_once(self, tmp_path: Path) -> None:
        """What the original leaves when it resumes behind a record that was not indexed."""
        topic = originals(tmp_path)
        (topic / INDEX).unlink()
        append_to(topic / RECORDS, encode(plain(4)))
        reader = reading(topic)
        assert list(reader.records()) == run(0, 5)
        assert reader.salvaged

    def test_records_of_another_segment_are_not_taken_for_those_of_this_one(
        self, tmp_path: Path
    ) -> None:
        topic = as_the_originals(back_up(tmp_path, run(0, 8), max_segment_bytes=ROTATING))
        first, second = segments(topic)
        for kind in ("records", "index"):
            (topic / f"{first}_{kind}").write_bytes((topic / f"{second}_{kind}").read_bytes())
        reader = reading(topic)
        assert list(reader.records()) == run(4, 8)
        assert reader.damages

    def test_another_version_is_refused(self, tmp_path: Path) -> None:
        topic = originals(tmp_path)
        overwrite(topic / RECORDS, 0, b"\x02")
        with pytest.raises(UnsupportedSchema, match="not version 1 of the Kafka Backup format"):
            read(topic)

    def test_an_empty_file_holds_nothing(self, tmp_path: Path) -> None:
        topic = originals(tmp_path)
        cut_to(topic / RECORDS, 0)
        assert read(topic) == []


class TestWithManifest:
    def test_what_is_not_committed_is_left_out_with_a_word(self, tmp_path: Path) -> None:
        topic = back_up(tmp_path, run(0, 5), max_segment_bytes=ROTATING)
        for path in originals(tmp_path / "other", 9).glob("segment_*"):
            name = path.name.replace("offset_0000000000", "offset_0000000009")
            (topic / name).write_bytes(path.read_bytes())
        append_to(topic / f"{segments(topic)[1]}_records", b"stray")
        reader = reading(topic)
        assert list(reader.records()) == run(0, 5)
        assert sorted(out.size for out in reader.left_out) == [5, FIRST_POSITION + 9 * SIZE]
        assert {out.reason for out in reader.left_out} == {"not committed"}

    @pytest.mark.parametrize("spoil", [Path.unlink, lambda path: cut_to(path, 30)])
    def test_indexes_do_not_matter(self, tmp_path: Path, spoil: Callable[[Path], None]) -> None:
        topic = back_up(tmp_path, run(0, 9))
        spoil(topic / INDEX)
        reader = reading(topic)
        assert list(reader.records()) == run(0, 9)
        assert list(reader.records(7)) == run(7, 9)
        assert reader.left_out == []

    def test_fewer_bytes_than_committed_are_damage_behind_what_is_there(
        self, tmp_path: Path
    ) -> None:
        topic = back_up(tmp_path, run(0, 5))
        cut_to(topic / RECORDS, FIRST_POSITION + 3 * SIZE)
        reader = reading(topic)
        assert list(reader.records()) == run(0, 3)
        assert {damage.offsets for damage in reader.damages} == {"3..4"}

    def test_a_deleted_oldest_segment_is_damage(self, tmp_path: Path) -> None:
        topic = back_up(tmp_path, run(0, 12), max_segment_bytes=ROTATING)
        (topic / f"{segments(topic)[0]}_records").unlink()
        reader = reading(topic)
        assert list(reader.records()) == run(4, 12)
        assert [damage.offsets for damage in reader.damages] == ["0..3"]

    def test_a_segment_missing_between_others_is_damage_and_the_rest_is_read(
        self, tmp_path: Path
    ) -> None:
        topic = back_up(tmp_path, run(0, 12), max_segment_bytes=ROTATING)
        (topic / f"{segments(topic)[1]}_records").unlink()
        reader = reading(topic)
        assert list(reader.records()) == [*run(0, 4), *run(8, 12)]
        assert [damage.offsets for damage in reader.damages] == ["4..7"]

    def test_a_changed_byte_is_damage_though_every_record_has_its_form(
        self, tmp_path: Path
    ) -> None:
        topic = back_up(tmp_path, run(0, 5))
        overwrite(topic / RECORDS, FIRST_POSITION + 3 * SIZE - 5, b"V")
        reader = reading(topic)
        assert len(list(reader.records())) == 5
        (damage,) = reader.damages
        assert (damage.offsets, "SHA-256" in damage.reason) == ("0..4", True)


def test_a_part_of_a_segment_is_read_by_position(tmp_path: Path) -> None:
    topic = originals(tmp_path)
    start, end = FIRST_POSITION + SIZE, FIRST_POSITION + 3 * SIZE
    placed = list(read_segment(LocalFolder(topic), RECORDS, start=start, end=end))
    assert [one.record for one in placed] == run(1, 3)
    assert [(one.position, one.length, one.end) for one in placed] == [
        (start, SIZE, start + SIZE),
        (start + SIZE, SIZE, end),
    ]
