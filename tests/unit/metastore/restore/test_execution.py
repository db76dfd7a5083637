"""Rule M3: two overlapping transactions put every command back at its own offset."""

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.metastore.restore.execution import (
    CommandRange,
    Pads,
    RestoredMetastore,
    needs_pads,
    steps,
)

PATTERNS = st.lists(st.integers(0, 4), max_size=30)
"""How many offsets are free before each command."""


def offsets_of(gaps: list[int]) -> list[int]:
    offsets, at = [], 0
    for gap in gaps:
        offsets.append(at + gap)
        at += gap + 1
    return offsets


@given(PATTERNS)
def test_m3_every_pattern_of_gaps_is_reproduced(gaps: list[int]) -> None:
    """What a broker would do with the steps: one offset for each record and each marker."""
    offsets = offsets_of(gaps)
    log: list[str | int] = []
    pads = aborts = 0
    for step in steps(offsets):
        assert step.offset == len(log)
        if isinstance(step, CommandRange):
            log.extend(range(step.start, step.end))
        elif isinstance(step, Pads):
            assert not aborts
            pads += step.count
            log.extend(["pad"] * step.count)
        else:
            aborts += 1
            log.append("abort")
    assert [log.index(number) for number in range(len(offsets))] == offsets
    assert aborts == int(pads > 0) == int(needs_pads(offsets))
    trailing = len(log) - (offsets[-1] + 1 if offsets else 0)
    assert trailing == int(sum(gaps) == 1)


def test_a_topic_is_called_identical_only_where_nothing_differs() -> None:
    assert RestoredMetastore("a", 3, verified=True).state == "identical"
    assert "4 is missing" in RestoredMetastore("a", 3, differences=["4 is missing"]).state
    assert "identical" not in RestoredMetastore("a", 3).state
