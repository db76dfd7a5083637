"""Durations, sizes and rates as operators write them, and what is none of these."""

from __future__ import annotations

import pytest

from breakglass.services.words.amounts import duration_ms, rate_bytes, size_bytes


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("5ms", 5), ("45s", 45_000), ("90m", 5_400_000), ("1.5h", 5_400_000), ("30d", 2_592_000_000)],
)
def test_a_duration_has_a_unit(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


def test_a_number_is_a_duration_where_a_unit_is_understood() -> None:
    assert duration_ms("0.5", bare="s") == 500


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1w", "1 d", "\u0663d"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write it as 30d"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("7B", 7),
        ("500kB", 500_000),
        ("1GiB", 2**30),
        ("1.5GB", 15 * 10**8),
    ],
)
def test_a_size_is_in_bytes_with_or_without_a_unit(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1gb", "1G", "big", "1B/s"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size: write it as 10GB"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20MB/s", 2e7),
        ("500kB/s", 5e5),
        ("1GiB/s", 2.0**30),
        ("7B/s", 7.0),
        ("52428800", 52428800.0),
    ],
)
def test_a_rate_is_in_bytes_a_second(text: str, rate: float) -> None:
    assert rate_bytes(text) == rate


def test_no_limit_is_a_rate_too() -> None:
    assert rate_bytes("unlimited") == rate_bytes("0") == 0.0


@pytest.mark.parametrize("text", ["", "20MB", "-1MB/s", "fast", "20mb/s"])
def test_what_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate: write it as 20MB/s"):
        rate_bytes(text)
