"""The headers of participants: what is written is read, and what others write is told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.kafka.stamps import (
    LARGEST,
    ORIGIN,
    SN,
    SOURCE,
    RecordAddress,
    RecordOrigin,
    Stamp,
    marker_headers,
    stamp_of,
    stamped,
)
from tests.kit.stamps import OUTSIDE

TOPIC_ID = "0123456789abcdef0123456789abcdef"
numbers = st.integers(0, LARGEST)
places = st.builds(RecordAddress, st.just(TOPIC_ID), numbers, numbers)
causes = st.builds(RecordOrigin, places, numbers, st.text())


@given(numbers, causes, st.none() | causes)
def test_h02_what_is_stamped_is_read_back(
    sn: int, cause: RecordOrigin, source: RecordOrigin | None
) -> None:
    assert stamp_of(stamped(sn, cause, source)) == Stamp(sn, cause, source or cause)


def test_a_source_that_is_the_origin_is_not_written_twice() -> None:
    cause = RecordOrigin(RecordAddress(TOPIC_ID, 1, 5), 0, "bank")
    assert [name for name, _ in stamped(3, cause, cause)] == [SN, ORIGIN]


def test_records_from_outside_have_no_cause() -> None:
    assert stamp_of(OUTSIDE) == Stamp(0, None)


def test_the_coordinators_record_is_a_marker() -> None:
    assert stamp_of(marker_headers(7)) == Stamp(7, None, marker=True)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(SN, b"1")],
        [(ORIGIN, b"")],
        [(SN, b"-1"), (ORIGIN, b"")],
        [(SN, b"1.0"), (ORIGIN, b"")],
        [(SN, b""), (ORIGIN, b"")],
        [(SN, None), (ORIGIN, b"")],
        [(SN, b"9" * 19), (ORIGIN, b"")],
        [(SN, b"1"), (ORIGIN, b"somewhere")],
        [(SN, b"1"), (ORIGIN, b"short:1:2:3:group")],
        [(SN, b"1"), (ORIGIN, TOPIC_ID.encode() + b":1:-2:3:group")],
        [(SN, b"1"), (ORIGIN, TOPIC_ID.encode() + b":1:2:3:\xff")],
        [(SN, b"1"), (ORIGIN, TOPIC_ID.encode() + b":1:2:3:g"), (SOURCE, b"elsewhere")],
    ],
)
def test_h10_headers_that_nobody_of_ours_writes_are_as_good_as_none(
    headers: list[tuple[str, bytes | None]],
) -> None:
    assert stamp_of(headers) is None


def test_names_of_headers_may_be_bytes_as_the_log_has_them() -> None:
    assert stamp_of([(SN.encode(), b"4"), (ORIGIN.encode(), b"")]) == Stamp(4, None)


def test_of_a_header_that_is_there_twice_the_last_counts() -> None:
    assert stamp_of([(SN, b"4"), (ORIGIN, b""), (SN, b"5")]) == Stamp(5, None)
