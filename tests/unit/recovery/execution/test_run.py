"""Recoveries against fake brokers whose mishaps real ones are too slow for."""

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, Reserve, read
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from breakglass.services.model import Denied, NotOffered, Reassignment, TopicPartition, Unknown
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.steps import native_route, plain_unclean_route
from breakglass.services.recovery.execution.target import (
    ElectedReach,
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
)
from tests.kit.deadlines import HOUR, MOMENT
from tests.kit.fake_broker import HangUp
from tests.kit.fake_controller import (
    Act,
    Answer,
    FakeController,
    after,
    failing,
    unanswered,
    unheard,
)
from tests.kit.fake_metadata import CONTROLLER
from tests.unit.recovery.execution.conftest import Bench

NOT_CONTROLLER, TIMED_OUT, INVALID_REQUEST, NONE_ELIGIBLE = 41, 7, 42, 83
REORDER, ELECT = AlterPartitionReassignmentsRequest, ElectLeadersRequest


def well(request: Any, answer: Any) -> Any:
    """An act: the controller does as it is asked."""
    return answer(request)


def fence(bench: Bench, broker: int) -> Any:
    """An act: *broker* is fenced before the controller looks."""
    return after(lambda: bench.cluster.story.fenced.add(broker))


def asks_leader(request: Any, wanted: ElectionTarget) -> bool:
    """Whether *request* is one of ListOffsets that only the leader of *wanted* answers."""
    asked = {
        partition.partition_index for topic in request.topics for partition in topic.partitions
    }
    return request.replica_id == -1 and wanted.partition.partition in asked


class TestAllGoesWell:
    def test_the_designee_leads_and_the_order_is_as_it_was(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        outcome = bench.one([wanted])
        assert outcome == PartitionOutcome(
            wanted,
            RecoveryResult.ELECTED,
            "",
            1,
            6,
            Rung.WRITABLE,
            ElectedReach(high_watermark=100, in_sync=1),
            order_restored=True,
        )
        assert bench.assignment(wanted) == (3, 2, 1)
        assert bench.controller.steps == ["reorder", "elect", "reorder"]
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

    def test_an_order_that_was_right_is_not_written_back(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        bench.change(wanted, assignment=wanted.order)
        outcome = bench.one([replace(wanted, assignment=wanted.order)])
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, None)
        assert bench.controller.steps == ["elect"]

    def test_a_plain_unclean_election_goes_by_the_order_there_is(self, bench: Bench) -> None:
        bench.choose_route = plain_unclean_route
        (wanted,) = bench.offline()
        outcome = bench.one([replace(wanted, designee=2, log_end=70, live=(1,))])
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED, 2)
        assert bench.controller.steps == ["elect"]


class TestLostAnswers:
    """Once a request has left, the brokers decide what became of it."""

    @pytest.mark.parametrize("lost", [unheard, failing(TIMED_OUT)], ids=["broken off", "in vain"])
    def test_an_election_that_was_not_held_is_unknown_and_is_never_sent_again(
        self, bench: Bench, lost: Any
    ) -> None:
        """REQUEST_TIMED_OUT of a broker that asked the controller in vain is no retriable error."""
        bench.controller.next(ELECT, lost)
        assert bench.one(bench.offline()).result is RecoveryResult.UNKNOWN
        assert bench.controller.steps == ["reorder", "elect"]
        assert bench.steps()[-1] == ("elect", {"unknown": 1})

    def test_after_a_lost_reorder_no_election_is_held(self, bench: Bench) -> None:
        """An election by the old order would elect another."""
        bench.controller.next(REORDER, unanswered)
        assert bench.one(bench.offline()).result is RecoveryResult.UNKNOWN
        assert bench.controller.steps == ["reorder"]


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

    def test_only_the_partitions_that_failed_are_sent_again(self, bench: Bench) -> None:
        def one_fails(request: Any, answer: Any) -> Any:
            (topic,) = request.topic_partitions
            lost, *kept = topic.partitions
            topic.partitions = kept
            reply = answer(request)
            topic.partitions = [lost]
            failed = failing(NOT_CONTROLLER)(request, answer)
            reply.replica_election_results += failed.replica_election_results
            topic.partitions = [lost, *kept]
            return reply

        bench.controller.next(ELECT, well, one_fails)
        assert set(bench.results(bench.offline(count=5))) == {RecoveryResult.ELECTED}
        assert bench.controller.partitions == [1, 1, 1, 4, 4, 1, 1, 4]

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
        assert bench.controller.steps == ["reorder", "elect"]


