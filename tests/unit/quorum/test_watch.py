"""A cluster that comes back, judged by the plan: what is awaited, and what went wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from breakglass.services.errors import Unreachable
from breakglass.services.model import PartitionState, TopicPartition, Unknown, kafka_id
from breakglass.services.quorum.watch import (
    ReturnProgress,
    judge_return,
    look_at_return,
    looked_for,
)
from breakglass.services.snapshot import Broker, ClusterDescription, ClusterSnapshot, Quorum, Voter
from tests.kit.deadlines import ample
from tests.unit.quorum.clusters import LEDGER, ORDERS

PARTITION = TopicPartition("orders", 0)
PLAN: dict[str, Any] = {
    "cluster_id": "c",
    "epoch": 1001,
    "request": {"voter": {"node": 102}},
    "nodes": [
        {"name": "c102", "node": 102, "broker": False},
        {"name": "b1", "node": 1, "broker": True},
        {"name": "b2", "node": 2, "broker": True},
    ],
    "ends": {"orders-0": {"topic_id": kafka_id(ORDERS), "end": 67}},
    "lost": {"strays": [{"path": "/data/1/old-0", "why": "the copy has another topic"}]},
    "strays_before": ["/data/1/ancient-0.0a-stray"],
}
STATE = PartitionState(PARTITION, ORDERS, 1, 5, (1, 2), (1, 2), (), ())
BACK = ClusterSnapshot(
    ClusterDescription("c", tuple(Broker(one, "h", 1, None, False) for one in (1, 2)), True),
    Quorum(102, 1002, 9, (Voter(102, 9, 0),)),
    (STATE,),
    0,
)


def judged(seen: ClusterSnapshot = BACK, end: int | Unknown = 67, *strays: str) -> ReturnProgress:
    return judge_return(PLAN, seen, {PARTITION: end}, {one: one for one in strays})


def test_q16_a_cluster_is_back_if_nothing_is_awaited() -> None:
    found = judged()
    assert (found.wrong, found.awaited, len(found.confirmed)) == ((), (), 4)
    found = judged(BACK, 80)
    assert (found.wrong, found.awaited) == ((), ())


def test_q16_another_leader_or_an_epoch_that_was_used_is_wrong() -> None:
    for quorum in (
        Quorum(101, 1002, 9, (Voter(101, 9, 0),)),
        Quorum(102, 1001, 9, (Voter(102, 9, 0),)),
    ):
        assert judged(replace(BACK, quorum=quorum)).wrong != ()
    grown = Quorum(103, 1005, 9, (Voter(102, 9, 0), Voter(103, 9, 0)))
    found = judged(replace(BACK, quorum=grown))
    assert (found.wrong, found.awaited) == ((), ())
    silent = judged(replace(BACK, quorum=Unknown("no answer")))
    assert (silent.wrong, len(silent.awaited)) == ((), 1)


def test_q16_a_log_that_ends_before_its_longest_copy_on_disk_is_wrong() -> None:
    assert len(judged(BACK, 66).wrong) == 1
    assert judged(BACK, Unknown("no answer")).wrong == ()


def test_q21_a_log_that_begins_later_than_retention_explains_is_wrong() -> None:
    """The newest record on disk is an hour old."""
    now, hour = 1_700_000_000_000, 3_600_000
    ends = {"orders-0": {**PLAN["ends"]["orders-0"], "start": 7, "newest_ms": now - hour}}

    def wrong(start: int, **settings: object) -> tuple[str, ...]:
        valid = {name.replace("_", "."): str(value) for name, value in settings.items()}
        kept = {"orders": valid} if settings else {}
        plan = {**PLAN, "ends": ends}
        return judge_return(plan, BACK, {}, {}, {PARTITION: start}, kept, now).wrong

    assert wrong(7) == wrong(7, retention_ms=-1) == ()
    for settings in ({}, {"retention_ms": 2 * hour}, {"retention_ms": -1, "retention_bytes": 9}):
        (said,) = wrong(67, **settings)
        assert "60 records are gone" in said
    assert wrong(67, retention_ms=hour // 2) == wrong(20, retention_ms=2 * hour) == ()
    assert wrong(20) == wrong(20, retention_ms=-1, retention_bytes=9) == ()
    assert len(wrong(20, retention_ms=-1, retention_bytes=-1)) == 1
    assert len(wrong(20, retention_ms=hour, cleanup_policy="compact")) == 1


def test_q16_the_log_of_another_topic_of_the_name_is_not_compared() -> None:
    other = replace(BACK, partitions=(replace(STATE, topic_id=LEDGER),))
    found = judged(other, 5)
    assert (found.wrong, len(found.awaited)) == ((), 1)


def test_q16_a_new_stray_is_wrong_unless_the_plan_left_it() -> None:
    assert judged(BACK, 67, "/data/1/ancient-0.0a-stray", "/data/1/old-0.0b-stray").wrong == ()
    assert len(judged(BACK, 67, "/data/1/orders-0.0c-stray").wrong) == 1


def test_q16_brokers_isrs_leaders_and_topics_are_awaited() -> None:
    fenced = ClusterDescription("c", (Broker(1, "h", 1, None, False),), True)
    assert judged(replace(BACK, description=fenced)).awaited == (
        "Brokers that are fenced or not registered: b2.",
    )
    for state in (replace(STATE, isr=(1,)), replace(STATE, leader=None)):
        found = judged(replace(BACK, partitions=(state,)))
        assert (found.wrong, len(found.awaited)) == ((), 1)
    assert len(judged(replace(BACK, partitions=())).awaited) == 1


def test_q20_brokers_whose_log_directories_are_elsewhere_are_named(tmp_path: Path) -> None:
    class Unheard:
        def snapshot(self, *_: object, **__: object) -> None:
            raise Unreachable("no broker answers")

    own, others = tmp_path / "1", tmp_path / "2"
    for folder in (own, others):
        (folder / "orders-0.0c-stray").mkdir(parents=True)
        (folder / "meta.properties").write_text("version=1\nnode.id=1\n")
    nodes = [{"name": "c102", "node": 102, "broker": False, "data": []}]
    for number, folder in ((1, own), (2, others), (3, tmp_path / "3")):
        data = [str(folder)]
        nodes.append({"name": f"b{number}", "node": number, "broker": True, "data": data})
    client: Any = Unheard()
    found = look_at_return(client, {**PLAN, "nodes": nodes}, ample())
    assert [str(own) in one for one in found.wrong] == [True]
    assert found.unseen == ("b2", "b3")


def test_q20_strays_are_looked_for_where_brokers_have_their_logs(tmp_path: Path) -> None:
    """The plan read copies; b1 made a stray since, and had one of another name there before."""
    copy, own = tmp_path / "copy", tmp_path / "own"
    for folder in (copy, own):
        (folder / "ancient-0.0a-stray").mkdir(parents=True)
        (folder / "meta.properties").write_text("version=1\nnode.id=1\n")
    (own / "orders-0.0c-stray").mkdir()
    nodes = [{"name": "b1", "node": 1, "broker": True, "data": [str(copy)]}]
    before = [f"{copy}/ancient-0.0a-stray"]
    plan = {**PLAN, "nodes": nodes, "strays_before": before}
    strays, unseen = looked_for(plan, {1: [own]})
    assert (unseen, judge_return(plan, BACK, {}, strays).wrong) == (
        [],
        (f"{own}/orders-0.0c-stray is new: stop that broker; the plan did not expect it.",),
    )
    assert looked_for(plan, {1: [own, tmp_path / "elsewhere"]})[1] == ["b1"]
    assert looked_for(plan, {1: [tmp_path / "elsewhere"]}) == ({}, ["b1"])
