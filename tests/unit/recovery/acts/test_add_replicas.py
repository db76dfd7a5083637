"""How much of an elected log consumers read, what the rest waits for (R30), who gets it (R50)."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from breakglass.services.model import (
    PartitionState,
    Reassignment,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.recovery.acts.add_replicas import LogRoom, grown, reach_text, waits_for
from breakglass.services.recovery.execution.target import (
    ElectedReach,
    PartitionOutcome,
    RecoveryResult,
    Rung,
)
from breakglass.services.snapshot import Broker, ClusterDescription
from tests.unit.recovery.execution.targets import ORDERS, target

WHOLE = range(8, 100)
"""The offsets of the log that was elected."""


def elected(
    mark: int | None,
    *,
    rung: Rung = Rung.SERVING,
    partition: TopicPartition = ORDERS,
    minimum: int | None = 2,
    in_sync: int = 1,
    live: tuple[int, ...] = (),
) -> PartitionOutcome:
    """b1 of b1, b2 and b3 was elected, and its high watermark is *mark*."""
    wanted = replace(
        target(partition, log_end=WHOLE.stop, minimum=minimum, live=live), log_start=WHOLE.start
    )
    return PartitionOutcome(
        wanted, RecoveryResult.ELECTED, "", 1, 6, rung, ElectedReach(mark, in_sync)
    )


@pytest.mark.parametrize(
    ("mark", "readable"), [(39, 31), (8, 0), (0, 0)], ids=["a part", "nothing", "lost in a kill"]
)
def test_r30_what_lies_above_the_high_watermark_is_not_readable_yet(
    mark: int, readable: int
) -> None:
    outcome = elected(mark)
    assert (outcome.held, outcome.not_yet_readable) == (92, 92 - readable)
    assert reach_text(outcome).startswith(f"{readable} of 92 ")


@pytest.mark.parametrize("rung", [Rung.READABLE, Rung.WRITABLE, Rung.REDUNDANT])
def test_r30_a_partition_that_is_readable_waits_for_nothing(rung: Rung) -> None:
    outcome = elected(100, rung=rung)
    assert outcome.not_yet_readable == 0
    assert (reach_text(outcome), list(waits_for([outcome]))) == ("", [])


def test_r30_what_was_not_looked_at_or_ends_nobody_knows_where_is_not_0() -> None:
    unread = elected(40)
    unread = replace(unread, target=replace(unread.target, log_end=None))
    for outcome in (unread, replace(elected(40), reach=None), elected(None)):
        assert outcome.not_yet_readable is None
        assert "not known" in reach_text(outcome)


def test_r30_a_partition_without_a_leader_says_nothing_of_its_records() -> None:
    assert elected(40, rung=Rung.SERVING).not_yet_readable
    lost = replace(elected(40), rung=None)
    refused = replace(elected(40), result=RecoveryResult.REFUSED)
    assert (lost.not_yet_readable, refused.not_yet_readable) == (None, None)


def test_r30_partitions_that_wait_for_the_same_are_counted_together() -> None:
    other = replace(ORDERS, partition=4)
    alike = [elected(39), elected(40, partition=other)]
    (one,) = waits_for(alike)
    assert one.startswith(f"{61 + 60} records of {ORDERS}, {other} ")
    assert len(list(waits_for([*alike, elected(39, minimum=3)]))) == 2


def test_r30_a_broker_that_is_away_is_brought_back_only_once_its_folders_are_saved() -> None:
    """It may have been passed over, and would truncate (R27)."""
    (away,) = waits_for([elected(39)])
    assert "b2" in away.partition("bring back ")[2]
    assert "saved" in away
    (live,) = waits_for([elected(39, live=(2, 3))])
    assert "bring back" not in live


LED = PartitionState(ORDERS, uuid4(), 1, 5, (1, 2, 3), (1,), (), ())
"""b1 leads alone; b4 is in its rack, b5 in another."""


@pytest.mark.parametrize(
    ("changed", "live", "usable", "impatient", "added"),
    [
        pytest.param({}, (1, 4, 5), {}, False, (5,), id="another rack first"),
        pytest.param({}, (1, 4, 5), {5: 9}, False, (4,), id="a full disk last"),
        pytest.param({}, (1, 4, 5), {4: 9, 5: 9}, False, None, id="no disk has room"),
        pytest.param({}, (1, 2, 4), {}, False, None, id="b2 is copying"),
        pytest.param({}, (1, 2, 4), {}, True, (4,), id="b2 is copying for too long"),
        pytest.param({}, (1,), {}, True, None, id="nobody else lives"),
        pytest.param({"isr": (1, 2)}, (1, 4), {}, True, (), id="enough are in sync"),
        pytest.param({"leader": None}, (1, 4), {}, True, (), id="nobody leads"),
        pytest.param({"assignment": (1, 2, 9)}, (1, 4), {}, True, None, id="b9 is not registered"),
        pytest.param({"reassignment": Reassignment((4,), ())}, (1, 4), {}, True, None, id="moved"),
        pytest.param({"reassignment": Unknown("?")}, (1, 4), {}, True, None, id="perhaps moved"),
    ],
)
def test_r50_a_replica_is_added_on_a_live_broker_or_it_is_said_why_not(
    changed: dict[str, Any],
    live: tuple[int, ...],
    usable: dict[int, int],
    impatient: bool,
    added: tuple[int, ...] | None,
) -> None:
    state = replace(LED, **changed)
    brokers = [Broker(one, "", 0, "r2" if one == 5 else "r1", one not in live) for one in range(6)]
    room = LogRoom(ClusterDescription("", tuple(brokers), True), usable, {ORDERS: 10}, {})
    settings = {ORDERS.topic: TopicSettings(2, False, False)}
    found, left = grown([state], settings, room, impatient=impatient)
    assert len(left) == (added is None)
    assert [one.order for one in found] == ([(*state.assignment, *added)] if added else [])
