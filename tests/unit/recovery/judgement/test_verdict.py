"""One word and one action for each partition, rule by rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from breakglass.services.model import (
    EpochHistory,
    LogDir,
    PartitionEvidence,
    Reassignment,
    ReplicaLog,
    Role,
    Silent,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import Assessment, Verb, Verdict
from breakglass.services.recovery.judgement.eligibility import ReplicaStanding, eligibility
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.snapshot import Quorum
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import (
    HEALTHY,
    PLAIN,
    log,
    offline,
    silent,
    without_epochs,
)

LAST = Role.LAST_KNOWN_ELR
LEADERLESS = Quorum(leader=None, leader_epoch=7, high_watermark=9, voters=())


def without(*gone: int) -> Circumstances:
    """The same as `HEALTHY`, with these brokers declared gone."""
    return replace(HEALTHY, ruled_out=dict.fromkeys(gone, "declared gone"))


def judged(*replicas: ReplicaLog, circumstances: Circumstances = HEALTHY) -> Assessment:
    return assess(offline(*replicas), circumstances)


@pytest.mark.parametrize(
    ("replicas", "verdict", "action", "designee", "loses"),
    [
        pytest.param(
            [silent(1, role=LAST), log(2, (0, 100)), log(3, (0, 90))],
            Verdict.WAIT, "start b1", 2, 0,
            id="the last leader is dead",
        ),
        pytest.param(
            [silent(1, role=Role.ELR), log(2, (0, 100))],
            Verdict.WAIT, "start b1", 2, 0,
            id="an ELR member is dead",
        ),
        pytest.param(
            [silent(1), log(2, (0, 100)), log(3, (0, 90))],
            Verdict.WAIT, "start b1", 2, 0,
            id="a stale replica that nobody has heard may hold more",
        ),
        pytest.param(
            [log(2, (0, 100)), log(3, (0, 90))],
            Verdict.SAFE, "elect b2", 2, 0,
            id="every replica was heard and nothing is lost",
        ),
        pytest.param(
            [log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 125), hw=100)],
            Verdict.LOSS, "elect b1", 1, 50,
            id="the shorter one of the later epoch wins and cuts off a tail",
        ),
        pytest.param(
            [log(1, (0, 1000), hw=1000), log(2, (0, 1000), hw=1000), log(3, (0, 10), (5, 12))],
            Verdict.FORK, "decide", None, None,
            id="an earlier bad unclean election",
        ),
        pytest.param(
            [log(1, role=LAST), log(2, (0, 100))],
            Verdict.BOMB, "stop b1 NOW", 2, 0,
            id="the last leader is back with a new disk",
        ),
        pytest.param(
            [silent(1), silent(2)],
            Verdict.STUCK, "no answer", None, None,
            id="nothing answers and nobody is waited for",
        ),
    ],
)  # fmt: skip
def test_each_partition_gets_one_word_one_action_and_a_price(
    replicas: list[ReplicaLog],
    verdict: Verdict,
    action: str,
    designee: int | None,
    loses: int | None,
) -> None:
    found = judged(*replicas)
    assert (found.verdict, str(found.action), found.designee) == (verdict, action, designee)
    assert (found.loss and found.loss.total) == loses
    assert found.reasons


def test_r01_a_live_member_of_h_bars_every_other_election_until_it_is_fenced() -> None:
    found = judged(log(1, (2, 90)), log(2, (1, 100), hw=100, role=LAST))
    assert found.hazards == (2,)
    assert not found.automatable
    assert (
        "the controller may elect b2 instead: stop b2, wait until it is fenced, read again"
        in found.barriers
    )


def test_r01_the_designee_itself_is_no_hazard_and_the_controller_elects_it() -> None:
    found = judged(log(1, (0, 90), (2, 110), role=LAST), log(2, (0, 90), (1, 100), hw=90))
    assert (found.verdict, str(found.action)) == (Verdict.WAIT, "await b1")
    assert (found.designee, found.hazards, found.automatable) == (1, (), True)


def test_r01_a_clean_successor_with_a_shorter_uncommitted_tail_is_awaited_not_stopped() -> None:
    """b1 was elected from the ISR and died before it wrote; b2's tail was never committed."""
    found = judged(log(1, (0, 100), role=Role.ISR), log(2, (0, 150), hw=100))
    assert (found.verdict, str(found.action)) == (Verdict.WAIT, "await b1")
    assert found.designee is None
    assert not found.automatable


