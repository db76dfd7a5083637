"""What an election is about, frozen: prices, what stands alone, what is left out, what is saved."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchRequest

from breakglass.services.guard.consent import Price
from breakglass.services.kafka.replicas.list_offsets import PAST_EVERY_LOG
from breakglass.services.model import LogDir, PartitionEvidence, Unknown
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import (
    ElectionSubject,
    Priced,
    Reread,
    RescueSize,
    frozen,
    reread,
    rescue_size,
    subject_of,
)
from breakglass.services.recovery.judgement.assessment import own_consent
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.ranking import rank
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.recovery.triage import Triage
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.guarded.conftest import UNHURRIED, Session
from tests.unit.recovery.plans import (
    BOMB,
    CLUSTER,
    FORK,
    GONE,
    INTERNAL,
    LOSS,
    SAFE,
    UNPROVEN,
    WAITING,
    named,
)
from tests.unit.recovery.replicas import log, offline


def about(*evidence: PartitionEvidence) -> ElectionSubject:
    return subject_of(
        CLUSTER, [one.partition for one in evidence], [assess(one, GONE) for one in evidence]
    )


def test_the_recommended_replica_of_each_is_elected_internal_topics_first() -> None:
    found = about(LOSS, SAFE, INTERNAL)
    assert named(priced.partition for priced in found.wanted) == [
        "__consumer_offsets-0",
        "orders-1",
        "orders-3",
    ]
    assert [priced.target.designee for priced in found.wanted] == [1, 2, 1]


def test_what_only_the_operator_can_decide_is_left_with_the_reason() -> None:
    found = about(FORK, BOMB, SAFE)
    assert named(priced.partition for priced in found.wanted) == ["orders-1"]
    reasons = {str(left.partition): left.reason.partition(": ")[0] for left in found.left}
    assert reasons == {"orders-5": "FORK decide", "orders-8": "BOMB stop b4 NOW"}


def test_what_is_online_or_unread_is_left() -> None:
    found = subject_of(CLUSTER, [SAFE.partition], [])
    assert (found.wanted, [left.partition for left in found.left]) == ((), [SAFE.partition])


def test_each_that_stands_alone_says_why_and_unknown_losses_are_in_no_sum() -> None:
    found = about(SAFE, UNPROVEN, INTERNAL)
    assert (found.known_loss, found.unknown_losses) == (Price(0), 1)
    assert sorted(named(found.why_alone)) == ["__consumer_offsets-0", "orders-6"]
    assert [group.phrase for group in found.groups] == [
        "__consumer_offsets-0 lose 0",
        "orders-6 lose unknown",
        "orders-1 lose 0 and abandon b3",
    ]


def test_r08_a_ranking_that_was_worked_out_before_says_what_is_unproven() -> None:
    ranking = rank(UNPROVEN)
    assert ranking.unproven
    assert own_consent(SAFE, 2, (), loss_of(SAFE, 2), ranking) == ranking.unproven


def test_a_start_that_would_spare_an_election_is_known() -> None:
    found = about(WAITING, SAFE)
    assert found.spared == {WAITING.partition: "start b5"}


def test_without_some_the_others_stay_as_they_were() -> None:
    found = about(LOSS, SAFE).without({LOSS.partition}, "left out by you")
    assert named(priced.partition for priced in found.wanted) == ["orders-1"]
    assert [(str(left.partition), left.reason) for left in found.left] == [
        ("orders-3", "left out by you")
    ]
    assert found.known_loss == Price(0)


def test_what_a_rescue_saves_is_counted_in_records_and_bytes() -> None:
    folder = LogDir("/logs", online=True, size=15_000)
    loser = replace(log(2, (0, 100), (1, 150), hw=100), log_dir=folder)
    size = rescue_size([frozen(offline(log(1, (0, 100), (2, 125), hw=100), loser), 1)])
    assert size == RescueSize(1, 50, 5_000 + 50 * 64)


def test_a_size_that_is_not_told_is_unknown_and_the_records_are_still_counted() -> None:
    size = rescue_size([frozen(LOSS, 1)])
    assert (size.partitions, size.records) == (1, 50)
    assert isinstance(size.size, Unknown)


def test_nothing_is_saved_where_nothing_is_cut_off() -> None:
    assert rescue_size([frozen(SAFE, 2)]) == RescueSize(0, 0, 0)


GREW = ((0, 100), (4, 35))
LED = {"leader": 3, "leader_epoch": 6}


def again(session: Session, wanted: tuple[Priced, ...]) -> Reread:
    return reread(session.read, CLUSTER_ID, wanted, UNHURRIED)


def changed(found: Reread) -> list[str]:
    return [str(checked.partition) for checked in found.changed]


def prices(wanted: Iterable[Priced]) -> list[str]:
    return [str(priced.stake.price) for priced in wanted]


def test_what_has_not_changed_goes_on_as_it_was_agreed_to(session: Session) -> None:
    session.offline(count=2)
    wanted = session.wanted()
    found = again(session, wanted)
    assert [checked.status for checked in found.checked] == [CheckStatus.UNCHANGED] * 2
    assert [priced.target for priced in found.wanted] == [priced.target for priced in wanted]


def test_what_a_silent_replica_reported_before_is_remembered_across_the_consent(
    session: Session,
) -> None:
    (partition,) = session.offline()
    (before,) = session.wanted()
    dead, other, *_ = before.evidence.replicas
    remembered = replace(dead, last_heard=replace(other, broker=3, log_end=70))
    evidence = replace(before.evidence, replicas=(remembered, *before.evidence.replicas[1:]))
    wanted = frozen(evidence, 1)
    found = again(session, (wanted,))
    assert changed(found) == []
    assert [priced.stake.abandons for priced in (wanted, *found.wanted)] == [(), ()]
    session.change(partition, leader_epoch=7)
    found = again(session, (wanted,))
    assert changed(found) == ["orders-0"]
    assert [priced.stake.abandons for priced in found.wanted] == [(3,)]


def test_replicas_that_grew_stop_it_and_cost_what_they_hold_now(session: Session) -> None:
    _, *others = session.offline(count=3)
    wanted = session.wanted()
    for partition in others:
        session.cluster.hold(2, partition, *GREW)
    found = again(session, wanted)
    assert changed(found) == ["orders-1", "orders-2"]
    assert prices(found.wanted) == ["0", "35", "35"]


@pytest.mark.parametrize("count", [1, 2], ids=["of all", "beside another"])
def test_a_partition_that_is_led_meanwhile_stops_no_other(session: Session, count: int) -> None:
    healed, *_ = session.offline(count=count)
    wanted = session.wanted()
    session.change(healed, **LED)
    found = again(session, wanted)
    online, *others = [checked.status for checked in found.checked]
    assert (online, set(others) - {CheckStatus.UNCHANGED}) == (CheckStatus.ONLINE, set())
    assert found.wanted[0].target == wanted[0].target, "the run finds it online"
    assert found.wanted[0].stake == wanted[0].stake, "at the price that was agreed to"


def test_nothing_is_to_be_rescued_of_what_is_led_meanwhile(session: Session) -> None:
    """Its replicas follow a leader by now: what was to be saved may be cut off already."""
    (healed,) = session.offline()
    session.cluster.hold(1, healed, (0, 100), (2, 25))
    session.cluster.hold(2, healed, (0, 100), (1, 50))
    wanted = session.wanted()
    session.change(healed, **LED)
    found = again(session, wanted)
    assert (rescue_size(wanted).records, rescue_size(found.wanted).records) == (50, 0)
    rescue = RescueChoice(to=session.state / "rescue")
    election = session.election(found.wanted, rescue=rescue)
    (outcome,) = election.run(election.phrases)
    assert outcome.result is RecoveryResult.ALREADY_ONLINE


def test_a_leader_epoch_that_moved_ranks_it_anew_and_goes_on(session: Session) -> None:
    (partition,) = session.offline()
    wanted = session.wanted()
    session.change(partition, leader_epoch=9)
    found = again(session, wanted)
    assert changed(found) == []
    assert [one.target.leader_epoch for one in (*wanted, *found.wanted)] == [5, 9]


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
    assert (changed(found), found.wanted) == (["orders-0"], ())


def test_who_is_waited_for_is_reported(session: Session) -> None:
    """The wait ends on request, once b2 alone is waited for."""
    session.offline()
    wanted = session.wanted()
    session.cluster.brokers[2].hung = True
    awaited: list[frozenset[int]] = []

    def report(reading: Triage) -> None:
        awaited.append(frozenset(reading.evidence.awaited))

    found = reread(
        session.read,
        CLUSTER_ID,
        wanted,
        UNHURRIED,
        report=report,
        stop=lambda: frozenset({2}) in awaited,
    )
    assert frozenset({2}) in awaited
    assert changed(found) == ["orders-0"]


def test_contents_are_not_read_again_and_their_price_stands(session: Session) -> None:
    (orders,) = session.offline()
    session.cluster.hold(1, orders, (0, 100)).corrupt_at = 40
    wanted = session.wanted()
    asked = len(session.cluster.brokers[1].requests(FetchRequest))
    found = again(session, wanted)
    assert changed(found) == []
    assert (prices(wanted), prices(found.wanted)) == (["60"], ["60"])
    later = session.cluster.brokers[1].requests(FetchRequest)[asked:]
    offsets = [
        partition.fetch_offset for each in later for t in each.topics for partition in t.partitions
    ]
    assert set(offsets) <= {PAST_EVERY_LOG}
