"""File names, both ways, and their order by number."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import DamagedBackup, UsageError
from breakglass.services.topic_backup.layout import (
    MANIFEST,
    batch_log_name,
    consumer_offsets_name,
    listing,
    partition_index_name,
    records_name,
    segment_index_name,
    segment_prefix,
    topic_path,
)


def test_names_are_padded_and_never_cut() -> None:
    assert segment_prefix(3, 42) == "segment_partition_003_from_offset_0000000042"
    assert segment_prefix(1234, 10**12) == "segment_partition_1234_from_offset_1000000000000"
    assert partition_index_name(12345) == "index_partition_12345"
    assert consumer_offsets_name(7) == "consumer_offsets_partition_007"


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


def test_past_ten_digits_names_do_not_sort_as_text() -> None:
    names = [records_name(segment_prefix(0, offset)) for offset in (10**10, 9_999_999_999, 0)]
    assert sorted(names)[1] == names[0]
    starts = [segment.start_offset for segment in listing(names)[0].segments]
    assert starts == [0, 9_999_999_999, 10**10]


@pytest.mark.parametrize(
    "name",
    [
        MANIFEST,
        batch_log_name(0),
        "segment_partition_000_from_offset_0000000000",
        "segment_partition_000_from_offset_0000000000_records.bak",
        "xsegment_partition_000_from_offset_0000000000_records",
        "segment_partition_000_from_offset_-000000001_records",
        "segment_partition_٣_from_offset_0_records",
        "segment_partition_0_from_offset_9223372036854775808_records",
        "segment_partition_2147483648_from_offset_0_records",
        "index_partition_",
        "index_partition_000_",
        ".breakglass-00.tmp",
    ],
)
def test_other_names_are_passed_over(name: str) -> None:
    assert listing([name]) == {}


def test_readers_take_any_number_of_digits() -> None:
    found = listing(["segment_partition_7_from_offset_5_records", "index_partition_7"])
    assert found[7].segments[0].prefix == "segment_partition_7_from_offset_5"
    assert found[7].partition_index == "index_partition_7"


def test_two_names_for_one_segment_are_an_error() -> None:
    names = ["segment_partition_7_from_offset_5_records", "segment_partition_007_from_offset_5_"]
    with pytest.raises(DamagedBackup, match="the same segment by another name"):
        listing([names[0], names[1] + "records"])
    with pytest.raises(DamagedBackup, match="the same segment by another name"):
        listing([names[0], names[1] + "index"])


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "ü", "a b", "n" * 250, "a\n"])
def test_a_name_that_is_no_topics_leads_nowhere(topic: str) -> None:
    with pytest.raises(UsageError, match="not a topic name"):
        topic_path(Path("backup"), topic)


def test_a_topics_folder_bears_its_name() -> None:
    assert topic_path(Path("backup"), "a.b-c_D9") == Path("backup/a.b-c_D9")