def test_r01_a_member_whose_fencing_is_unknown_is_a_hazard() -> None:
    untold = Unknown("not told")
    found = judged(silent(1, role=Role.ISR, fenced=untold), log(2, (0, 9)))
    assert found.hazards == (1,)
    assert not found.automatable


def test_r01_a_member_on_an_offline_directory_cannot_be_elected_and_is_no_hazard() -> None:
    found = judged(silent(1, role=LAST, fenced=False, log_dir_online=False), log(2, (0, 9)))
    assert (found.verdict, found.hazards, found.automatable) == (Verdict.LOSS, (), True)
    assert found.reasons[0] == (
        "b1 may hold more than b2: repair its log directory (or declare it gone)"
    )
    assert any("log directory that is offline" in reason for reason in found.reasons)


@pytest.mark.parametrize("role", [Role.ISR, Role.ELR, LAST])
def test_r02_a_successor_back_empty_is_a_bomb(role: Role) -> None:
    found = judged(log(1, role=role), log(2, (0, 100)), silent(3))
    assert (found.verdict, str(found.action)) == (Verdict.BOMB, "stop b1 NOW")
    assert found.reasons == (
        "b1 is back EMPTY and b2 holds records: the controller may elect it at any moment, so stop "
        "b1 NOW, wait until it is fenced, read again",
    )
    assert found.forecast.broker == 1
    assert not found.automatable


def test_r02_what_bars_the_election_of_a_bomb_is_kept_though_one_sentence_tells_it() -> None:
    found = judged(log(1, role=LAST), log(2, (0, 100)))
    assert found.barriers[1:] == (
        "the controller may elect b1 instead: stop b1, wait until it is fenced, read again",
    )


def test_r02_a_last_leader_below_another_replica_is_a_bomb() -> None:
    found = judged(log(1, (0, 100), role=LAST), log(2, (0, 150), hw=100))
    assert (found.verdict, str(found.action)) == (Verdict.BOMB, "stop b1 NOW")


def test_r02_a_successor_without_records_known_as_committed_is_a_bomb_whatever_its_role() -> None:
    found = judged(log(1, (0, 100), role=Role.ISR), log(2, (0, 150), hw=120))
    assert (found.verdict, str(found.action)) == (Verdict.BOMB, "stop b1 NOW")
    assert "lacks records that b2 knows as committed" in found.reasons[0]


def test_r02_a_successor_of_a_later_epoch_on_a_committed_fork_is_a_bomb() -> None:
    """Stopping it keeps both sides until the operator has decided."""
    found = judged(log(1, (0, 10), (5, 12), role=LAST), log(2, (0, 1000), hw=1000))
    assert (found.verdict, str(found.action), found.designee) == (Verdict.BOMB, "stop b1 NOW", None)


def test_r02_a_bomb_that_is_still_fenced_goes_off_when_it_is_unfenced() -> None:
    found = judged(log(1, role=LAST, fenced=True), log(2, (0, 100)))
    assert (found.verdict, str(found.action)) == (Verdict.BOMB, "stop b1 NOW")
    assert "as soon as it is unfenced" in found.reasons[0]


def test_r02_empty_while_nobody_else_can_be_read_is_a_bomb() -> None:
    found = judged(log(1, role=LAST), silent(2), silent(3))
    assert (found.verdict, str(found.action)) == (Verdict.BOMB, "stop b1 NOW")


def test_r02_a_partition_that_was_never_written_is_none() -> None:
    found = judged(log(1, role=LAST), log(2), log(3))
    assert (found.verdict, str(found.action), found.automatable) == (
        Verdict.WAIT,
        "await b1",
        True,
    )


