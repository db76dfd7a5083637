"""What triage says of the scenarios that need a lab of their own, and the rules seen there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import elect_unclean, reassign
from breakglass.services.model import EpochHistory, TopicPartition, Unknown, known
from breakglass.services.pipeline.source import WantedTopics, read_sources
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.judgement.assessment import (
    Action,
    Verb,
    Verdict,
    refusal,
    summarize,
)
from breakglass.services.recovery.judgement.ranking import ReplicaStanding, eligibility
from breakglass.services.recovery.judgement.succession import without_quorum
from breakglass.services.recovery.triage import recommended, triage
from tests.kit.clusters import access_to
from tests.kit.log_dir import repair_log_dir
from tests.kit.program import breakglass
from tests.lab.asking import CONSUMER, list_offset
from tests.lab.console.commands import elections
from tests.lab.recover.alone import Alone, Found, found_on
from tests.lab.recover.session import ELECT_LEADERS, targets
from tests.lab.scenarios.damaged import Damaged


@pytest.fixture(scope="class")
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Found]:
    """What is found after the class's scenario, on a lab of its own."""
    with found_on(tmp_path_factory.mktemp("lab"), request.cls) as found:
        yield found


@pytest.fixture(scope="class")
def lab(found: Found) -> Damaged:
    """The lab of the class; what is found on it was read before any test changed it."""
    return found.lab


class TestBadUncleanBefore(Alone):
    SCENARIO = "bad-unclean-before"
    BALANCES = TopicPartition("balances", 0)

    def test_r09_committed_records_on_the_losing_side_make_a_fork(self, found: Found) -> None:
        unheard = found.said(self.BALANCES)
        assert (unheard.verdict, unheard.action) == (Verdict.WAIT, Action(Verb.START, 3))
        assert (unheard.designee, unheard.automatable) == (None, False)
        *_, without = triage(found.client, self.DURATION_SECONDS, gone=[3])
        (said,) = without.assessments
        assert (said.verdict, said.action) == (Verdict.FORK, Action(Verb.DECIDE))
        assert said.reasons[0] == (
            "history fork: b1 holds committed records past offset 10, where it diverges from b2"
        )

    def test_r09_a_fork_is_shown_with_the_price_of_each_side(self, found: Found) -> None:
        said = found.said(self.BALANCES)
        assert said.best == 2
        newer, longer = said.loss_of(2).records, said.loss_of(1).records
        assert (newer.committed, newer.unproven) == (90, 0)
        assert longer.total == 3

    def test_r09_a_fork_is_not_automated(self, found: Found) -> None:
        choice = recommended(found.last)
        assert choice.targets == ()
        assert [left.partition for left in choice.left] == [self.BALANCES]


class TestMinIsr(Alone):
    SCENARIO = "min-isr-2-one-alive"
    ACCOUNTS = TopicPartition("accounts", 0)
    OFFSET_NOT_AVAILABLE = 78

    def test_with_both_that_know_it_all_gone_the_one_alive_is_elected(self, found: Found) -> None:
        *_, without = triage(found.client, self.DURATION_SECONDS, gone=[2, 3])
        (said,) = without.assessments
        assert (said.verdict, said.action) == (Verdict.SAFE, Action(Verb.ELECT, 1))

    def test_r07_elected_it_leads_and_nobody_can_read(self, lab: Damaged) -> None:
        reassign(lab.cluster, {self.ACCOUNTS: (1, 3, 2)})
        elect_unclean(lab.cluster, self.ACCOUNTS)
        lab.cluster.wait_partition("accounts", 0, lambda state: state.leader == 1, "b1 to lead")
        assert list_offset(lab.cluster, 1, self.ACCOUNTS).offset == 78
        assert (
            list_offset(lab.cluster, 1, self.ACCOUNTS, replica=CONSUMER).error
            == self.OFFSET_NOT_AVAILABLE
        )
        with access_to(lab.cluster).reading() as client:
            soon = Deadline.after(300.0)
            (topic,) = read_sources(client, WantedTopics(("accounts",)), soon, partial=True)
        assert topic.unread[0].startswith("b1 does not know its high watermark: too few replicas")


