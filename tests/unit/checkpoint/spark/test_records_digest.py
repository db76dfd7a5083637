"""The digest of a copy: of its records, whatever pieces they were written in."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.spark.copied_files import joined, records_digest
from breakglass.services.topic_backup.part import SegmentPart

RECORDS = [bytes([number]) * (number * 7 % 11 + 1) for number in range(40)]


def parts(records: Sequence[bytes], *cuts: int) -> list[SegmentPart]:
    """The *records* in pieces that end before the numbers *cuts*."""
    bounds = [0, *cuts, len(records)]
    pieces = [records[start:end] for start, end in pairwise(bounds)]
    return [part(b"".join(some), len(some)) for some in pieces]


def part(content: bytes, count: int) -> SegmentPart:
    size = len(content) + 1
    return SegmentPart(0, "r", "i", count, 0, 0, 0, 0, 0, size, "", zlib.crc32(content))


@given(st.binary(), st.binary(max_size=300))
def test_the_crc_of_two_pieces_is_that_of_both_together(first: bytes, second: bytes) -> None:
    whole = zlib.crc32(first + second)
    assert joined(zlib.crc32(first), zlib.crc32(second), len(second)) == whole


def test_long_pieces_are_joined_by_their_lengths_alone() -> None:
    length, zeros = 2**20, zlib.crc32(bytes(2**20))
    for _ in range(3):
        zeros, length = joined(zeros, zeros, length), 2 * length
    assert joined(zlib.crc32(b"first"), zeros, length) == zlib.crc32(b"first" + bytes(2**23))


def test_where_segments_are_cut_makes_no_difference() -> None:
    found = {records_digest(parts(RECORDS, *cuts)) for cuts in [(), (1,), (20,), (3, 4, 39)]}
    assert len(found) == 1


def test_another_record_or_another_order_makes_a_difference() -> None:
    other = [*RECORDS[:7], b"!" * len(RECORDS[7]), *RECORDS[8:]]
    turned = [RECORDS[1], RECORDS[0], *RECORDS[2:]]
    found = {records_digest(parts(some, 9)) for some in (RECORDS, other, turned, RECORDS[:-1])}
    assert len(found) == 4


def test_nothing_has_a_digest_too() -> None:
    assert records_digest([]) == "0-0-00000000"
