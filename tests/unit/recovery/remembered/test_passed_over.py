"""Whom elections passed over, by their journals and by the epochs of present leaders (R27)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.guard.journal import Journal
from breakglass.services.guard.journal_view import JournalView, read
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.execution.record import described
from breakglass.services.recovery.execution.routes import ELECT
from breakglass.services.recovery.judgement.starting import PassedOver
from breakglass.services.recovery.remembered.heard import HeardLog
from breakglass.services.recovery.remembered.passed_over import (
    Abandonment,
    abandonments_in,
    cut_by_leader,
    elections_in,
    merged,
    standing,
)
from tests.unit.recovery.execution.targets import target
from tests.unit.recovery.replicas import log, offline
from tests.unit.recovery.timeline.journals import CLUSTER, elected, step, unknown

ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
GIVEN_UP = 3
BEFORE = target(ORDERS[0]).leader_epoch


def written(folder: Path, results: dict[TopicPartition, Any]) -> JournalView:
    """A journal whose plan gives up b3 in each partition, and what became of its elections."""
    with Journal.open(CLUSTER, folder) as journal:
        items = {
            name: {**described(target(name)), "price": "0", "abandons": [GIVEN_UP]}
            for name in ORDERS
        }
        journal.plan("digest", "", items, consents=1)
        journal.consent("3 partitions lose 0 and abandon b3", implied=False)
        if results:
            step(journal, ELECT, results)
    return read(journal.path)


def led(name: TopicPartition, *, epoch: int = BEFORE + 1, **more: Any) -> PartitionState:
    topic_id = target(name).topic_id
    state = offline(log(1), log(2), log(3), topic=name.topic, topic_id=topic_id).state
    fields = {"leader": 1, "isr": (1,), **more}
    return replace(state, partition=name, leader_epoch=epoch, **fields)


def left(
    view: JournalView, *states: PartitionState, ran_at: int = 0, whole: bool = True
) -> dict[int, tuple[TopicPartition, ...]]:
    found = standing(
        list(abandonments_in(view)),
        {state.partition: state for state in states},
        lambda _: ran_at,
        whole=whole,
    )
    return {broker: one.partitions for broker, one in found.items()}


ALL_LED = [led(name) for name in ORDERS]


@pytest.mark.parametrize(
    "result", [elected(), unknown(), None], ids=["elected", "unknown", "killed before the answer"]
)
def test_r27_a_broker_that_an_election_gave_up_is_passed_over_though_nobody_said_so(
    tmp_path: Path, result: Any
) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, result))
    assert left(view, *ALL_LED) == {GIVEN_UP: ORDERS}


@pytest.mark.parametrize("result", ["failed", "refused"])
def test_an_election_that_did_not_happen_passes_nobody_over(tmp_path: Path, result: str) -> None:
    assert left(written(tmp_path, {ORDERS[0]: result}), *ALL_LED) == {}
    assert left(written(tmp_path, {}), *ALL_LED) == {}


def test_an_unknown_election_that_never_was_passes_nobody_over(tmp_path: Path) -> None:
    view = written(tmp_path, {ORDERS[0]: unknown(), ORDERS[1]: elected()})
    never = led(ORDERS[0], epoch=BEFORE, leader=None, isr=(), elr=(GIVEN_UP,))
    assert left(view, never, ALL_LED[1]) == {GIVEN_UP: (ORDERS[1],)}


@pytest.mark.parametrize(
    "state",
    [
        led(ORDERS[0], isr=(1, GIVEN_UP)),
        led(ORDERS[0], epoch=BEFORE + 4, leader=None, isr=(), elr=(GIVEN_UP,)),
        led(ORDERS[0], epoch=BEFORE + 4, leader=None, isr=(), last_known_elr=(GIVEN_UP,)),
        led(ORDERS[0], epoch=BEFORE + 4, leader=GIVEN_UP, isr=(GIVEN_UP,)),
    ],
    ids=["in sync", "eligible", "the last leader", "the leader"],
)
def test_a_broker_that_followed_since_was_cut_already(
    tmp_path: Path, state: PartitionState
) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, elected()))
    assert left(view, state, *ALL_LED[1:]) == {}


def test_a_broker_that_was_heard_or_checked_since_is_not_passed_over(tmp_path: Path) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, elected()))
    moment = view.entries[-1].at_ms
    assert left(view, *ALL_LED, ran_at=moment - 60_000) == {GIVEN_UP: ORDERS}
    assert left(view, *ALL_LED, ran_at=moment + 1) == {}


def test_who_followed_since_a_later_election_was_cut_in_what_an_earlier_one_passed_it_over(
    tmp_path: Path,
) -> None:
    """Nothing in the metadata of what the earlier one elected shows it: b3 died once more."""
    later = list(abandonments_in(written(tmp_path, dict.fromkeys(ORDERS, elected()))))
    first = Abandonment(TopicPartition("carts", 0), "", GIVEN_UP, 5, later[0].at_ms - 1, "first")
    states = {state.partition: state for state in ALL_LED}
    carts = {first.partition: led(ORDERS[0])}
    returned = {ORDERS[1]: led(ORDERS[1], elr=(GIVEN_UP,))}
    assert standing([first, *later], carts | states | returned, lambda _: 0, whole=True) == {}
    after = replace(first, at_ms=later[0].at_ms + 60_000)
    found = standing([after, *later], carts | states | returned, lambda _: 0, whole=True)
    assert found[GIVEN_UP].partitions == (first.partition,)


def test_a_partition_that_was_deleted_is_left_out_where_all_were_read(tmp_path: Path) -> None:
    view = written(tmp_path, dict.fromkeys(ORDERS, elected()))
    assert left(view, ALL_LED[0]) == {GIVEN_UP: ORDERS[:1]}
    assert left(view, ALL_LED[0], whole=False) == {GIVEN_UP: ORDERS}


def test_only_elections_that_ended_as_agreed_are_agreed_to(tmp_path: Path) -> None:
    view = written(tmp_path, {ORDERS[0]: elected(), ORDERS[1]: unknown(), ORDERS[2]: "failed"})
    assert [(name, epoch) for _, name, epoch in elections_in(view)] == [(ORDERS[0], 6)]


def test_a_log_that_goes_on_where_the_leader_does_not_is_cut_by_it() -> None:
    was = HeardLog(log(3, (0, 100), (1, 125)), 2, offline=True)
    assert cut_by_leader(was, log(1, (0, 100), (3, 180)))
    assert not cut_by_leader(was, log(1, (0, 100), (1, 125), (3, 180)))
    assert not cut_by_leader(HeardLog(log(3), 2, offline=True), log(1, (0, 100)))


def test_of_two_sources_all_partitions_count() -> None:
    by_journal = PassedOver(3, ORDERS[:2], 7, "journal x")
    by_leader = PassedOver(3, ORDERS[1:], 5, "its log was read")
    assert merged({3: by_journal}, {3: by_leader})[3].partitions == ORDERS
    assert merged({}, {3: by_leader}) == {3: by_leader}
