"""The look between consent and execution: what it lets through, and what it stops."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchRequest

from breakglass.services.errors import WrongCluster
from breakglass.services.kafka.replicas.epoch_ends import PAST_EVERY_LOG
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.guarded.election_quote import Priced, frozen
from breakglass.services.recovery.guarded.reread import Reread, reread
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import rescue_size
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.recovery.triage import Triage
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.guarded.conftest import Session


def again(session: Session, wanted: tuple[Priced, ...]) -> Reread:
    return reread(session.read, CLUSTER_ID, wanted, 2.0)


def first_change(found: Reread) -> str:
    """The first partition that changed and how, with the number of further ones; empty: none."""
    if not found.changed:
        return ""
    first, *others = found.changed
    more = f" (and {len(others):,} more changed)" if others else ""
    return f"{first.partition}: {first.reason}{more}"


def test_what_has_not_changed_goes_on_as_it_was_agreed_to(session: Session) -> None:
    session.offline(count=2)
    wanted = session.wanted()
    found = again(session, wanted)
    assert first_change(found) == ""
    assert [checked.status for checked in found.checked] == [CheckStatus.UNCHANGED] * 2
    assert [priced.target for priced in found.wanted] == [priced.target for priced in wanted]


def test_what_a_silent_replica_told_before_is_remembered_across_the_consent(
    session: Session,
) -> None:
    (partition,) = session.offline()
    (before,) = session.wanted()
    dead = before.evidence.replicas[0]
    told = replace(before.evidence.replicas[1], broker=3, log_end=70)
    remembered = replace(dead, last_heard=told)
    evidence = replace(before.evidence, replicas=(remembered, *before.evidence.replicas[1:]))
    wanted = frozen(evidence, 1)
    assert wanted.stake.abandons == ()
    found = again(session, (wanted,))
    assert first_change(found) == ""
    assert [priced.stake.abandons for priced in found.wanted] == [()]
    state = session.cluster.story.states[partition]
    session.cluster.story.states[partition] = replace(state, leader_epoch=state.leader_epoch + 2)
    assert re.search("would also abandon b3", first_change(again(session, (wanted,))))


def test_a_replica_that_grew_is_told_and_stops_it(session: Session) -> None:
    first, second = session.offline(count=2)
    wanted = session.wanted()
    session.cluster.hold(2, second, (0, 100), (4, 35))
    found = again(session, wanted)
    (changed,) = found.changed
    assert changed.partition == second
    assert "the log end of b2 was 70 and is 135" in changed.reason
    assert re.search("orders-1: the log end of b2 was 70 and is 135", first_change(found))
    prices = {priced.partition: str(priced.stake.price) for priced in found.wanted}
    assert prices == {first: "0", second: "35"}, "what consenting anew would cost"


def test_many_changes_are_told_by_the_first_and_their_number(session: Session) -> None:
    partitions = session.offline(count=3)
    wanted = session.wanted()
    for partition in partitions:
        session.cluster.hold(1, partition, (0, 40))
    assert re.search(r"^orders-0: .* \(and 2 more changed\)", first_change(again(session, wanted)))


def test_a_partition_that_is_led_meanwhile_stops_nobody(session: Session) -> None:
    healed, _ = session.offline(count=2)
    wanted = session.wanted()
    state = session.cluster.story.states[healed]
    session.cluster.story.states[healed] = replace(state, leader=3, leader_epoch=6)
    found = again(session, wanted)
    assert first_change(found) == ""
    assert [checked.status for checked in found.checked] == [
        CheckStatus.ONLINE,
        CheckStatus.UNCHANGED,
    ]
    assert found.wanted[0].target == wanted[0].target, "the run finds it online"
    assert found.wanted[0].stake == wanted[0].stake, "at the price that was agreed to"


def test_all_of_them_may_be_led_by_now(session: Session) -> None:
    (healed,) = session.offline()
    wanted = session.wanted()
    state = session.cluster.story.states[healed]
    session.cluster.story.states[healed] = replace(state, leader=3, leader_epoch=6)
    (led,) = again(session, wanted).wanted
    assert (led.target, led.stake) == (wanted[0].target, wanted[0].stake)


def test_nothing_is_to_be_rescued_of_what_is_led_meanwhile(session: Session) -> None:
    """Its replicas follow a leader by now: what was to be saved may be cut off already."""
    (healed,) = session.offline()
    session.cluster.hold(1, healed, (0, 100), (2, 25))
    session.cluster.hold(2, healed, (0, 100), (1, 50))
    wanted = session.wanted()
    state = session.cluster.story.states[healed]
    session.cluster.story.states[healed] = replace(state, leader=3, leader_epoch=6)
    found = again(session, wanted)
    assert (rescue_size(wanted).records, rescue_size(found.wanted).records) == (50, 0)
    rescue = RescueChoice(to=session.state / "rescue")
    phrase = "orders-0 lose 50 and abandon b3"
    (outcome,) = session.election(found.wanted, rescue=rescue).run([phrase])
    assert outcome.result is RecoveryResult.ALREADY_ONLINE


def test_a_leader_epoch_that_moved_ranks_it_anew_and_goes_on(session: Session) -> None:
    (partition,) = session.offline()
    wanted = session.wanted()
    state = session.cluster.story.states[partition]
    session.cluster.story.states[partition] = replace(state, leader_epoch=9)
    found = again(session, wanted)
    assert first_change(found) == ""
    (now,) = found.wanted
    assert (wanted[0].target.leader_epoch, now.target.leader_epoch) == (5, 9)


def test_a_deleted_topic_stops_it_and_can_not_be_agreed_to_anew(session: Session) -> None:
    (partition,) = session.offline()
    wanted = session.wanted()
    del session.cluster.story.states[partition]
    found = again(session, wanted)
    assert [checked.status for checked in found.changed] == [CheckStatus.GONE]
    assert found.wanted == ()


def test_a_designee_that_was_fenced_stops_it(session: Session) -> None:
    session.offline()
    wanted = session.wanted()
    session.cluster.story.fenced = {1, 3}
    found = again(session, wanted)
    assert "b1 was eligible and is barred" in found.changed[0].reason
    assert found.wanted == ()


def test_another_cluster_is_refused(session: Session) -> None:
    session.offline()
    wanted = session.wanted()
    session.cluster.story.cluster_id = "another"
    with pytest.raises(WrongCluster, match="lead to cluster another now"):
        again(session, wanted)


def test_who_is_waited_for_is_told(session: Session) -> None:
    session.offline()
    wanted = session.wanted()
    session.cluster.brokers[2].hung = True
    told: list[Triage] = []
    found = reread(session.read, CLUSTER_ID, wanted, 1.5, report=told.append)
    assert told[0].evidence.awaited == {2}
    assert "the log end of b2 was 70 and is unknown" in found.changed[0].reason


def test_contents_are_not_read_again_and_their_price_stands(session: Session) -> None:
    (orders,) = session.offline()
    session.cluster.hold(1, orders, (0, 100)).corrupt_at = 40
    wanted = session.wanted(designee=1)
    assert [str(priced.stake.price) for priced in wanted] == ["60"]
    asked = len(session.cluster.brokers[1].requests(FetchRequest))
    found = again(session, wanted)
    assert first_change(found) == ""
    assert [str(priced.stake.price) for priced in found.wanted] == ["60"]
    later = session.cluster.brokers[1].requests(FetchRequest)[asked:]
    offsets = [
        partition.fetch_offset for each in later for t in each.topics for partition in t.partitions
    ]
    assert set(offsets) <= {PAST_EVERY_LOG}


def test_a_log_that_grew_is_refused_whatever_was_read_of_it(session: Session) -> None:
    (orders,) = session.offline()
    session.cluster.hold(1, orders, (0, 100)).corrupt_at = 40
    wanted = session.wanted(designee=1)
    session.cluster.hold(1, orders, (0, 110)).corrupt_at = 40
    assert re.search("the log end of b1 was 100 and is 110", first_change(again(session, wanted)))