def test_r02_a_stopped_bomb_is_not_waited_for_when_it_was_ruled_out() -> None:
    """Fenced and silent it looks like any last leader: only memory tells."""
    stopped = silent(1, role=LAST), log(2, (0, 100))
    assert judged(*stopped).verdict is Verdict.WAIT
    remembered = replace(HEALTHY, ruled_out={1: "came back EMPTY at 10:45"})
    found = judged(*stopped, circumstances=remembered)
    assert (found.verdict, str(found.action)) == (Verdict.SAFE, "elect b2")
    assert "b1: came back EMPTY at 10:45" in found.reasons


def test_r02_a_ruled_out_broker_that_runs_is_still_a_bomb() -> None:
    remembered = replace(HEALTHY, ruled_out={1: "declared lost"})
    found = judged(log(1, role=LAST), log(2, (0, 100)), circumstances=remembered)
    assert found.verdict is Verdict.BOMB


def test_waiting_names_every_broker_that_would_do() -> None:
    found = judged(silent(1), silent(2, role=Role.ELR), silent(3, role=Role.ELR), log(4, (0, 9)))
    assert str(found.action) == "start b2"
    assert found.restorers == (2, 3)


def test_a_partition_worth_waiting_for_may_still_be_elected_on_consent() -> None:
    found = judged(silent(1, role=LAST), log(2, (0, 100)))
    assert (found.verdict, found.designee, found.automatable) == (Verdict.WAIT, 2, True)


def test_a_fenced_broker_that_runs_is_to_be_reconnected() -> None:
    found = judged(log(1, (0, 100), role=Role.ELR, fenced=True), log(2, (0, 90)))
    assert (found.verdict, str(found.action)) == (Verdict.WAIT, "reconnect b1")


def test_several_last_known_members_are_not_waited_for_as_the_controller_elects_none() -> None:
    found = judged(silent(1, role=LAST), silent(2, role=LAST), log(3, (0, 9)))
    assert (found.restorers, found.unheard) == ((), (1, 2))
    assert judged(log(1, role=LAST), log(2, role=LAST), log(3, (0, 9))).restorers == ()


def test_a_member_of_the_elr_comes_before_the_last_leader() -> None:
    found = judged(silent(1, role=LAST), silent(2, role=Role.ELR), log(3, (0, 9)))
    assert str(found.action) == "start b2"


def test_waiting_beats_what_would_stop_an_election() -> None:
    evidence = offline(
        silent(1, role=Role.ELR), log(2, (0, 9)), reassignment=Reassignment((4,), ())
    )
    found = assess(evidence, HEALTHY)
    assert (found.verdict, str(found.action)) == (Verdict.WAIT, "start b1")
    assert (found.best, found.designee, found.automatable) == (2, None, False)
    assert "a reassignment is under way" in found.barriers


def test_r08_an_unproven_order_is_shown_and_not_automated() -> None:
    found = judged(log(1, (5, 100), hw=100), without_epochs(2, 150))
    assert (found.verdict, found.designee, found.automatable) == (Verdict.LOSS, 1, False)
    assert "epoch unproven: b2: READ on the topic is missing" in found.barriers
    assert found.loss is not None
    assert isinstance(found.loss.total, Unknown)


def test_r08_unknown_epochs_with_equal_ends_may_be_automated_at_an_unknown_loss() -> None:
    found = judged(without_epochs(1, 100), without_epochs(2, 100))
    assert found.automatable
    assert found.reasons[0] == "the loss is unknown: b2: READ on the topic is missing"


def test_r09_a_fork_is_shown_with_its_price_and_never_automated() -> None:
    found = judged(log(1, (0, 1000), hw=990), log(3, (0, 10), (5, 12), hw=12))
    assert found.verdict is Verdict.FORK
    assert not found.automatable
    assert (found.designee, found.loss, found.best) == (None, None, 3)
    price = found.loss_of(3).records
    assert (price.committed, price.uncommitted) == (980, 10)
    assert "past offset 10" in found.reasons[0]


def test_r09_a_divergence_above_every_high_watermark_is_no_fork() -> None:
    found = judged(log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 125), hw=100))
    assert (found.verdict, found.automatable) == (Verdict.LOSS, True)


