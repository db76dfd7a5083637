"""KIP-1275: as many elections as possible are completed, wherever the bad partition stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from tests.kit.deadlines import HOUR, MOMENT
from tests.kit.fake_broker import HangUp
from tests.kit.fake_controller import Act, Answer, failing, unheard
from tests.kit.fake_metadata import CONTROLLER
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.test_run import ScriptedRescue, well

INVALID_REQUEST, UNKNOWN_SERVER_ERROR, NOT_ALLOWED, NOT_LEADER = 42, -1, 31, 6
REORDER, ELECT = AlterPartitionReassignmentsRequest, ElectLeadersRequest
PARTITIONS = 14
"""Batches of 1, 10 and 3 when the first one goes well, else of 1, 1, 10 and 2."""
PLACES = [0, 1, 5, 10, 11, 12, 13]
"""The canary; first, middle and last of the second batch and of the third."""


def only_for(partition: TopicPartition, code: int) -> Act:
    """The election of *partition* ends in *code*, that of others as the controller holds it."""

    def act(request: Any, answer: Answer) -> Any:
        (topic,) = request.topic_partitions
        named = list(topic.partitions)
        if partition.partition not in named:
            return answer(request)
        topic.partitions = [partition.partition]
        told = failing(code)(request, answer)
        topic.partitions = [one for one in named if one != partition.partition]
        if topic.partitions:
            told.replica_election_results += answer(request).replica_election_results
        topic.partitions = named
        return told

    return act


def failed(bench: Bench, bad: ElectionTarget) -> None:
    bench.controller.next(ELECT, *[only_for(bad.partition, INVALID_REQUEST)] * PARTITIONS)


def refused(bench: Bench, bad: ElectionTarget) -> None:
    bench.change(bad, leader_epoch=9)


def unknown(bench: Bench, bad: ElectionTarget) -> None:
    """The broker could not read what the controller answered for one partition."""
    bench.controller.next(ELECT, *[only_for(bad.partition, UNKNOWN_SERVER_ERROR)] * PARTITIONS)


def results(
    bench: Bench, targets: list[ElectionTarget], rescue: ScriptedRescue
) -> list[PartitionOutcome]:
    ended = {outcome.target: outcome for outcome in bench.run(targets, rescue)}
    return [ended[target] for target in targets]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("spoil", "result"),
    [
        (failed, RecoveryResult.FAILED),
        (refused, RecoveryResult.REFUSED),
        (unknown, RecoveryResult.UNKNOWN),
    ],
)
def test_one_bad_partition_keeps_no_other(
    bench: Bench, spoil: Callable[[Bench, ElectionTarget], None], result: RecoveryResult, place: int
) -> None:
    targets = bench.offline(count=PARTITIONS)
    spoil(bench, targets[place])
    outcomes = results(bench, targets, ScriptedRescue(lambda _: False))
    assert outcomes.pop(place).result is result
    assert {outcome.result for outcome in outcomes} == {RecoveryResult.ELECTED}
    assert {bench.leader(outcome.target) for outcome in outcomes} == {1}


@pytest.mark.parametrize("place", PLACES)
def test_a_partition_that_was_not_rescued_keeps_no_other(bench: Bench, place: int) -> None:
    targets = bench.offline(count=PARTITIONS)
    rescue = ScriptedRescue(fails={targets[place].partition: "the disk is full"})
    outcomes = results(bench, targets, rescue)
    assert outcomes.pop(place).result is RecoveryResult.REFUSED
    assert {outcome.result for outcome in outcomes} == {RecoveryResult.ELECTED}


def test_r04_batches_grow_only_after_an_election_though_the_first_ones_fail(bench: Bench) -> None:
    targets = bench.offline(count=PARTITIONS)
    for bad in targets[:2]:
        refused(bench, bad)
    bench.run(targets)
    assert bench.controller.partitions == [1, 1, 1, 10, 10, 10, 1, 1, 1]


class TestNoAnswer:
    """An answer that was lost: the controller is asked whether it is there."""

    def test_once_it_keeps_only_its_own_batch(self, bench: Bench) -> None:
        bench.controller.next(ELECT, well, unheard)
        found = bench.results(bench.offline(count=PARTITIONS))
        assert (
            found
            == [RecoveryResult.ELECTED]
            + [RecoveryResult.UNKNOWN] * 10
            + [RecoveryResult.ELECTED] * 3
        )

    def test_twice_in_a_row_it_ends_the_run(self, bench: Bench) -> None:
        bench.controller.next(ELECT, unheard, unheard)
        first, second, *rest = bench.run(bench.offline(count=PARTITIONS))
        assert (first.result, second.result) == (RecoveryResult.UNKNOWN, RecoveryResult.UNKNOWN)
        assert {outcome.result for outcome in rest} == {RecoveryResult.NOT_ATTEMPTED}

    @pytest.mark.parametrize("hung", [False, True])
    def test_then_the_brokers_that_do_not_answer_are_named(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, hung: bool
    ) -> None:
        bench.cluster.story.fenced = set()
        targets = [replace(one, live=(2, 3)) for one in bench.offline(count=3)]
        for one in targets:
            bench.change(one, last_known_elr=())
        bench.controller.next(ELECT, unheard, unheard)
        if hung:
            bench.cluster.brokers[3].hung = True
            monkeypatch.setattr(patience, "ROLL_CALL", MOMENT)
        *_, last = bench.run(targets)
        assert last.result is RecoveryResult.NOT_ATTEMPTED
        assert ("b3" in last.reason) is hung

    def test_r20_an_election_that_takes_effect_later_is_waited_for(self, bench: Bench) -> None:
        """The limit of one whose answer came passes at the first look."""
        targets = bench.offline(count=3)
        bench.controller.next(ELECT, unheard)
        bench.limits = replace(bench.limits, confirmation=HOUR / 4)

        def take_effect(_: float) -> None:
            bench.change(targets[0], leader=1, leader_epoch=6, isr=(1,))

        recovery = bench.recovery()
        recovery.observer = Observer(
            bench.read, take_effect, lambda deadline: deadline.remaining() < HOUR / 2
        )
        outcomes = [outcome for batch in recovery.run(targets) for outcome in batch]
        assert {outcome.result for outcome in outcomes} == {RecoveryResult.ELECTED}

    def test_r20_controllers_that_fall_silent_in_the_middle_are_waited_for(
        self, bench: Bench
    ) -> None:
        def falls(request: Any, answer: Answer) -> Any:
            told = answer(request)
            bench.cluster.story.quorum_leader = -1
            return told

        class Back(list[float]):
            def append(self, seconds: float) -> None:
                super().append(seconds)
                bench.cluster.story.quorum_leader = CONTROLLER

        bench.pauses = Back()
        bench.controller.next(ELECT, falls)
        assert set(bench.results(bench.offline(count=3))) == {RecoveryResult.ELECTED}
        assert bench.pauses

    def test_from_a_controller_that_is_gone_it_ends_the_run(self, bench: Bench) -> None:
        def dies(_: Any, __: Answer) -> Any:
            bench.cluster.story.quorum_leader = -1
            raise HangUp

        bench.controller.next(ELECT, dies)
        first, second, *rest = bench.run(bench.offline(count=4))
        assert (first.result, second.result) == (RecoveryResult.UNKNOWN, RecoveryResult.REFUSED)
        assert {outcome.result for outcome in rest} == {RecoveryResult.NOT_ATTEMPTED}
        assert all(second.reason in outcome.reason for outcome in rest)
        assert bench.controller.partitions == [1, 1]


class TestASilentDesignee:
    """R6: elected by the metadata, and it does not say so."""

    @pytest.fixture
    def targets(self, bench: Bench) -> list[ElectionTarget]:
        """b2 is to lead every third one, from the first on, and does not say that it does."""
        answer = bench.cluster.apis(2)[ListOffsetsRequest]

        def unaware(request: Any) -> Any:
            told = answer(request)
            if request.replica_id == -1:
                for topic in told.topics:
                    for partition in topic.partitions:
                        partition.error_code = NOT_LEADER
            return told

        bench.cluster.brokers[2].serve(ListOffsetsRequest, unaware)
        return [
            replace(one, designee=2, order=(2, 1, 3), log_end=70, live=(1,))
            if not place % 3
            else one
            for place, one in enumerate(bench.offline(count=PARTITIONS))
        ]

    def test_its_other_partitions_wait_and_those_of_others_go_on(
        self, bench: Bench, targets: list[ElectionTarget]
    ) -> None:
        outcomes = {outcome.partition: outcome for outcome in bench.run(targets)}
        first, *others = [outcomes[target.partition] for target in targets if target.designee == 2]
        assert (first.result, first.order_restored) == (RecoveryResult.UNKNOWN, False)
        assert {other.result for other in others} == {RecoveryResult.NOT_ATTEMPTED}
        assert {bench.assignment(other.target) for other in others} == {(3, 2, 1)}
        rest = [outcomes[target.partition].result for target in targets if target.designee == 1]
        assert set(rest) == {RecoveryResult.ELECTED}


class TestACommonCause:
    """What every other election would meet alike is said once, and all that is left is named."""

    def first_of_all(self, bench: Bench) -> PartitionOutcome:
        first, *rest = bench.run(bench.offline(count=PARTITIONS))
        assert {outcome.result for outcome in rest} == {RecoveryResult.NOT_ATTEMPTED}
        assert all(first.reason in outcome.reason for outcome in rest)
        return first

    def test_r20_no_quorum(self, bench: Bench) -> None:
        bench.cluster.story.quorum_leader = -1
        assert self.first_of_all(bench).result is RecoveryResult.REFUSED
        assert bench.controller.steps == []

    def test_another_cluster(self, bench: Bench) -> None:
        bench.cluster.story.cluster_id = "another"
        assert self.first_of_all(bench).result is RecoveryResult.REFUSED

    def test_r22_a_missing_acl(self, bench: Bench) -> None:
        def denied(_: Any, __: Answer) -> Any:
            return ElectLeadersResponse(error_code=NOT_ALLOWED, replica_election_results=[])

        bench.controller.next(ELECT, denied)
        first = self.first_of_all(bench)
        assert (first.result, first.order_restored) == (RecoveryResult.FAILED, False)
        assert "ALTER on CLUSTER" in first.reason

    def test_a_journal_that_takes_no_more(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> int:
            raise StorageError("the journal is full")

        monkeypatch.setattr(Journal, "request", full)
        assert self.first_of_all(bench).result is RecoveryResult.REFUSED
        assert bench.controller.steps == []


class TestTheJournalFillsInTheMiddle:
    """Between an order and its election: what was changed is not called refused."""

    def test_its_batch_is_reordered_and_the_rest_not_attempted(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announce, announced = Journal.request, list[str]()

        def request(self: Journal, step: str, items: Any, **details: Any) -> int:
            announced.append(step)
            if announced.count("elect") == 2:
                raise StorageError("the journal is full")
            return announce(self, step, items, **details)

        monkeypatch.setattr(Journal, "request", request)
        found = bench.run(bench.offline(count=PARTITIONS))
        assert found[0].result is RecoveryResult.ELECTED
        for outcome in found[1:11]:
            assert (outcome.result, outcome.order_restored) == (RecoveryResult.REORDERED, False)
            assert bench.assignment(outcome.target) == (1, 2, 3)
        for outcome in found[11:]:
            assert (outcome.result, outcome.order_restored) == (RecoveryResult.NOT_ATTEMPTED, None)
            assert bench.assignment(outcome.target) == (3, 2, 1)
