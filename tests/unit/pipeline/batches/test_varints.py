"""Zigzag numbers read at many places at once are those that were written there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.pipeline.batches.varints import PADDING, Longs, NotByColumns, Numbers


def written(value: int) -> bytes:
    """*value* as Kafka's ByteUtils.writeVarlong has it."""
    raw = (value << 1) ^ (value >> 63)
    content = bytearray()
    while raw > 0x7F:
        content.append(0x80 | raw & 0x7F)
        raw >>= 7
    content.append(raw)
    return bytes(content)


def numbers(*contents: bytes) -> tuple[Numbers, Longs, Longs]:
    """The *contents* side by side, where each begins, and where each ends."""
    ends = np.cumsum([len(content) for content in contents])
    data = b"".join([*contents, b"\xff" * PADDING])
    begins = ends - [len(content) for content in contents]
    return Numbers(np.frombuffer(data, np.uint8)), begins, ends


@given(st.lists(st.integers(-(2**55), 2**55 - 1) | st.integers(-64, 63)))
def test_numbers_of_up_to_56_bits_are_read(values: list[int]) -> None:
    found, begins, ends = numbers(*map(written, values))
    read, after = found.longs(begins.astype(np.int64))
    assert (read.tolist(), after.tolist()) == (values, ends.tolist())


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_numbers_of_32_bits_are_read(values: list[int]) -> None:
    found, begins, ends = numbers(*map(written, values))
    read, after = found.ints(begins.astype(np.int64))
    assert (read.tolist(), after.tolist()) == (values, ends.tolist())


def test_every_number_of_one_byte_or_two_is_read() -> None:
    values = list(range(-(2**13), 2**13))
    found, begins, ends = numbers(*map(written, values))
    read, after = found.longs(begins.astype(np.int64))
    assert (read.tolist(), after.tolist()) == (values, ends.tolist())


@given(st.lists(st.integers(0, 63) | st.integers(0, 2**20)))
def test_what_follows_a_length_is_passed_over(lengths: list[int]) -> None:
    found, begins, ends = numbers(*map(written, lengths))
    assert found.after_lengths(begins.astype(np.int64)).tolist() == (ends + lengths).tolist()


@pytest.mark.parametrize("lengths", [(5, -1), (-1, 2**20)])
def test_a_negative_length_is_left_to_others(lengths: tuple[int, int]) -> None:
    found, begins, _ = numbers(*map(written, lengths))
    with pytest.raises(NotByColumns):
        found.after_lengths(begins.astype(np.int64))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**40])
def test_a_wider_number_is_none_of_32_bits(value: int) -> None:
    found, begins, _ = numbers(written(5), written(value))
    with pytest.raises(NotByColumns):
        found.ints(begins)


def test_a_number_of_32_bits_has_no_more_than_five_bytes() -> None:
    found, begins, _ = numbers(b"\x8a\x80\x80\x80\x80\x00")
    assert found.longs(begins)[0].tolist() == [5]
    with pytest.raises(NotByColumns):
        found.ints(begins)


@pytest.mark.parametrize("value", [2**55, -(2**55) - 1, 2**63 - 1])
def test_numbers_that_are_wider_than_56_bits_are_left_to_others(value: int) -> None:
    found, begins, _ = numbers(written(5), written(value))
    with pytest.raises(NotByColumns):
        found.longs(begins)


def test_no_places_are_no_numbers() -> None:
    found, begins, _ = numbers()
    assert [int_.tolist() for int_ in found.ints(begins.astype(np.int64))] == [[], []]