def test_r09_an_unknown_high_watermark_on_a_cut_tail_is_left_to_the_operator() -> None:
    why = Unknown("high watermark 0 after kill -9")
    found = judged(log(2, (0, 100), (1, 150), hw=why), log(1, (0, 100), (2, 125), hw=100))
    assert (found.verdict, found.automatable) == (Verdict.LOSS, False)
    assert "unknown if the lost records are committed" in found.barriers[0]


def test_r09_an_unknown_high_watermark_matters_not_where_nothing_is_cut() -> None:
    why = Unknown("high watermark 0 after kill -9")
    found = judged(log(1, (0, 100), hw=why), log(2, (0, 90), hw=why))
    assert (found.verdict, found.automatable) == (Verdict.SAFE, True)


def test_r09_committed_records_on_a_fenced_replica_are_lost_by_hand_only() -> None:
    found = judged(log(1, (0, 100)), log(2, (0, 150), fenced=True))
    assert (found.verdict, str(found.action)) == (Verdict.LOSS, "elect b1")
    assert found.barriers == ("b2 holds committed records that b1 lacks",)


def test_r11_records_known_to_be_gone_make_a_loss_of_nothing_readable() -> None:
    found = assess(offline(log(1, (0, 100)), silent(2), floor=125), without(2))
    assert (found.verdict, found.loss and found.loss.total) == (Verdict.LOSS, 0)
    assert found.unread.at_least == 25
    assert found.reasons[0] == "at least 25 records are in no readable replica (group billing)"


def test_r12_a_reassignment_under_way_stops_everything() -> None:
    evidence = offline(log(1, (0, 9)), log(2, (0, 9)), reassignment=Reassignment((4,), (2,)))
    found = assess(evidence, HEALTHY)
    assert (found.verdict, str(found.action)) == (Verdict.STUCK, "reassignment")
    assert not found.automatable


def test_r12_an_unknown_reassignment_is_not_automated() -> None:
    evidence = offline(log(1, (0, 9)), reassignment=Unknown("DESCRIBE on the cluster is missing"))
    found = assess(evidence, HEALTHY)
    assert (found.verdict, found.automatable) == (Verdict.SAFE, False)


def test_r12_an_unregistered_broker_in_the_assignment_stops_everything() -> None:
    found = assess(offline(log(1, (0, 9)), silent(2), unregistered=(2,)), HEALTHY)
    assert (found.verdict, str(found.action)) == (Verdict.STUCK, "unregistered")
    assert "b2" in found.reasons[0]


def test_r12_an_unregistered_last_leader_is_not_waited_for() -> None:
    evidence = offline(log(1, (0, 9)), silent(3, role=LAST), unregistered=(3,))
    assert assess(evidence, HEALTHY).verdict is Verdict.STUCK


def test_r14_where_unclean_election_is_on_it_says_who_would_win_at_any_moment() -> None:
    unclean = replace(PLAIN, unclean_election=True)
    evidence = offline(log(1, (0, 50)), log(2, (0, 90)), settings=unclean)
    found = assess(evidence, HEALTHY)
    assert found.forecast.broker == 1
    assert (
        "unclean.leader.election.enable=true: the first live replica of the assignment: the "
        "controller may elect b1 by itself at any moment"
    ) in found.reasons


def test_r14_where_it_is_off_the_controller_elects_nobody() -> None:
    assert judged(log(1, (0, 50)), silent(2, role=LAST)).forecast.broker is None


def test_r14_an_unread_setting_leaves_the_forecast_open_with_the_reason() -> None:
    untold = replace(PLAIN, unclean_election=Unknown("DESCRIBE_CONFIGS is missing"))
    found = assess(offline(log(1, (0, 9)), settings=untold), HEALTHY)
    assert found.forecast.broker is None
    assert "DESCRIBE_CONFIGS is missing" in found.forecast.reason


def test_r15_a_partition_waits_for_unfenced_replicas_until_the_deadline() -> None:
    replicas = log(1, (0, 9)), silent(2, fenced=False)
    early = judged(*replicas, circumstances=replace(HEALTHY, deadline_passed=False))
    assert not early.automatable
    assert early.heard == (1, 2)
    assert any("b2 may still answer" in barrier for barrier in early.barriers)
    assert judged(*replicas).automatable


