"""Lists of partitions: what cannot wait stands first, what fared alike stands together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from breakglass.services.incident import cells
from breakglass.services.incident.groups import PartitionGroup, Sum, grouped
from breakglass.services.incident.listing import RowOrder, ordered
from tests.kit.incidents import every_verdict, incident_of, lossless, many_offline, unread

INCIDENT = every_verdict()


def written(groups: Iterable[PartitionGroup]) -> list[tuple[str, ...]]:
    return [
        (
            cells.verdict_text(group),
            cells.action_text(group),
            cells.name_text(group),
            cells.best_text(group),
            cells.loses_text(group),
            cells.unread_text(group),
            cells.heard_text(group),
        )
        for group in groups
    ]


def test_time_bombs_stand_first_then_internal_topics_then_the_others_by_verdict() -> None:
    assert written(grouped(ordered(INCIDENT.rows))) == [
        ("BOMB", "stop b4 NOW", "carts-0..2 (3)", "b2", "0", "b3", "2 of 3"),
        ("LOSS", "elect b1", "__consumer_offsets-7 (1)", "b1", "~440", "b3", "2 of 3"),
        ("STUCK", "reassignment", "stock-2 (1)", "-", "-", "b3", "1 of 2"),
        ("WAIT", "start b3", "orders-0..3 (4)", "b1", "0", "b3 >= 100", "2 of 3"),
        ("FORK", "decide", "audit-5 (1)", "-", "-", "b3", "2 of 3"),
        ("LOSS", "elect b1", "ledger-3 (1)", "b1", "50", "b3", "2 of 3"),
        ("LOSS", "elect b1", "users-6 (1)", "b1", "?", "b3", "2 of 3"),
        ("SAFE", "elect b2", "payments-1 (1)", "b2", "0", "b3", "2 of 3"),
    ]


def test_a_group_has_every_partition_of_its_kind_once() -> None:
    incident = many_offline(1000, topics=5)
    groups = grouped(ordered(incident.rows))
    assert sum(len(group.rows) for group in groups) == 1000
    assert len({group.key for group in groups}) == len(groups) == 20
    for group in groups:
        assert {(row.verdict, row.action, row.partition.topic) for row in group.rows} == {group.key}


def test_partitions_that_do_not_follow_each_other_are_a_star_and_unjudged_ones_say_so() -> None:
    (group,) = grouped(incident_of(lossless(1), lossless(3), lossless(4)).rows)
    assert cells.name_text(group) == "payments-* (3)"
    assert written(grouped(unread(3).rows)) == [("...", "", "orders-0..2 (3)", "-", "-", "-", "-")]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (RowOrder.URGENCY, "carts-0"),
        (RowOrder.TOPIC, "__consumer_offsets-7"),
        (RowOrder.LOSS, "users-6"),
        (RowOrder.UNREAD, "carts-0"),
        (RowOrder.LEO, "__consumer_offsets-7"),
        (RowOrder.EPOCH, "users-6"),
        (RowOrder.HEARD, "stock-2"),
    ],
)
def test_a_list_is_sorted_by_what_is_asked_for_and_keeps_every_row(
    order: RowOrder, first: str
) -> None:
    rows = ordered(INCIDENT.rows, order)
    assert str(rows[0].partition) == first
    assert sorted(map(str, rows)) == sorted(map(str, INCIDENT.rows))
    assert len(ordered(unread(5).rows, order)) == 5


@pytest.mark.parametrize(
    ("sum_", "about", "text"),
    [
        (Sum(50, 0, 2), False, "50"),
        (Sum(1_234, 1, 2), False, ">= 1,234"),
        (Sum(50, 0, 2), True, "~50"),
        (Sum(0, 0, 2), True, "0"),
        (Sum(0, 2, 0), False, "?"),
        (Sum(), False, "-"),
    ],
)
def test_sums_tell_exact_about_at_least_unknown_and_none_apart(
    sum_: Sum, about: bool, text: str
) -> None:
    assert cells._sum_text(sum_, about=about) == text
