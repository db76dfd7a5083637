"""Rules about what is read and said before anything is changed."""

import pytest

from breakglass.services.incident.incident import Incident
from breakglass.services.model import LogContents, TopicPartition, known
from breakglass.services.recovery.execution.target import target_of
from breakglass.services.recovery.guarded.aftermath import GroupPastEnd, past_end
from breakglass.services.recovery.judgement.assessment import Action, Verb, Verdict
from breakglass.services.recovery.judgement.summary import Judged, summarize
from breakglass.services.recovery.triage import Triage, recommended
from breakglass.services.words.figures import loss_text, unread_text
from tests.lab.recover.incident.beside import GROUP, READ_ON, READ_TO, TRIMMED
from tests.lab.recover.incident.conftest import CARTS, MOVING, Recovered
from tests.lab.recover.session import judgement
from tests.lab.scenarios.damaged import Damaged

pytestmark = pytest.mark.main

LEDGER = TopicPartition("ledger", 0)
INVOICES = TopicPartition("invoices", 0)


@pytest.mark.parametrize("partition", CARTS)
def test_r01_who_would_be_elected_by_the_reorder_bars_it_and_is_named(
    found: Triage, partition: TopicPartition
) -> None:
    said = judgement(found, partition)
    assert said.hazards == (4,)
    assert not said.automatable
    assert (
        "the controller may elect b4 instead: stop b4, wait until it is fenced, read again"
        in said.barriers
    )


def test_r02_an_empty_last_leader_is_an_alarm_that_says_now_and_no_time(found: Triage) -> None:
    assert summarize(found.assessments).alarm == "FIRST stop b4 NOW: BOMB on 3."
    assert judgement(found, CARTS[0]).reasons[0] == (
        "b4 is back EMPTY and b1 holds records: the controller may elect it at any moment, so stop "
        "b4 NOW, wait until it is fenced, read again"
    )


def test_r02_once_it_is_stopped_the_best_of_the_others_can_be_elected(recovered: Recovered) -> None:
    assert summarize(recovered.found.assessments).alarm == ""
    for partition in CARTS:
        said = judgement(recovered.found, partition)
        assert (said.verdict, said.action) == (Verdict.SAFE, Action(Verb.ELECT, 1))


def test_r08_the_later_written_epoch_wins_over_the_longer_log(found: Triage) -> None:
    said = judgement(found, LEDGER)
    shorter, longer = said.ranking.candidates[0].replica, said.ranking.candidates[1].replica
    assert (shorter.broker, shorter.log_end, shorter.last_written_epoch) == (1, 125, 2)
    assert (longer.broker, longer.log_end, longer.last_written_epoch) == (2, 150, 1)
    assert said.designee == 1


def test_r08_a_log_without_records_ranks_last_of_those_that_can_be_elected(found: Triage) -> None:
    assert judgement(found, INVOICES).evidence.state.assignment == (3, 2, 1)
    assert judgement(found, INVOICES).ranking.recommendable == (1, 2)


def test_r10_what_lies_before_the_chosen_log_start_is_lost_too(found: Triage) -> None:
    loss = judgement(found, TRIMMED[0]).loss
    assert loss is not None
    assert (loss.candidate, loss.head.total, loss.tail.total) == (1, 60, 0)
    other = loss.of(2)
    assert other is not None
    assert (other.head, other.whole_log) == (60, False)


def test_r10_counts_of_a_compacted_topic_are_marked(found: Triage) -> None:
    loss = judgement(found, TopicPartition("profiles", 0)).loss_of(2)
    assert loss_text(loss) == "~35"


def test_r11_what_a_group_has_read_is_a_lower_bound_of_what_is_unread(
    lab: Damaged, found: Triage
) -> None:
    said = judgement(found, READ_ON)
    assert (said.unread.at_least, said.unread.source) == (20, f"group {GROUP}")
    names = ",".join(f"b{broker}" for broker in said.unread.replicas)
    assert unread_text(said.unread) == f"{names} >= 20"
    assert lab.truth_of(READ_ON).choice(2).unread == 25


def test_r12_a_partition_that_is_being_moved_is_not_elected(found_without: Triage) -> None:
    said = judgement(found_without, MOVING)
    assert (said.verdict, said.action) == (Verdict.STUCK, Action(Verb.REASSIGNMENT))
    assert said.designee is None
    reassignment = said.evidence.state.reassignment
    assert reassignment is not None
    assert known(reassignment)
    assert (reassignment.adding, reassignment.removing) == ((2,), (3,))


def test_whatever_has_become_of_a_log_that_nobody_damaged_its_contents_are_whole(
    found: Triage,
) -> None:
    """Compacted, trimmed, emptied, written by several leaders, with open transactions."""
    read = [
        assessment.evidence.replica(assessment.ranking.winner.broker)
        for assessment in found.assessments
        if assessment.ranking.winner is not None
    ]
    assert {assessment.evidence.settings.compacted for assessment in found.assessments} == {
        True,
        False,
    }
    assert read
    for replica in read:
        assert replica is not None
        contents = replica.contents
        assert isinstance(contents, LogContents), contents
        assert (contents.corrupt_at, contents.stopped) == (None, "")
        assert contents.verified_to == replica.log_end


def test_r19_groups_past_the_end_of_the_designee_are_listed_before(found: Triage) -> None:
    evidence = judgement(found, READ_ON).evidence
    target = target_of(evidence, 2)
    assert past_end([target], {READ_ON: evidence}) == (
        GroupPastEnd(READ_ON, GROUP, committed=READ_TO, log_end=100),
    )


@pytest.mark.parametrize(("partition", "broker"), [(CARTS[0], 4), (INVOICES, 2)])
def test_r21_a_log_end_of_zero_where_others_hold_records_is_remarked(
    found: Triage, partition: TopicPartition, broker: int
) -> None:
    candidate = judgement(found, partition).ranking.candidate(broker)
    assert candidate is not None
    assert candidate.remark == "EMPTY: disk replaced?"


def test_r21_each_replica_has_its_log_directory(lab: Damaged, found: Triage) -> None:
    replica = judgement(found, LEDGER).evidence.replica(1)
    assert replica is not None
    assert known(replica.log_dir)
    folder = lab.cluster.broker(1).partition_folder("ledger", 0)
    assert folder is not None
    assert (replica.log_dir.path, replica.log_dir.online) == (str(folder.parent), True)
    assert replica.log_dir.size == sum(path.stat().st_size for path in folder.glob("*.log"))


def test_r15_all_that_is_complete_is_automated_but_for_what_only_an_operator_can_know(
    found_without: Triage,
) -> None:
    left = {left.partition: left for left in recommended(found_without).left}
    assert left.pop(MOVING).reason.startswith("STUCK: a reassignment is under way")
    for held in left.values():
        assert held.partition == LEDGER
        assert "unknown if the lost records are committed" in held.reason


def test_every_partition_is_judged_as_triage_judges_it(found: Triage, incident: Incident) -> None:
    conclusions = {assessment.partition: Judged.of(assessment) for assessment in found.assessments}
    assert {row.partition: row.judged for row in incident.rows} == conclusions
    assert incident.summary.headline == Incident.of(found).summary.headline


def test_evidence_that_was_frozen_says_the_same(found: Triage, incident: Incident) -> None:
    for assessment in found.assessments:
        thawed = incident.assessment(assessment.partition)
        assert thawed is not None
        assert thawed.reasons == assessment.reasons


def test_who_is_silent_is_named(incident: Incident) -> None:
    assert list(incident.silent) == [3]
    assert incident.complete
    assert incident.row(TopicPartition("no-such-topic", 0)) is None
