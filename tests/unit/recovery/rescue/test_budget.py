"""A budget takes the newest records of each log, and names what it leaves out."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import LogDir, Role, TopicPartition, Unknown
from breakglass.services.recovery.rescue.budget import newest_within
from breakglass.services.recovery.rescue.results import BYTES_A_RECORD, MARGIN
from breakglass.services.recovery.rescue.spans import Share, Span, at_risk_of_return, shares_of
from tests.unit.recovery.replicas import log, offline, silent


def whole(number: int, end: int, a_record: int = 1_000) -> tuple[Share, ...]:
    """All of a log of *end* records, which an unread leader that returns may cut."""
    size = LogDir("/kafka", online=True, size=end * (a_record - BYTES_A_RECORD))
    held = replace(log(2, (0, end)), log_dir=size)
    risk = at_risk_of_return(offline(silent(1, role=Role.ELR), held, number=number), 1)
    assert risk is not None
    found = shares_of(risk)
    assert not isinstance(found, Unknown)
    return found


def name(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def bytes_of(records: int) -> int:
    return int(records * 1_000 * MARGIN)


def test_r26_what_fits_is_saved_whole() -> None:
    shares = {name(0): whole(0, 100), name(1): whole(1, 50)}
    assert newest_within(shares, bytes_of(150)) == (shares, {})


def test_r26_the_newest_records_are_saved_first_and_the_rest_is_named() -> None:
    kept, left = newest_within({name(0): whole(0, 100)}, bytes_of(30))
    assert [share.spans for share in kept[name(0)]] == [(Span(70, 100),)]
    (out,) = left[name(0)]
    assert (out.broker, out.spans) == (2, (Span(0, 70),))
    assert str(out) == "offsets 0-69 of b2"


def test_a_large_log_leaves_room_for_the_small_ones() -> None:
    kept, left = newest_within({name(0): whole(0, 10_000), name(1): whole(1, 50)}, bytes_of(150))
    assert [share.spans for share in kept[name(1)]] == [(Span(0, 50),)]
    assert [share.spans for share in kept[name(0)]] == [(Span(9_900, 10_000),)]
    assert list(left) == [name(0)]


def test_nothing_is_kept_of_a_budget_of_nothing() -> None:
    kept, left = newest_within({name(0): whole(0, 100)}, 0)
    assert kept == {}
    assert left[name(0)][0].spans == (Span(0, 100),)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=5), st.integers(0, 1_000_000))
def test_what_is_kept_and_what_is_left_out_is_all_and_no_more_than_the_budget(
    ends: list[int], budget: int
) -> None:
    shares = {name(number): whole(number, end) for number, end in enumerate(ends)}
    kept, left = newest_within(shares, budget)
    for partition, held in shares.items():
        saved = sum(share.offsets for share in kept.get(partition, ()))
        rest = sum(span.offsets for out in left.get(partition, ()) for span in out.spans)
        assert saved + rest == held[0].offsets
        assert bool(rest) == (partition in left) or rest == 0
    assert sum(bytes_of(s.offsets) for held in kept.values() for s in held) <= budget + len(ends)
