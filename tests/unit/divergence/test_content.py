"""Contents of any size are held in a few bytes and still compare exactly."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.divergence.entry import DETAIL, ROWS, Keep, content_of, headers_of
from breakglass.services.topic_backup.record import Headers
from tests.unit.topic_backup import shapes

TIGHT = Keep(value=4, headers=2)
small = st.binary(max_size=8) | st.none()


@given(small, small)
def test_two_contents_are_equal_exactly_when_all_of_their_bytes_are(
    one: bytes | None, other: bytes | None
) -> None:
    assert (content_of(one, 4) == content_of(other, 4)) == (one == other)


@given(shapes.headers, shapes.headers)
def test_two_lists_of_headers_are_equal_exactly_when_all_headers_are(
    one: Headers, other: Headers
) -> None:
    assert (headers_of(one, TIGHT) == headers_of(other, TIGHT)) == (one == other)


def test_headers_that_join_to_the_same_bytes_differ() -> None:
    filler = ((b"h", b""),) * 2
    one = headers_of((*filler, (b"a", b"bc")), TIGHT)
    assert one != headers_of((*filler, (b"ab", b"c")), TIGHT)
    assert one != headers_of((*filler, (b"abc", None)), TIGHT)


def test_null_and_empty_differ() -> None:
    assert content_of(None, 4) != content_of(b"", 4)


def test_ten_megabytes_are_held_in_their_first_bytes() -> None:
    whole = bytes(10_000_000)
    tracemalloc.start()
    try:
        held = content_of(whole, ROWS.value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held is not None
    assert (len(held.kept), held.size) == (ROWS.value, 10_000_000)
    assert peak < 10_000


def test_a_hundred_thousand_headers_are_held_as_the_first_few_and_their_number() -> None:
    held = headers_of(((b"h", b"v"),) * 100_000, DETAIL)
    assert (len(held.kept), held.count) == (DETAIL.headers, 100_000)
