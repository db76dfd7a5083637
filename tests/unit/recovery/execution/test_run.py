"""Batches of elections against fake brokers whose mishaps real ones are too slow for."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services.guard.journal import read
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import Reassignment, TopicPartition
from breakglass.services.recovery.execution.routes import native_route, plain_unclean_route
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
)
from tests.kit.fake_broker import Body
from tests.kit.fake_controller import (
    FakeController,
    after,
    failing,
    silent,
    unanswered,
    unheard,
)
from tests.kit.waiting import within
from tests.unit.recovery.execution.conftest import Bench

NOT_CONTROLLER, TIMED_OUT, INVALID_REQUEST, NONE_ELIGIBLE = 41, 7, 42, 83
REORDER, ELECT = AlterPartitionReassignmentsRequest, ElectLeadersRequest


def fence(bench: Bench, broker: int) -> Any:
    """An act: *broker* is fenced before the controller looks."""
    return after(lambda: bench.cluster.story.fenced.add(broker))


def hang(bench: Bench, broker: int) -> None:
    """*broker* stops answering, and the controller does not notice."""
    bench.cluster.brokers[broker].hung = True


def asked_so_far(bench: Bench) -> Counter[int]:
    """How many requests of each api key have come to brokers."""
    brokers = bench.cluster.brokers.values()
    return Counter(received.api_key for broker in brokers for received in broker.received)


def asks_leader(request: Any, wanted: ElectionTarget) -> bool:
    """Whether *request* is one of ListOffsets that only the leader of *wanted* answers."""
    asked = {
        partition.partition_index for topic in request.topics for partition in topic.partitions
    }
    return request.replica_id == -1 and wanted.partition.partition in asked


class TestAllGoesWell:
    def test_the_designee_leads_and_the_order_is_as_it_was(self, bench: Bench) -> None:
        wanted = bench.offline()
        outcome = bench.one(wanted)
        assert (outcome.result, outcome.leader, outcome.leader_epoch) == (
            RecoveryResult.ELECTED,
            1,
            6,
        )
        assert outcome.rung is Rung.WRITABLE
        assert outcome.order_restored
        assert bench.assignment(wanted[0]) == (3, 2, 1)
        assert bench.controller.steps == ["reorder", "elect", "reorder"]

    def test_every_step_is_in_the_journal_with_its_outcome(self, bench: Bench) -> None:
        bench.run(bench.offline())
        assert bench.steps() == [
            ("reorder", {"accepted": 1}),
            ("elect", {"elected": 1}),
            ("restore order", {"accepted": 1}),
        ]
        assert bench.written().unsettled == ()

    def test_each_step_is_on_disk_before_it_is_sent(self, bench: Bench) -> None:
        seen: list[list[str]] = []

        def look(request: Any, answer: Any) -> Any:
            seen.append([step.name for step in read(bench.journal.path).steps])
            return answer(request)

        bench.controller.next(REORDER, look, look)
        bench.controller.next(ELECT, look)
        bench.run(bench.offline())
        assert seen == [["reorder"], ["reorder", "elect"], ["reorder", "elect", "restore order"]]

    def test_r04_the_whole_ranking_is_written_as_the_order(self, bench: Bench) -> None:
        bench.run(bench.offline())
        first = bench.cluster.brokers[1].requests(REORDER)[0]
        assert first.topics[0].partitions[0].replicas == [1, 2, 3]

    def test_a_look_reads_no_settings_and_the_look_before_the_order_is_put_back_no_brokers(
        self, bench: Bench
    ) -> None:
        """Each answer that nobody needs is waited for three times in a large recovery."""
        before = asked_so_far(bench)
        bench.run(bench.offline())
        asked = asked_so_far(bench) - before
        assert asked[DescribeConfigsRequest.API_KEY] == 0
        assert asked[DescribeClusterRequest.API_KEY] == 1, "of the look before the batch"
        assert asked[DescribeQuorumRequest.API_KEY] == 1
        assert asked[ListPartitionReassignmentsRequest.API_KEY] == 2, "of both looks (R12, R13)"

    def test_r04_batches_grow_and_each_is_confirmed_before_the_next(self, bench: Bench) -> None:
        assert set(bench.results(bench.offline(count=14))) == {RecoveryResult.ELECTED}
        assert bench.controller.steps == ["reorder", "elect", "reorder"] * 3
        assert bench.controller.partitions == [1, 1, 1, 10, 10, 10, 3, 3, 3]

    def test_an_order_that_was_right_is_not_written_back(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        state = replace(bench.cluster.story.states[wanted.partition], assignment=wanted.order)
        bench.cluster.story.states[wanted.partition] = state
        outcome = bench.one([replace(wanted, assignment=wanted.order)])
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, None)
        assert bench.controller.steps == ["elect"]

    def test_a_native_election_writes_no_order(self, bench: Bench) -> None:
        FakeController(bench.cluster, designates=True)
        bench.choose_route = native_route
        wanted = bench.offline()
        outcome = bench.one(wanted)
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED, 1)
        assert bench.steps() == [("designate", {"elected": 1})]

    def test_a_plain_unclean_election_goes_by_the_order_there_is(self, bench: Bench) -> None:
        bench.choose_route = plain_unclean_route
        (wanted,) = bench.offline()
        outcome = bench.one([replace(wanted, designee=2, log_end=70, live=(1,))])
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED, 2)
        assert bench.controller.steps == ["elect"]


class TestLooksAgain:
    """Nothing is sent on an old look, not even a second time."""

    def test_a_retry_looks_first_and_elects_no_empty_leader_that_came_back(
        self, bench: Bench
    ) -> None:
        """b3 is back between two attempts: a second reorder would elect it (R1)."""

        def in_vain_and_back(request: Any, answer: Any) -> Any:
            bench.cluster.story.fenced.discard(3)
            return failing(NONE_ELIGIBLE)(request, answer)

        bench.controller.next(ELECT, in_vain_and_back)
        outcome = bench.one(bench.offline())
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.REORDERED, False)
        assert "b3 would be elected instead of b1" in outcome.reason
        assert bench.controller.steps == ["reorder", "elect"]

    def test_a_replica_that_came_back_after_the_price_was_counted_stops_the_election(
        self, bench: Bench
    ) -> None:
        (wanted,) = bench.offline()
        outcome = bench.one([replace(wanted, live=())])
        assert outcome.result is RecoveryResult.REFUSED
        assert "b2 came back since the price was counted" in outcome.reason
        assert bench.controller.steps == []

    def test_batches_stay_small_until_an_election_has_proved_the_way(self, bench: Bench) -> None:
        wanted = bench.offline(count=40)
        for target in wanted[:11]:
            state = replace(bench.cluster.story.states[target.partition], leader=1)
            bench.cluster.story.states[target.partition] = state
        bench.run(wanted)
        assert bench.controller.partitions[0] <= 10

    def test_another_cluster_behind_the_same_address_is_refused(self, bench: Bench) -> None:
        wanted = bench.offline()
        bench.cluster.story.cluster_id = "another"
        outcome = bench.one(wanted)
        assert outcome.result is RecoveryResult.REFUSED
        assert "another" in outcome.reason
        assert bench.controller.steps == []


class TestLostAnswers:
    """Once a request has left, the brokers decide what became of it."""

    @pytest.mark.parametrize("lost", [unanswered, silent])
    def test_an_election_that_was_held_is_found_out(self, bench: Bench, lost: Any) -> None:
        bench.controller.next(ELECT, lost)
        wanted = bench.offline()
        outcome = bench.one(wanted)
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED, 1)
        assert bench.assignment(wanted[0]) == (3, 2, 1)

    def test_an_election_that_was_not_held_is_unknown_and_is_never_sent_again(
        self, bench: Bench
    ) -> None:
        bench.controller.next(ELECT, unheard)
        outcome = bench.one(bench.offline())
        assert outcome.result is RecoveryResult.UNKNOWN
        assert "may or may not have happened" in outcome.reason
        assert bench.controller.steps == ["reorder", "elect"]
        assert bench.steps()[-1] == ("elect", {"unknown": 1})

    def test_after_a_lost_reorder_no_election_is_held(self, bench: Bench) -> None:
        """An election by the old order would elect another."""
        bench.controller.next(REORDER, unanswered)
        outcome = bench.one(bench.offline())
        assert outcome.result is RecoveryResult.UNKNOWN
        assert bench.controller.steps == ["reorder"]

    def test_bytes_that_are_no_answer_are_a_lost_answer(self, bench: Bench) -> None:
        def alien(request: Any, answer: Any) -> Any:
            answer(request)
            return Body(b"\xff\xff")

        bench.controller.next(ELECT, alien)
        assert bench.one(bench.offline()).result is RecoveryResult.ELECTED

    def test_a_broker_that_waited_in_vain_for_the_controller_is_a_lost_answer(
        self, bench: Bench
    ) -> None:
        """It says so by REQUEST_TIMED_OUT, which Kafka calls retriable; it was passed on."""
        bench.controller.next(ELECT, failing(TIMED_OUT))
        outcome = bench.one(bench.offline())
        assert outcome.result is RecoveryResult.UNKNOWN
        assert outcome.reason.startswith("REQUEST_TIMED_OUT")
        assert bench.controller.steps == ["reorder", "elect"]

    def test_a_partition_left_out_of_an_answer_is_looked_for(self, bench: Bench) -> None:
        """The canary passes; in the second batch the answer forgets one."""

        def forget(request: Any, answer: Any) -> Any:
            reply = answer(request)
            reply.replica_election_results[0].partition_result.pop()
            return reply

        wanted = bench.offline(count=4)
        bench.controller.next(ELECT, lambda request, answer: answer(request), forget)
        assert set(bench.results(wanted)) == {RecoveryResult.ELECTED}


class TestTransientFailures:
    def test_they_are_tried_again_with_growing_pauses(self, bench: Bench) -> None:
        bench.controller.next(ELECT, failing(NOT_CONTROLLER), failing(NOT_CONTROLLER))
        assert bench.one(bench.offline()).result is RecoveryResult.ELECTED
        assert bench.controller.steps == [*["reorder", "elect"] * 3, "reorder"]
        assert bench.pauses == [0.2, 0.4]

    @pytest.mark.parametrize("retries", [0, 1, 3])
    def test_they_are_tried_again_so_often_and_no_more(self, bench: Bench, retries: int) -> None:
        bench.limits = replace(bench.limits, retries=retries)
        bench.controller.next(REORDER, *[failing(NOT_CONTROLLER)] * 10)
        outcome = bench.one(bench.offline())
        assert (outcome.result, outcome.reason) == (RecoveryResult.FAILED, "NOT_CONTROLLER")
        assert bench.controller.steps == ["reorder"] * (retries + 1)

    def test_other_failures_are_not_tried_again(self, bench: Bench) -> None:
        bench.controller.next(REORDER, failing(INVALID_REQUEST))
        outcome = bench.one(bench.offline())
        assert (outcome.result, outcome.reason) == (RecoveryResult.FAILED, "INVALID_REQUEST")
        assert bench.controller.steps == ["reorder"]

    def test_only_the_partitions_that_failed_are_sent_again(self, bench: Bench) -> None:
        wanted = bench.offline(count=5)

        def one_fails(request: Any, answer: Any) -> Any:
            kept = request.topic_partitions[0].partitions
            (lost,) = kept[:1]
            request.topic_partitions[0].partitions = kept[1:]
            reply = answer(request)
            failed = failing(NOT_CONTROLLER)
            request.topic_partitions[0].partitions = [lost]
            reply.replica_election_results += failed(request, answer).replica_election_results
            request.topic_partitions[0].partitions = kept
            return reply

        bench.controller.next(ELECT, lambda request, answer: answer(request), one_fails)
        assert set(bench.results(wanted)) == {RecoveryResult.ELECTED}
        assert bench.controller.partitions == [1, 1, 1, 4, 4, 1, 1, 4]


class TestAnotherLeader:
    def test_r04_a_designee_fenced_at_the_last_moment_is_a_mismatch_and_ends_the_run(
        self, bench: Bench
    ) -> None:
        """The controller says success all the same: the next in the order leads."""
        bench.controller.next(ELECT, fence(bench, 1))
        first, *rest = bench.run(bench.offline(count=12))
        assert (first.result, first.leader) == (RecoveryResult.ELECTED_ANOTHER, 2)
        assert {outcome.result for outcome in rest} == {RecoveryResult.NOT_ATTEMPTED}
        assert len(rest) == 11
        assert rest[0].reason == (
            "stopped because orders-0 elected b2, not b1: keep broker 1 down, for what it holds "
            "beyond b2 would be cut off, then plan again"
        )
        assert bench.controller.partitions == [1, 1]

    def test_r13_the_order_of_a_mismatch_is_left_as_it_is(self, bench: Bench) -> None:
        bench.controller.next(ELECT, fence(bench, 1))
        wanted = bench.offline()
        assert bench.one(wanted).order_restored is False
        assert bench.assignment(wanted[0]) == (1, 2, 3)

    def test_r01_a_leader_that_came_back_before_the_reorder_is_a_mismatch(
        self, bench: Bench
    ) -> None:
        """The reorder ran an election; ELECTION_NOT_NEEDED afterwards is no success."""
        bench.controller.next(REORDER, after(lambda: bench.cluster.story.fenced.discard(3)))
        outcome = bench.one(bench.offline())
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED_ANOTHER, 3)

    def test_for_a_native_election_another_leader_is_a_partition_that_was_online(
        self, bench: Bench
    ) -> None:
        """A designated election changes nothing that has a leader."""
        controller = FakeController(bench.cluster, designates=True)
        bench.choose_route = native_route
        (wanted,) = bench.offline()

        def returns(request: Any, answer: Any) -> Any:
            state = bench.cluster.story.states[wanted.partition]
            led = replace(state, leader=3, leader_epoch=6, isr=(3,))
            bench.cluster.story.states[wanted.partition] = led
            return answer(request)

        controller.next(ELECT, returns)
        outcome = bench.one([wanted])
        assert (outcome.result, outcome.reason) == (RecoveryResult.ALREADY_ONLINE, "led by b3")
        assert bench.steps() == [("designate", {"already online": 1})]


class TestConfirmation:
    def test_r06_a_designee_that_hangs_is_not_confirmed_by_metadata(self, bench: Bench) -> None:
        (wanted,) = bench.offline()

        bench.controller.next(ELECT, after(lambda: hang(bench, 1)))
        outcome = bench.one([wanted])
        assert (outcome.result, outcome.leader, outcome.rung) == (
            RecoveryResult.UNKNOWN,
            1,
            Rung.ELECTED,
        )
        assert outcome.reason.startswith("b1 was elected but does not answer (timed out)")
        assert "recover resume" in outcome.reason
        assert bench.assignment(wanted) == (1, 2, 3)

    def test_r06_a_broker_that_does_not_know_it_leads_is_asked_until_it_does(
        self, bench: Bench
    ) -> None:
        (wanted,) = bench.offline()
        answer = bench.cluster.apis(1)[ListOffsetsRequest]
        refused: list[Any] = []

        def late(request: Any) -> Any:
            leader_only = request.replica_id == -1
            if leader_only and len(refused) < 3:
                refused.append(request)
                state = bench.cluster.story.states[wanted.partition]
                bench.cluster.story.states[wanted.partition] = replace(state, leader=2)
                reply = answer(request)
                bench.cluster.story.states[wanted.partition] = state
                return reply
            return answer(request)

        bench.cluster.brokers[1].serve(ListOffsetsRequest, late)
        assert bench.one([wanted]).result is RecoveryResult.ELECTED
        assert len(refused) == 3

    def test_designees_are_asked_together_so_that_none_waits_for_another(
        self, bench: Bench
    ) -> None:
        """b1 says that it leads only once b2 was asked, too."""
        canary, first, second = bench.offline(count=3)
        second = replace(second, designee=2, order=(2, 1, 3), log_end=70, live=(1,))
        b2_was_asked = threading.Event()

        def late(request: Any) -> Any:
            if asks_leader(request, first):
                b2_was_asked.wait(within(0.3))
                return answers[1](request) if b2_was_asked.is_set() else None
            return answers[1](request)

        def noting(request: Any) -> Any:
            if asks_leader(request, second):
                b2_was_asked.set()
            return answers[2](request)

        answers = {broker: bench.cluster.apis(broker)[ListOffsetsRequest] for broker in (1, 2)}
        bench.cluster.brokers[1].serve(ListOffsetsRequest, late)
        bench.cluster.brokers[2].serve(ListOffsetsRequest, noting)
        assert set(bench.results([canary, first, second])) == {RecoveryResult.ELECTED}

    def test_one_partition_without_leader_makes_no_other_unknown(self, bench: Bench) -> None:
        """It lets wait for a leader as long as may be; the designees have their say after that."""
        wanted = bench.offline(count=4)
        lost = wanted[2].partition

        def lose_one(request: Any, answer: Any) -> Any:
            before = bench.cluster.story.states[lost]
            reply = answer(request)
            bench.cluster.story.states[lost] = before
            return reply

        bench.controller.next(ELECT, lambda request, answer: answer(request), lose_one)
        outcomes = {outcome.partition: outcome.result for outcome in bench.run(wanted)}
        assert outcomes.pop(lost) is RecoveryResult.UNKNOWN
        assert set(outcomes.values()) == {RecoveryResult.ELECTED}

    def test_metadata_that_falls_silent_does_not_undo_what_was_seen(self, bench: Bench) -> None:
        """Another broker is asked, within the time for confirmation.

        The broker that is asked for the metadata is not the one that was asked to elect.
        """
        bench.limits = replace(bench.limits, confirmation=within(4.0))

        bench.controller.next(ELECT, after(lambda: hang(bench, 2)))
        assert bench.one(bench.offline()).result is RecoveryResult.ELECTED


class TestLookingAgain:
    def test_a_partition_that_came_online_meanwhile_is_a_success_and_nothing_is_sent(
        self, bench: Bench
    ) -> None:
        (wanted,) = bench.offline()
        state = bench.cluster.story.states[wanted.partition]
        bench.cluster.story.states[wanted.partition] = replace(state, leader=3, isr=(3,))
        outcome = bench.one([wanted])
        assert (outcome.result, outcome.leader) == (RecoveryResult.ALREADY_ONLINE, 3)
        assert bench.controller.steps == []

    def test_a_refused_one_does_not_keep_the_others(self, bench: Bench) -> None:
        first, second, third = bench.offline(count=3)
        bench.cluster.story.states[second.partition] = replace(
            bench.cluster.story.states[second.partition], leader_epoch=9
        )
        assert bench.results([first, second, third]) == [
            RecoveryResult.ELECTED,
            RecoveryResult.REFUSED,
            RecoveryResult.ELECTED,
        ]
        assert bench.controller.partitions == [1] * 6

    def test_r04_fencing_is_read_again_before_every_batch(self, bench: Bench) -> None:
        bench.controller.next(
            REORDER,
            lambda request, answer: answer(request),
            fence(bench, 1),
        )
        first, *rest = bench.run(bench.offline(count=3))
        assert first.result is RecoveryResult.ELECTED
        assert {outcome.result for outcome in rest} == {RecoveryResult.REFUSED}
        assert "b1 is fenced" in rest[0].reason
        assert bench.controller.partitions == [1, 1, 1]

    def test_a_designee_whose_disk_was_replaced_since_is_refused(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        bench.cluster.hold(1, wanted.partition)
        outcome = bench.one([wanted])
        assert outcome.result is RecoveryResult.REFUSED
        assert "ended at 100 and now ends at 0" in outcome.reason
        assert bench.controller.steps == []

    def test_r06_a_designee_that_hangs_already_is_refused_before_anything_is_sent(
        self, bench: Bench
    ) -> None:
        wanted = bench.offline()
        hang(bench, 1)
        outcome = bench.one(wanted)
        assert outcome.result is RecoveryResult.REFUSED
        assert "no longer reports its log (timed out)" in outcome.reason
        assert bench.controller.steps == []

    def test_r20_without_a_controller_nothing_is_sent(self, bench: Bench) -> None:
        bench.cluster.story.quorum_leader = -1
        outcome = bench.one(bench.offline())
        assert outcome.result is RecoveryResult.REFUSED
        assert "the controller quorum has no leader" in outcome.reason
        assert bench.controller.steps == []

    def test_r20_while_the_controllers_are_silent_nothing_is_sent(self, bench: Bench) -> None:
        for broker in bench.cluster.brokers.values():
            broker.serve(DescribeQuorumRequest, lambda _: None)
        outcome = bench.one(bench.offline())
        assert outcome.result is RecoveryResult.REFUSED
        assert "the controller quorum does not answer: bring controllers back" in outcome.reason
        assert bench.controller.steps == []

    def test_a_bootstrap_broker_that_hangs_meanwhile_gives_way_to_another(
        self, bench: Bench
    ) -> None:
        bench.limits = replace(bench.limits, read=within(6.0))
        wanted = bench.offline()
        bench.read.partitions(["orders"], Deadline.after(10.0))
        hang(bench, 2)
        assert bench.one(wanted).result is RecoveryResult.ELECTED

    def test_what_was_not_sent_is_noted_and_nothing_else(self, bench: Bench) -> None:
        first, second, third = bench.offline(count=3)
        state = bench.cluster.story.states[second.partition]
        bench.cluster.story.states[second.partition] = replace(state, leader_epoch=9)
        bench.run([first, second, third])
        notes = [entry for entry in bench.written().entries if entry.kind == "note"]
        assert [[one["partition"] for one in note.payload["partitions"]] for note in notes] == [[1]]


class TestStopping:
    def test_on_request_the_batch_under_way_is_finished_and_the_rest_not_begun(
        self, bench: Bench
    ) -> None:
        asked: list[bool] = []
        bench.controller.next(ELECT, after(lambda: asked.append(True)))
        bench.stop = lambda: bool(asked)
        first, *rest = bench.run(bench.offline(count=12))
        assert (first.result, first.order_restored) == (RecoveryResult.ELECTED, True)
        assert {(outcome.result, outcome.reason) for outcome in rest} == {
            (RecoveryResult.NOT_ATTEMPTED, "stopped on request")
        }
        assert bench.controller.steps == ["reorder", "elect", "reorder"]

    def test_before_the_first_batch_nothing_is_sent(self, bench: Bench) -> None:
        bench.stop = lambda: True
        assert bench.results(bench.offline(count=2)) == [RecoveryResult.NOT_ATTEMPTED] * 2
        assert bench.controller.steps == []


class TestPuttingTheOrderBack:
    """R13: a blind write, so only where nobody else has been at work."""

    def changed(self, bench: Bench, wanted: ElectionTarget, **change: Any) -> PartitionOutcome:
        """Run with *change* applied to the partition right after its election."""

        def elect_and_change(request: Any, answer: Any) -> Any:
            reply = answer(request)
            state = bench.cluster.story.states[wanted.partition]
            bench.cluster.story.states[wanted.partition] = replace(state, **change)
            return reply

        bench.controller.next(ELECT, elect_and_change)
        return bench.one([wanted])

    def test_r13_another_order_is_somebody_elses(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        outcome = self.changed(bench, wanted, assignment=(1, 3, 2))
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)
        assert bench.assignment(wanted) == (1, 3, 2)

    def test_r13_a_reassignment_is_left_alone(self, bench: Bench) -> None:
        (wanted,) = bench.offline()

        def move(request: Any, answer: Any) -> Any:
            bench.cluster.story.reassignments[wanted.partition] = Reassignment((4,), ())
            return answer(request)

        bench.controller.next(ELECT, move)
        outcome = bench.one([wanted])
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)
        assert bench.assignment(wanted) == (1, 2, 3)

    def test_r13_an_order_that_is_refused_leaves_the_election_a_success(self, bench: Bench) -> None:
        bench.controller.next(REORDER, lambda request, answer: answer(request), failing(42))
        outcome = bench.one(bench.offline())
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)
        assert bench.steps()[-1][0] == "restore order"

    def test_r13_a_lost_answer_is_unknown_in_the_journal(self, bench: Bench) -> None:
        bench.controller.next(REORDER, lambda request, answer: answer(request), unanswered)
        wanted = bench.offline()
        assert bench.one(wanted).order_restored is False
        assert bench.steps()[-1] == ("restore order", {"unknown": 1})
        assert [step.name for step in bench.written().unsettled] == ["restore order"]


def test_r17_internal_topics_are_recovered_before_what_depends_on_them(bench: Bench) -> None:
    wanted = [*bench.offline("orders", 2), *bench.offline("__consumer_offsets", 2)]
    order = [outcome.partition for outcome in bench.run(wanted)]
    assert order == [
        TopicPartition("__consumer_offsets", 0),
        TopicPartition("__consumer_offsets", 1),
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    ]
    assert bench.controller.partitions == [1] * 12
