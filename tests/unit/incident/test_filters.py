"""The language of the filter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.incident.filters import FilterError, readable
from tests.kit.filters import parse_filter
from tests.kit.incidents import every_verdict

ROWS = every_verdict().rows


def kept(text: str) -> list[str]:
    wanted = parse_filter(text)
    return [str(row.partition) for row in ROWS if wanted.keeps(row)]


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("ledger", ["ledger-3"]),
        ("LEDGER-3", ["ledger-3"]),
        ("carts-*", ["carts-0", "carts-1", "carts-2"]),
        ("s-1", ["carts-1", "orders-1", "payments-1"]),
        ("topic:order partition:>2", ["orders-3"]),
        ("topic:stock,users", ["stock-2", "users-6"]),
        ("topic:u*", ["users-6"]),
        ("broker:4", ["carts-0", "carts-1", "carts-2"]),
        ("broker:b4,9", ["carts-0", "carts-1", "carts-2"]),
        ("best:1 verdict:loss", ["__consumer_offsets-7", "ledger-3", "users-6"]),
        ("verdict:loss,fork -internal", ["audit-5", "ledger-3", "users-6"]),
        ("verdict:st", ["stock-2"]),
        ("action:start", ["orders-0", "orders-1", "orders-2", "orders-3"]),
        ("action:elect-b2", ["payments-1"]),
        ("loss:>50", ["__consumer_offsets-7"]),
        ("loss:<=50 loss:>0", ["ledger-3"]),
        ("loss:50", ["ledger-3"]),
        ("loss:?", ["users-6"]),
        ("leo:>=900", ["__consumer_offsets-7"]),
        ("leo:63", ["orders-3"]),
        ("epoch:3", ["__consumer_offsets-7"]),
        ("heard:<2", ["stock-2"]),
        ("unread:>0", ["orders-0", "orders-1", "orders-2", "orders-3"]),
        ("silent:b3 ledger", ["ledger-3"]),
        ("internal", ["__consumer_offsets-7"]),
        ("is:bomb", ["carts-0", "carts-1", "carts-2"]),
        ("is:unjudged", []),
        ("nothing-like-this", []),
        ("leo:>1,000", []),
    ],
)
def test_a_filter_keeps_what_it_says(text: str, partitions: list[str]) -> None:
    assert kept(text) == partitions


def test_an_empty_filter_keeps_all_and_a_minus_exactly_the_others() -> None:
    assert not parse_filter("   ")
    assert kept("   ") == [str(row.partition) for row in ROWS]
    assert sorted(kept("verdict:wait") + kept("-verdict:wait")) == sorted(kept(""))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("orders verdit:loss", 7),
        ("broker:x2", 7),
        ("broker:1,,2", 9),
        ("verdict:loss,safest", 13),
        ("orders loss:many", 12),
        ("orders -is:odd", 11),
        ("best:", 5),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, position: int) -> None:
    with pytest.raises(FilterError) as refused:
        parse_filter(text)
    assert refused.value.position == position


@given(st.text("orders-7:*,<>=?is 1☃\x1b", max_size=40))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    wanted, fault = readable(text)
    assert fault is None or fault.position in range(len(text) + 1)
    for row in ROWS:
        wanted.keeps(row)
