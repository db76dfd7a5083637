"""What an election is about, frozen: prices, what stands alone, what is left out, what is saved."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from breakglass.services.model import PartitionEvidence
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
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.guarded.conftest import UNHURRIED, Session
from tests.unit.recovery.plans import (
    CLUSTER,
    GONE,
    INTERNAL,
    LOSS,
    SAFE,
    UNPROVEN,
    WAITING,
    named,
)


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


def test_r08_a_ranking_that_was_worked_out_before_says_what_is_unproven() -> None:
    ranking = rank(UNPROVEN)
    assert ranking.unproven
    assert own_consent(SAFE, 2, (), loss_of(SAFE, 2), ranking) == ranking.unproven


def test_a_start_that_would_spare_an_election_is_known() -> None:
    found = about(WAITING, SAFE)
    assert found.spared == {WAITING.partition: "start b5"}


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


def test_a_deleted_topic_stops_it_and_can_not_be_agreed_to_anew(session: Session) -> None:
    (partition,) = session.offline()
    wanted = session.wanted()
    del session.cluster.story.states[partition]
    found = again(session, wanted)
    assert [checked.status for checked in found.changed] == [CheckStatus.DELETED]
    assert found.wanted == ()


def test_a_designee_that_was_fenced_stops_it(session: Session) -> None:
    session.offline()
    wanted = session.wanted()
    session.cluster.story.fenced = {1, 3}
    found = again(session, wanted)
    assert (changed(found), found.wanted) == (["orders-0"], ())