class TestFencedDesignee(Alone):
    SCENARIO = "fenced-designee"
    PAYMENTS = TopicPartition("payments", 0)

    def test_r16_a_fenced_replica_that_answers_is_read_and_cannot_be_chosen(
        self, found: Found
    ) -> None:
        evidence = found.said(self.PAYMENTS).evidence
        fenced = evidence.replica(3)
        assert fenced is not None
        assert (fenced.log_end, fenced.reachable, fenced.fenced) == (135, True, True)
        standing = eligibility(evidence, 3)
        assert (standing.standing, standing.reason) == (ReplicaStanding.BARRED, "b3 is fenced")

    def test_r09_what_it_holds_committed_bars_the_election_of_another(self, found: Found) -> None:
        said = found.said(self.PAYMENTS)
        assert said.barriers == ("b3 holds committed records that b1 lacks",)
        assert not said.automatable

    def test_r04_an_election_passes_over_it_and_says_success(self, lab: Damaged) -> None:
        assert lab.state(self.PAYMENTS).assignment == (2, 3, 1)
        elect_unclean(lab.cluster, self.PAYMENTS)
        lab.cluster.wait_partition("payments", 0, lambda state: state.leader == 1, "b1 to lead")
        assert lab.truth_of(self.PAYMENTS).choice(1).committed == 35


class TestHungBroker(Alone):
    SCENARIO = "hung-broker"
    SHIPMENTS = TopicPartition("shipments", 0)

    def test_r15_a_hung_broker_that_is_fenced_is_named_and_not_waited_for(
        self, found: Found
    ) -> None:
        assert found.last.evidence.silent[2].startswith("b2 does not answer")
        assert found.said(self.SHIPMENTS).automatable


class TestHungDesignee(Alone):
    SCENARIO = "hung-designee"
    DURATION_SECONDS = 10.0
    PAYMENTS = TopicPartition("payments", 0)

    def test_r15_while_it_may_still_answer_nothing_is_automated(self, found: Found) -> None:
        first = found.yielded[0]
        (said,) = first.assessments
        assert first.evidence.awaited == {1}
        assert not said.automatable
        assert "b1 may still answer: wait until the recovery duration has passed" in said.barriers

    def test_r15_when_the_duration_has_passed_it_counts_as_silent(self, found: Found) -> None:
        assert found.last.evidence.awaited == frozenset()
        assert found.last.evidence.silent[1].startswith("b1 does not answer")

    def test_r16_it_is_never_recommended_and_may_be_set_by_hand(self, found: Found) -> None:
        said = found.said(self.PAYMENTS)
        assert (said.designee, said.ranking.recommendable) == (2, (2,))
        assert eligibility(said.evidence, 1).standing is ReplicaStanding.BY_HAND
        assert isinstance(said.loss_of(1).total, Unknown)


class TestUnregisteredBroker(Alone):
    SCENARIO = "unregistered-broker"
    FIRST, SECOND = TopicPartition("archive", 0), TopicPartition("archive", 1)

    def test_r12_it_keeps_who_is_not_first_from_being_elected_and_the_ways_are_named(
        self, found: Found
    ) -> None:
        said = found.said(self.SECOND)
        assert (said.verdict, said.action) == (Verdict.STUCK, Action(Verb.UNREGISTERED))
        reason, barrier = said.barriers
        assert "start b3 once, or stop b2" in reason
        assert barrier == "b3 is not registered"

    def test_r32_who_is_first_without_it_may_be_elected(self, found: Found) -> None:
        said = found.said(self.FIRST)
        assert (said.verdict, said.action, said.designee) == (
            Verdict.WAIT,
            Action(Verb.START, 3),
            1,
        )
        assert refusal(said.evidence, 1) == ""
        assert refusal(said.evidence, 2) != ""

    def test_r12_an_election_is_refused_before_anything_is_sent(
        self, found: Found, tmp_path: Path
    ) -> None:
        wanted = targets(found.last, {self.SECOND: 1})
        (outcome,) = found.behind.recover(found.client, wanted, tmp_path)
        assert outcome.result is RecoveryResult.REFUSED
        assert outcome.reason.startswith(
            "the controller rejects a reorder while b3 is not registered"
        )
        assert found.behind.changes == []

    def test_r32_who_is_first_without_it_is_elected_and_nothing_is_reordered(
        self, found: Found, lab: Damaged, tmp_path: Path
    ) -> None:
        wanted = targets(found.last, {self.FIRST: 1})
        (outcome,) = found.behind.recover(found.client, wanted, tmp_path)
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, None)
        assert found.behind.changes == [ELECT_LEADERS]
        assert lab.state(self.FIRST).leader == 1