def test_r15_a_complete_partition_goes_at_once() -> None:
    early = replace(HEALTHY, deadline_passed=False)
    found = judged(log(1, (0, 9)), silent(2), circumstances=early)
    assert found.automatable


def test_r15_no_answer_at_all_is_stuck() -> None:
    found = judged(silent(1), silent(2, fenced=False))
    assert (found.verdict, str(found.action)) == (Verdict.STUCK, "no answer")
    assert found.reasons[0] == "no replica answers: start one of b1, b2"


def test_r16_a_silent_unfenced_replica_is_never_recommended() -> None:
    found = judged(silent(1, fenced=False), log(2, (0, 9)))
    assert found.designee == 2
    assert isinstance(found.loss_of(1).total, Unknown)


def test_r16_replicas_that_cannot_be_chosen_leave_nobody_with_each_reason() -> None:
    found = judged(log(1, (0, 9), fenced=True), silent(2, fenced=False))
    assert (found.verdict, str(found.action)) == (Verdict.STUCK, "none eligible")
    assert "b1 is fenced" in found.reasons[0]
    assert "loss unknown: b2 does not answer" in found.reasons[0]


def test_r16_a_winner_whose_fencing_is_unknown_is_not_automated() -> None:
    found = judged(log(1, (0, 9), fenced=Unknown("not told")))
    assert (found.verdict, found.designee, found.automatable) == (Verdict.SAFE, 1, False)


def test_r17_internal_topics_never_go_in_bulk() -> None:
    found = assess(offline(log(1, (0, 9)), topic="__consumer_offsets"), HEALTHY)
    assert found.automatable


def test_r20_without_a_quorum_no_election_can_work_and_it_is_said_first() -> None:
    lost = replace(HEALTHY, quorum=LEADERLESS)
    found = judged(silent(1, role=LAST), log(2, (0, 9)), circumstances=lost)
    assert (found.verdict, str(found.action)) == (Verdict.STUCK, "no quorum")
    assert not found.automatable
    assert found.forecast.broker is None


def test_r20_a_quorum_that_does_not_answer_is_none() -> None:
    silent_quorum = replace(HEALTHY, quorum=Silent("the controller quorum does not answer"))
    found = judged(log(1, (0, 9)), circumstances=silent_quorum)
    assert (found.verdict, str(found.action)) == (Verdict.STUCK, "no quorum")
    assert not found.automatable
    assert found.reasons == (
        "the controller quorum does not answer, so no election can work: restore it first",
    )


def test_r20_without_a_quorum_a_bomb_is_named_before_it_is_restored() -> None:
    lost = replace(HEALTHY, quorum=LEADERLESS)
    found = judged(log(1, role=LAST), log(2, (0, 9)), circumstances=lost)
    assert found.verdict is Verdict.STUCK
    assert "before that stop b1" in found.reasons[0]


def test_r20_an_unread_quorum_is_said_and_bars_nothing() -> None:
    untold = replace(HEALTHY, quorum=Unknown("DESCRIBE on the cluster is missing"))
    found = judged(log(1, (0, 9)), circumstances=untold)
    assert (found.verdict, found.automatable) == (Verdict.SAFE, True)
    assert "quorum unknown: DESCRIBE on the cluster is missing" in found.reasons


def test_r21_an_empty_log_where_others_hold_records_is_remarked() -> None:
    found = judged(log(1), log(2, (0, 9)), silent(3))
    assert "b1 is EMPTY: disk replaced?" in found.reasons


def test_the_pathological_example_of_the_kip_is_not_automated() -> None:
    """A replica added after the loss is all that can be read: electing it wipes the partition."""
    found = judged(silent(1), silent(2), log(4), circumstances=without(1, 2))
    assert (found.verdict, found.designee, found.automatable) == (Verdict.LOSS, 4, False)
    assert "EMPTY" in found.reasons[0]
    unheard = judged(silent(1), silent(2), log(4))
    assert (unheard.verdict, str(unheard.action)) == (Verdict.WAIT, "start b1")
    assert not unheard.automatable


