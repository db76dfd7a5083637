"""Where restored records were first, and the digest of a copy whatever its pieces."""

import zlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.kafka.control import MovedRecords, RecordAddress
from breakglass.services.checkpoint.spark.copied_files import (
    STATES,
    committed,
    read_states,
    records_digest,
)
from breakglass.services.checkpoint.spark.restore import first_places
from breakglass.services.checkpoint.store.files import blobs_at, stored_file
from breakglass.services.errors import StorageError
from breakglass.services.topic_backup.part import SegmentPart
from tests.unit.topic_backup.store.stores import in_memory

FIRST, SECOND = "first", "second"


def moved(topic: str, old: int, new: int, count: int) -> MovedRecords:
    return MovedRecords(RecordAddress(topic, 0, old), new, count)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 3)), max_size=6),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_each_record_has_the_place_that_the_earlier_restore_noted(
    stretches: list[tuple[int, int, int]], start: int, count: int
) -> None:
    """*stretches*: unmoved records before it, its records, and the gap that the first log had."""
    before, old, new = list[MovedRecords](), 1_000, 0
    for unmoved, some, gap in stretches:
        new, old = new + unmoved, old + gap
        before.append(moved(FIRST, old, new, some))
        new, old = new + some, old + some
    by_record = {
        records.new_offset + shift: (FIRST, records.old.offset + shift)
        for records in before
        for shift in range(records.count)
    }
    found = [
        (records.new_offset + shift, (records.old.topic_id, records.old.offset + shift))
        for records in first_places(moved(SECOND, start, 500, count), before)
        for shift in range(records.count)
    ]
    assert found == [
        (500 + place - start, by_record.get(place, (SECOND, place)))
        for place in range(start, start + count)
    ]


def test_h16_no_document_of_a_copy_is_read_that_is_not_as_it_was_committed() -> None:
    """A store may give the true one to `verify`, and another one to the restore."""
    with in_memory() as store:
        objects = blobs_at(f"{store.where()}/copy")
        for name in (STATES, "segments/orders/breakglass_manifest_1.json"):
            assert objects.create(name, b"as committed")
        files = tuple(stored_file(objects, name) for name in sorted(objects.names()))
        assert objects.create("segments/orders/breakglass_manifest_2.json", b"newer")
        held = committed(f"{store.where()}/copy", files, "segments/orders")
        assert held.names() == ["breakglass_manifest_1.json"]
        assert held.open("breakglass_manifest_1.json").read() == b"as committed"
        objects.remove([STATES, "segments/orders/breakglass_manifest_1.json"])
        assert objects.create("segments/orders/breakglass_manifest_1.json", b"as forged...")
        whole = committed(f"{store.where()}/copy", files)
        for blobs, name in (
            (held, "breakglass_manifest_1.json"),
            (held, "breakglass_manifest_2.json"),
            (whole, STATES),
        ):
            with pytest.raises(StorageError):
                blobs.open(name).read()
        with pytest.raises(StorageError):
            read_states(whole)


RECORDS = [bytes([number]) * (number * 7 % 11 + 1) for number in range(40)]


def parts(records: Sequence[bytes], *cuts: int) -> list[SegmentPart]:
    """The *records* in pieces that end before the numbers *cuts*."""
    bounds = [0, *cuts, len(records)]
    pieces = [records[start:end] for start, end in pairwise(bounds)]
    return [part(b"".join(some), len(some)) for some in pieces]


def part(content: bytes, count: int) -> SegmentPart:
    size = len(content) + 1
    return SegmentPart(0, "r", "i", count, 0, 0, 0, 0, 0, size, "", zlib.crc32(content))


def test_another_record_or_another_order_makes_a_difference() -> None:
    other = [*RECORDS[:7], b"!" * len(RECORDS[7]), *RECORDS[8:]]
    turned = [RECORDS[1], RECORDS[0], *RECORDS[2:]]
    found = {records_digest(parts(some, 9)) for some in (RECORDS, other, turned, RECORDS[:-1])}
    assert len(found) == 4