class TestFailedLogdir(Alone):
    SCENARIO = "failed-logdir"
    FAILED = TopicPartition("readings", 0)

    @pytest.mark.main
    def test_r21_the_offline_directory_is_known_and_bars_its_replica(self, found: Found) -> None:
        evidence = found.said(self.FAILED).evidence
        broken = evidence.replica(1)
        assert broken is not None
        assert (broken.fenced, broken.log_dir_online) == (False, False)
        standing = eligibility(evidence, 1)
        assert standing.standing is ReplicaStanding.BARRED
        assert standing.reason == "the log directory of b1 is offline"

    @pytest.mark.main
    def test_r01_a_member_on_an_offline_directory_is_no_hazard(self, found: Found) -> None:
        said = found.said(self.FAILED)
        assert (said.hazards, said.automatable) == ((), True)

    @pytest.mark.main
    def test_r21_repairing_it_is_what_would_bring_everything_back(self, found: Found) -> None:
        assert (
            "b1 is in the ELR, on a log directory that is offline: repaired with its data, it "
            "would bring everything back"
        ) in found.said(self.FAILED).reasons

    def test_repaired_with_its_data_it_brings_everything_back(self, lab: Damaged) -> None:
        lab.cluster.broker(1).kill()
        repair_log_dir(Path(lab.truth.notes["failed log directory"]))
        lab.cluster.broker(1).start()
        lab.cluster.wait_partition(
            "readings", 0, lambda state: state.leader == 1, "b1 to lead", via=1
        )
        assert list_offset(lab.cluster, 1, self.FAILED).offset == 125


class TestControllerDown(Alone):
    SCENARIO = "controller-down"
    ORDERS = TopicPartition("orders", 0)

    def test_r20_it_is_said_at_once(self, found: Found) -> None:
        headline = summarize(found.last.assessments).headline
        assert headline == f"{without_quorum('No controller leads')}."
        controllers = ", ".join(f"{node.id}@" for node in found.lab.cluster.controllers)
        reason = found.said(self.ORDERS).reasons[0]
        assert reason.startswith(
            f"the controller quorum does not answer (controllers: {controllers}"
        )
        assert reason.endswith(without_quorum(""))

    def test_r20_every_replica_is_read_all_the_same(self, found: Found) -> None:
        evidence = found.said(self.ORDERS).evidence
        for broker, end in ((1, 125), (2, 100)):
            replica = evidence.replica(broker)
            assert replica is not None
            assert replica.log_end == end
            assert isinstance(replica.epochs, EpochHistory)

    def test_r20_what_a_plan_would_cut_off_is_rescued_all_the_same(
        self, found: Found, tmp_path: Path
    ) -> None:
        plan = elections(tmp_path, {self.ORDERS: 2})
        servers = ["--bootstrap-server", found.lab.cluster.bootstrap_servers]
        ended = breakglass("rescue", "--plan", plan, "--store", tmp_path / "rescued", *servers)
        assert ended.code == 0, ended.err
        assert ended.said[-1] == "25 records of 1 of 1 partitions saved"

    def test_r20_an_election_is_refused_before_anything_is_sent(
        self, found: Found, tmp_path: Path
    ) -> None:
        wanted = targets(found.last, {self.ORDERS: 1})
        (outcome,) = found.behind.recover(found.client, wanted, tmp_path)
        assert outcome.result is RecoveryResult.REFUSED
        assert outcome.reason.startswith("the controller quorum does not answer")
        assert outcome.reason.endswith(without_quorum(""))
        assert found.behind.changes == []


class TestAllReplicasGone(Alone):
    SCENARIO = "all-replicas-gone"
    ARCHIVE = TopicPartition("archive", 0)

    def test_r11_a_group_is_the_only_bound_of_what_was_there(self, found: Found) -> None:
        unread = found.said(self.ARCHIVE).unread
        assert (unread.at_least, unread.source) == (120, "group auditors")

    def test_r15_none_answered_and_none_to_be_started_is_stuck(self, found: Found) -> None:
        *_, without = triage(found.client, self.DURATION_SECONDS, gone=[1, 2])
        (said,) = without.assessments
        assert (said.verdict, said.action) == (Verdict.STUCK, Action(Verb.NO_ANSWER))
        assert not any(known(replica.log_end) for replica in said.evidence.replicas)

    def test_the_last_leader_would_bring_it_back_whole(self, lab: Damaged) -> None:
        lab.cluster.broker(1).start()
        lab.cluster.wait_partition("archive", 0, lambda state: state.leader == 1, "b1 to lead")
        assert produce(lab.cluster, "archive", 0, 1).offsets == (125,)