class TestAnotherLeader:
    def test_r04_a_designee_fenced_at_the_last_moment_is_a_mismatch_and_ends_the_run(
        self, bench: Bench
    ) -> None:
        """The controller says success all the same: the next in the order leads."""
        bench.controller.next(ELECT, fence(bench, 1))
        first, *rest = bench.run(bench.offline(count=12))
        assert (first.result, first.leader) == (RecoveryResult.ELECTED_ANOTHER, 2)
        assert [outcome.result for outcome in rest] == [RecoveryResult.NOT_ATTEMPTED] * 11
        assert bench.controller.partitions == [1, 1]
        assert first.order_restored is False
        assert bench.assignment(first.target) == (1, 2, 3), "R13: it is left as it is"

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
        controller.next(
            ELECT, after(lambda: bench.change(wanted, leader=3, leader_epoch=6, isr=(3,)))
        )
        outcome = bench.one([wanted])
        assert (outcome.result, outcome.leader) == (RecoveryResult.ALREADY_ONLINE, 3)
        assert bench.steps() == [("designate", {"already online": 1})]


class TestConfirmation:
    def test_r06_a_designee_that_hangs_is_not_confirmed_by_metadata(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        bench.controller.next(ELECT, after(lambda: bench.hang(1)))
        outcome = bench.one([wanted])
        assert (outcome.result, outcome.leader, outcome.rung) == (
            RecoveryResult.UNKNOWN,
            1,
            Rung.ANNOUNCED,
        )
        assert bench.assignment(wanted) == (1, 2, 3)

    def test_r06_a_broker_that_does_not_know_it_leads_is_asked_until_it_does(
        self, bench: Bench
    ) -> None:
        (wanted,) = bench.offline()
        answer = bench.cluster.apis(1)[ListOffsetsRequest]
        refused: list[Any] = []

        def late(request: Any) -> Any:
            if not asks_leader(request, wanted) or len(refused) == 3:
                return answer(request)
            bench.change(wanted, leader=2)
            refused.append(answer(request))
            bench.change(wanted, leader=1)
            return refused[-1]

        bench.cluster.brokers[1].serve(ListOffsetsRequest, late)
        assert bench.one([wanted]).result is RecoveryResult.ELECTED
        assert len(refused) == 3

    def test_metadata_that_falls_silent_does_not_undo_what_was_seen(self, bench: Bench) -> None:
        """The broker that is asked for metadata is not the one that elects; another is asked."""

        def fall_silent() -> None:
            bench.hang(2, "LOOK")
            bench.allow(KNOWN_BROKER=MOMENT, CONTROLLER=MOMENT)

        bench.between_looks = lambda: bench.allow(LOOK=HOUR)
        bench.controller.next(ELECT, after(fall_silent))
        assert bench.one(bench.offline()).result is RecoveryResult.ELECTED


class TestLookingAgain:
    """Nothing is sent on an old look, not even a second time."""

    def refused(self, bench: Bench, wanted: Sequence[ElectionTarget]) -> PartitionOutcome:
        outcome = bench.one(wanted)
        assert outcome.result is RecoveryResult.REFUSED
        assert bench.controller.steps == []
        return outcome

    def test_a_refused_one_does_not_keep_the_others(self, bench: Bench) -> None:
        first, second, third = bench.offline(count=3)
        bench.change(second, leader_epoch=9)
        assert bench.results([first, second, third]) == [
            RecoveryResult.ELECTED,
            RecoveryResult.REFUSED,
            RecoveryResult.ELECTED,
        ]
        assert bench.controller.partitions == [1] * 6
        notes = [entry for entry in bench.written().entries if entry.kind == "note"]
        assert [[one["partition"] for one in note.payload["partitions"]] for note in notes] == [[1]]

    def test_r04_fencing_is_read_again_before_every_batch(self, bench: Bench) -> None:
        bench.controller.next(REORDER, well, fence(bench, 1))
        first, *rest = bench.results(bench.offline(count=3))
        assert (first, set(rest)) == (RecoveryResult.ELECTED, {RecoveryResult.REFUSED})
        assert bench.controller.partitions == [1, 1, 1]

    def test_a_designee_whose_disk_was_replaced_since_is_refused(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        bench.cluster.hold(1, wanted.partition)
        self.refused(bench, [wanted])

    def test_r06_a_designee_that_hangs_already_is_refused_before_anything_is_sent(
        self, bench: Bench
    ) -> None:
        wanted = bench.offline()
        bench.hang(1)
        self.refused(bench, wanted)

    def test_r20_without_a_controller_nothing_is_sent(self, bench: Bench) -> None:
        bench.cluster.story.quorum_leader = -1
        assert "quorum" in self.refused(bench, bench.offline()).reason

    def test_r20_while_nobody_can_ask_the_controllers_nothing_is_sent(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection for that question cannot be opened, and others can."""
        bench.limits = replace(bench.limits, read=MOMENT)
        snapshot = ReadClient.snapshot

        def unasked(client: ReadClient, _: Deadline, *args: Any, **more: Any) -> Any:
            found = snapshot(client, Deadline.after(HOUR), *args, **more)
            return replace(found, quorum=Unknown("the controller quorum cannot be asked: b2"))

        monkeypatch.setattr(ReadClient, "snapshot", unasked)
        assert "unknown" in self.refused(bench, bench.offline()).reason

    @pytest.mark.parametrize("why", [Denied("no", "DESCRIBE on CLUSTER"), NotOffered("no api")])
    def test_r22_where_nobody_may_ask_for_the_controllers_elections_are_held(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, why: Unknown
    ) -> None:
        snapshot = ReadClient.snapshot

        def untold(client: ReadClient, *args: Any, **more: Any) -> Any:
            return replace(snapshot(client, *args, **more), quorum=why)

        monkeypatch.setattr(ReadClient, "snapshot", untold)
        assert bench.one(bench.offline()).result is RecoveryResult.ELECTED


class TestStopping:
    def test_on_request_the_batch_under_way_is_finished_and_the_rest_not_begun(
        self, bench: Bench
    ) -> None:
        asked: list[bool] = []
        bench.controller.next(ELECT, after(lambda: asked.append(True)))
        bench.stop = lambda: bool(asked)
        first, *rest = bench.run(bench.offline(count=12))
        assert (first.result, first.order_restored) == (RecoveryResult.ELECTED, True)
        assert {outcome.result for outcome in rest} == {RecoveryResult.NOT_ATTEMPTED}
        assert bench.controller.steps == ["reorder", "elect", "reorder"]

    def test_before_the_first_batch_nothing_is_sent(self, bench: Bench) -> None:
        bench.stop = lambda: True
        assert bench.results(bench.offline(count=2)) == [RecoveryResult.NOT_ATTEMPTED] * 2
        assert bench.controller.steps == []


class TestPuttingTheOrderBack:
    """R13: a blind write, so only where nobody else has been at work."""

    def left(self, bench: Bench, wanted: ElectionTarget, changed: Callable[[], Any]) -> None:
        """The order is left where *changed* is called right after the election."""

        def elect_and_change(request: Any, answer: Any) -> Any:
            reply = answer(request)
            changed()
            return reply

        bench.controller.next(ELECT, elect_and_change)
        outcome = bench.one([wanted])
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)

    def test_r13_another_order_is_somebody_elses(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        self.left(bench, wanted, lambda: bench.change(wanted, assignment=(1, 3, 2)))
        assert bench.assignment(wanted) == (1, 3, 2)

    def test_r13_a_reassignment_is_left_alone(self, bench: Bench) -> None:
        (wanted,) = bench.offline()
        moves = bench.cluster.story.reassignments
        self.left(bench, wanted, lambda: moves.update({wanted.partition: Reassignment((4,), ())}))
        assert bench.assignment(wanted) == (1, 2, 3)

    @pytest.mark.parametrize("failed", [failing(INVALID_REQUEST), unanswered])
    def test_r13_an_order_that_is_not_put_back_leaves_the_election_a_success(
        self, bench: Bench, failed: Any
    ) -> None:
        bench.controller.next(REORDER, well, failed)
        outcome = bench.one(bench.offline())
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)
        name, results = bench.steps()[-1]
        assert name == "restore order"
        assert (results == {"unknown": 1}) is (failed is unanswered)
        assert bool(bench.written().unsettled) is (failed is unanswered)


@dataclass
class ScriptedRescue:
    """Fails where it has to, and notes who was online when it was asked to save."""

    losing: Callable[[ElectionTarget], bool] = lambda _: True
    fails: Mapping[TopicPartition, str] = field(default_factory=dict)
    leader: Callable[[ElectionTarget], int | None] = lambda _: None
    unwritable: str = ""
    """Why the journal takes no rescue."""
    saved: list[list[TopicPartition]] = field(default_factory=list)
    online: list[set[TopicPartition]] = field(default_factory=list)
    watched: Sequence[ElectionTarget] = ()

    def needed(self, target: ElectionTarget) -> bool:
        return self.losing(target)

    def save(
        self, targets: Sequence[ElectionTarget], journal: Journal
    ) -> Mapping[TopicPartition, str]:
        assert isinstance(journal, Journal)
        self.saved.append([target.partition for target in targets if self.losing(target)])
        if self.unwritable and self.saved[-1]:
            raise StorageError(self.unwritable)
        self.online.append(
            {target.partition for target in self.watched if self.leader(target) is not None}
        )
        return {name: why for name, why in self.fails.items() if name in self.saved[-1]}


class TestRescue:
    """Who waits for a rescue, whom a failed rescue keeps back, and what a halt stops."""

    def recover(
        self, bench: Bench, targets: Sequence[ElectionTarget], rescue: ScriptedRescue
    ) -> list[RecoveryResult]:
        """The results of *targets*, in their order."""
        rescue.watched, rescue.leader = targets, bench.leader
        ended = {outcome.target: outcome.result for outcome in bench.run(targets, rescue)}
        return [ended[target] for target in targets]

    def test_what_a_stop_left_unsaved_was_not_attempted_and_can_be_resumed(
        self, bench: Bench
    ) -> None:
        held, free = bench.offline(count=2)
        bench.stop = lambda: True
        ended = self.recover(bench, [held, free], ScriptedRescue(fails={held.partition: "stopped"}))
        assert ended == [RecoveryResult.NOT_ATTEMPTED] * 2

    def test_what_loses_nothing_does_not_wait_for_the_rescue_of_the_others(
        self, bench: Bench
    ) -> None:
        losing, safe = bench.offline(count=2)
        rescue = ScriptedRescue(lambda target: target is losing)
        self.recover(bench, [losing, safe], rescue)
        assert rescue.saved == [[], [losing.partition]]
        assert rescue.online == [set(), {safe.partition}]

    def test_r17_an_internal_topic_that_loses_is_rescued_and_elected_before_all_others(
        self, bench: Bench
    ) -> None:
        (orders,), (offsets,) = bench.offline(), bench.offline("__consumer_offsets")
        rescue = ScriptedRescue(lambda target: target is offsets)
        self.recover(bench, [orders, offsets], rescue)
        assert rescue.saved == [[offsets.partition]]
        first = bench.cluster.brokers[1].requests(REORDER)[0]
        assert first.topics[0].name == "__consumer_offsets"

    def test_r04_a_mismatch_among_those_that_lose_nothing_leaves_the_others_untouched(
        self, bench: Bench
    ) -> None:
        safe, losing = bench.offline(count=2)
        rescue = ScriptedRescue(lambda target: target is losing)
        bench.controller.next(ELECT, fence(bench, 1))
        ended = self.recover(bench, [safe, losing], rescue)
        assert ended == [RecoveryResult.ELECTED_ANOTHER, RecoveryResult.NOT_ATTEMPTED]
        assert rescue.saved == [[]]

    def test_a_journal_that_cannot_announce_a_rescue_stops_the_run_and_names_all_that_is_left(
        self, bench: Bench
    ) -> None:
        safe, *others = bench.offline(count=3)
        rescue = ScriptedRescue(lambda target: target is not safe, unwritable="full")
        ended = self.recover(bench, [safe, *others], rescue)
        assert ended == [RecoveryResult.ELECTED, *[RecoveryResult.NOT_ATTEMPTED] * 2]

    def test_without_room_for_the_journal_nothing_is_saved_and_nothing_is_sent(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> NoReturn:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Reserve, "take", full)
        rescue = ScriptedRescue()
        with pytest.raises(StorageError):
            self.recover(bench, bench.offline(count=2), rescue)
        assert (rescue.saved, bench.controller.steps) == ([], [])


UNKNOWN_SERVER_ERROR, NOT_ALLOWED, NOT_LEADER = -1, 31, 6
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