def test_a_partition_with_a_leader_is_not_judged() -> None:
    with pytest.raises(ValueError, match="orders-3 has a leader"):
        assess(offline(log(1, (0, 9)), leader=1))


@given(partitions(), st.booleans(), st.sampled_from([HEALTHY.quorum, LEADERLESS, Unknown("?")]))
def test_what_may_be_automated_is_always_sound(
    evidence: PartitionEvidence, deadline_passed: bool, quorum: Quorum | Unknown
) -> None:
    found = assess(evidence, Circumstances(quorum, deadline_passed=deadline_passed))
    if found.action.verb is Verb.ELECT:
        assert found.action.broker == found.designee
    if found.designee is not None:
        assert eligibility(evidence, found.designee).recommendable
        assert found.loss is not None
        assert found.loss.candidate == found.designee
    if found.automatable:
        assert found.designee is not None
        assert eligibility(evidence, found.designee).standing is ReplicaStanding.ELIGIBLE
        assert found.hazards == ()
        assert found.verdict not in (Verdict.STUCK, Verdict.BOMB, Verdict.FORK)
        assert found.loss is not None
        assert found.loss.committed_elsewhere is False


@given(partitions())
def test_a_judgement_is_the_same_whatever_the_order_of_replicas(
    evidence: PartitionEvidence,
) -> None:
    assume(obeys_log_matching(evidence.replicas))
    turned = replace(evidence, replicas=evidence.replicas[::-1])
    one, other = assess(evidence, HEALTHY), assess(turned, HEALTHY)
    assert (one.verdict, one.action, one.designee) == (other.verdict, other.action, other.designee)
    assert loses(one) == loses(other)


def obeys_log_matching(replicas: Sequence[ReplicaLog]) -> bool:
    """An epoch has one leader, so it begins at one offset; a log that begins later cuts it."""
    held = [
        (epoch.epoch, epoch.start, epoch.start == replica.log_start)
        for replica in replicas
        if isinstance(replica.epochs, EpochHistory)
        for epoch in replica.epochs.ranges
    ]
    begins = {epoch: start for epoch, start, cut in held if not cut}
    return all(
        start >= begins.get(epoch, start) if cut else start == begins[epoch]
        for epoch, start, cut in held
    )


def loses(found: Assessment) -> list[object]:
    """The loss, with every Unknown alike: of several reasons any may be given."""
    if found.loss is None:
        return []
    records = found.loss.records
    figures = records.total, records.committed, records.uncommitted
    return ["?" if isinstance(figure, Unknown) else figure for figure in figures]


@given(evidence=partitions())
def test_r03_no_sentence_suggests_to_change_the_min_isr(evidence: PartitionEvidence) -> None:
    """It would make the controller forget ELR and last leader, and so an intact one."""
    found = assess(evidence, HEALTHY)
    said = (str(found.action), found.forecast.reason, *found.reasons, *found.barriers)
    assert [sentence for sentence in said if "min.insync" in sentence] == []


@pytest.mark.parametrize(
    ("behind", "ahead"), [(-25, "25 offsets"), (-1, "1 offset"), (0, ""), (9, "")]
)
def test_r21_the_copy_of_a_move_is_remarked_where_it_is_ahead_of_the_log(
    behind: int, ahead: str
) -> None:
    copy = LogDir("/two", online=True, size=9, future=True, behind=behind)
    moving = replace(log(1, (0, 75)), log_dir=LogDir("/one", online=True, size=7, copy=copy))
    found = judged(moving, log(2, (0, 100)))
    remarks = [reason for reason in found.reasons if "unfinished move" in reason]
    assert [remark.partition(" ahead of its log")[0] for remark in remarks] == (
        [f"b1: the copy of an unfinished move in /two is {ahead}"] if ahead else []
    )


def test_r21_a_copy_that_is_all_that_is_left_is_remarked() -> None:
    copy = LogDir("/two", online=True, size=1_234, future=True, behind=Unknown("no log"))
    lost = replace(silent(1, fenced=False, log_dir_online=False), only_copy=copy)
    (remark,) = [
        reason for reason in judged(lost, log(2, (0, 9))).reasons if "unfinished move" in reason
    ]
    assert "1,234 bytes in /two" in remark
