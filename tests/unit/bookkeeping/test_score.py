"""The score of a drill, from frozen scenes and plays: what is taken off, for what, and how much."""

from dataclasses import replace
from typing import Any

from breakglass.bookkeeping.judge import JudgeFinding, SaidPartition, SavedRecord
from breakglass.bookkeeping.log_files import DiskReading, FolderLog, Name
from breakglass.bookkeeping.producer import ClusterState
from breakglass.bookkeeping.score import (
    DrillPlay,
    DrillScene,
    DrillScore,
    believed,
    best_leaders,
    score,
)
from tests.unit.bookkeeping.logs import ORDERS, log, run, saved

LEDGER: Name = ("ledger", 0)
STALE = log(*run(0, 0, 10), *run(0, 10, 15))
"""Longer, and of an older epoch than `LATER`, from which it parts at 10."""
LATER = log(*run(0, 0, 10), *run(1, 10, 12))
DEAD = log(*run(0, 0, 10), *run(1, 10, 20))
"""On a broker that is down."""
STATE = ClusterState({}, {ORDERS: (3, 1, 2)}, {ORDERS: None})
SCENE = DrillScene(
    DiskReading({ORDERS: {1: LATER, 2: STALE, 3: DEAD}}, {ORDERS: {1, 2}}),
    STATE,
    frozenset({ORDERS}),
    {ORDERS: [1, 2]},
    {ORDERS: {3}},
)
RETURNABLE = replace(SCENE, returnable=frozenset({3}))
TAIL = saved(*run(0, 10, 15))


def left(
    leader: int | None = 1,
    holds: FolderLog = LATER,
    tail: frozenset[SavedRecord] = TAIL,
    **more: Any,
) -> DrillPlay:
    """How a player left `SCENE`; well, unless something says otherwise."""
    after = DiskReading({ORDERS: {leader: holds} if leader is not None else {}}, {})
    return DrillPlay(after, {ORDERS: leader}, {ORDERS: tail}, **more)


def scored(play: DrillPlay, scene: DrillScene = SCENE, best_keys: int | None = 50) -> DrillScore:
    return score(scene, play, best_keys=best_keys, best_commands=3)


def taken(found: DrillScore) -> dict[str, int]:
    """Points by what they were taken off for."""
    points: dict[str, int] = {}
    for deduction in found.deductions:
        points[deduction.what] = points.get(deduction.what, 0) + deduction.points
    return points


def test_the_best_leader_is_of_the_last_written_epoch_not_the_longest() -> None:
    (best,) = best_leaders(SCENE)
    assert (best.leader, best.cut_off, best.held, best.by_itself) == (1, 5, 17, False)


def test_a_fenced_replica_is_no_leader_though_its_records_count() -> None:
    (best,) = best_leaders(replace(SCENE, electable={ORDERS: [2]}))
    assert (best.leader, best.cut_off) == (2, 2)


def test_the_best_play_scores_100() -> None:
    found = scored(left())
    assert (found.points, found.deductions, found.lost, found.left) == (100, (), 0, 0)
    (partition,) = found.partitions
    assert (partition.cut_off, partition.worse) == (5, False)


def test_nothing_done_scores_0() -> None:
    found = scored(left(None))
    assert (found.points, taken(found), found.left, found.lost) == (0, {"offline": 100}, 1, 0)


def test_what_an_election_cut_off_unsaved_is_lost_to_the_record() -> None:
    found = scored(left(tail=saved(*run(0, 10, 12))))
    assert [entry.offset for entry in found.partitions[0].lost] == [12, 13, 14]
    # 60 times 3 of 17 is 10.6, rounded up.
    assert (found.points, taken(found)) == (79, {"lost": 10 + 11})
    assert scored(left(tail=saved(*run(0, 10, 14)))).points == 86, "one record of many"


def test_a_worse_leader_costs_points_though_all_that_it_lacks_is_saved() -> None:
    tail = saved(*run(1, 10, 12))
    assert scored(left(2, STALE, tail)).points == 100
    short = log(*run(0, 0, 10))
    found = scored(left(2, short, saved(*run(0, 10, 15), *run(1, 10, 12))))
    assert (taken(found), found.lost) == ({"leader": 2}, 0)


def test_who_gives_up_a_broker_that_could_be_started_loses_what_it_alone_holds() -> None:
    found = scored(left(), RETURNABLE)
    assert found.lost == 8
    assert taken(found)["lost"] == 10 + 20
    assert scored(left(3, DEAD), RETURNABLE).points == 100


def test_settings_verdicts_time_and_effort_cost_what_they_say() -> None:
    finding = JudgeFinding("unsafe", ORDERS, "SAFE elect b1, which loses 5 records")
    assert taken(scored(left(changed=("a", "b", "c")))) == {"settings": 10}
    assert taken(scored(left(believed=(finding,)))) == {"believed": 5}
    assert taken(scored(left(seconds=659.0))) == {}
    assert taken(scored(left(seconds=660.0))) == {"time": 1}
    assert taken(scored(left(seconds=10_000.0))) == {"time": 5}
    assert taken(scored(left(keys=149, commands=12))) == {}
    assert taken(scored(left(keys=150, commands=13))) == {"effort": 2}
    assert taken(scored(left(keys=9_000, commands=0))) == {"effort": 5}
    assert taken(scored(left(keys=9_000), best_keys=None)) == {}


def test_a_partition_that_had_a_leader_and_has_none_is_left_offline() -> None:
    state = replace(STATE, leaders={ORDERS: None, LEDGER: 2})
    scene = replace(SCENE, state=state)
    assert scored(replace(left(), leaders={ORDERS: 1, LEDGER: 1}), scene).points == 100
    found = scored(replace(left(), leaders={ORDERS: 1, LEDGER: None}), scene)
    assert (found.points, found.harmed, found.left) == (50, (LEDGER,), 1)


def test_a_wrong_verdict_is_believed_by_who_elects_as_it_says() -> None:
    wrong = [JudgeFinding("unsafe", ORDERS, "SAFE"), JudgeFinding("unsafe", None, "no partition")]
    said = [SaidPartition(ORDERS, "SAFE", "elect b1", 1, None, {}, {}, 0)]
    assert believed(wrong, said, {ORDERS: 1}) == (wrong[0],)
    assert believed(wrong, said, {ORDERS: 2}) == ()
    assert believed(wrong, [replace(said[0], designee=None)], {ORDERS: None}) == ()
