"""The judge of a soak's memory (tests/kit/flatness.py)."""

from __future__ import annotations

import pytest

from tests.kit.flatness import is_flat, quarters

MB = 1_000_000


@pytest.mark.parametrize(
    ("megabytes", "flat"),
    [
        ([50, 70, 70, 70], True),
        ([50, 70, 71, 74], True),
        ([50, 70, 73, 75], False),
        ([50, 70, 70, 90, 70, 70, 70, 70], True),
    ],
    ids=["loaded in the first quarter", "within the slack", "it grows", "one peak"],
)
def test_memory_is_flat_if_the_last_quarter_is_as_the_second(
    megabytes: list[int], flat: bool
) -> None:
    assert is_flat([size * MB for size in megabytes]) is flat


def test_too_few_sizes_are_no_evidence() -> None:
    with pytest.raises(ValueError, match="four sizes or more"):
        quarters([MB, MB, MB])
