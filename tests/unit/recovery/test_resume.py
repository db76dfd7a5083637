"""Taking up a journal after a crash at any point: finished or undone, or named what is left."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from breakglass.services.errors import WrongCluster
from breakglass.services.guard.consent import Price
from breakglass.services.guard.journal import Journal, JournalView, read
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import Reassignment, TopicPartition, Unknown
from breakglass.services.recovery.execution.record import ExecutionJournal, described
from breakglass.services.recovery.execution.routes import native_route
from breakglass.services.recovery.execution.run import Recovery, Rescue
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from breakglass.services.recovery.rescue.rescue import SAVED
from breakglass.services.recovery.rescue.rescue import STEP as RESCUE
from breakglass.services.recovery.resume import JournalSurvey, Resume, ended_as, survey
from breakglass.services.recovery.unfinished import Remains, consented, remains
from tests.kit.fake_controller import FakeController, after, unanswered
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.targets import ANOTHER_TOPIC_ID

REORDER, ELECT = AlterPartitionReassignmentsRequest, ElectLeadersRequest
ORIGINAL, WRITTEN = (3, 2, 1), (1, 2, 3)
STEPS = ("reorder", "elect", "restore order")


class Crash(BaseException):
    """The process is killed here."""


@dataclass
class Killed:
    """A journal that ends the process when one step is announced, or before it is told of."""

    journal: Journal
    step: str
    announced: bool
    """Right after the announcement, before it is sent; else after it was sent and answered."""
    _requests: dict[int, str] = field(default_factory=dict)

    @property
    def cluster_id(self) -> str:
        return self.journal.cluster_id

    def request(self, step: str, items: Any, **details: Any) -> int:
        number = self.journal.request(step, items, **details)
        self._requests[number] = step
        if self.announced and step == self.step:
            raise Crash
        return number

    def outcome(self, request: int, items: Any, **details: Any) -> int:
        if not self.announced and self._requests[request] == self.step:
            raise Crash
        return self.journal.outcome(request, items, **details)

    def note(self, text: str, **details: Any) -> int:
        return self.journal.note(text, **details)

    @property
    def path(self) -> Path:
        return self.journal.path

    def reserve(self, size: int) -> None:
        self.journal.reserve(size)


AGREED = {"price": "0", "abandons": [3], "unread_at_least": 100, "gone": [3]}
"""b3, which led last, was declared gone."""


def plan(bench: Bench, targets: Sequence[ElectionTarget], price: str = "0", **details: Any) -> None:
    """Write the plan and the consent that an execution begins with."""
    items = {
        target.partition: {**described(target), **AGREED, "price": price} for target in targets
    }
    bench.journal.plan("", "", items, **details)
    bench.journal.consent(f"{len(targets)} partitions lose {price}")


def killed(
    bench: Bench, targets: Sequence[ElectionTarget], step: str, *, announced: bool = True
) -> None:
    """Begin to elect *targets* and be killed at *step*."""
    plan(bench, targets)
    recovery = bench.recovery()
    recovery.journal = cast("Journal", Killed(bench.journal, step, announced))
    with pytest.raises(Crash):
        list(recovery.run(targets))
    bench.journal.close()


@dataclass
class Resumed:
    """A resumed journal, and what it takes to go on."""

    bench: Bench
    journal: Journal
    view: JournalView
    rescue: Rescue | None = None

    @property
    def survey(self) -> JournalSurvey:
        return survey(self.bench.read, self.view, 5.0)

    def _resume(self) -> Resume:
        recovery = Recovery(
            self.bench.elect,
            self.journal,
            self.bench.choose_route,
            self.rescue,
            self.bench.limits,
            self.bench.stop,
        )
        return Resume(recovery, self.survey)

    def finish(self) -> list[PartitionOutcome]:
        return self._ended([outcome for batch in self._resume().finish() for outcome in batch])

    def undo(self) -> list[PartitionOutcome]:
        done = [outcome for batch in self._resume().undo() for outcome in batch]
        return self._ended(done, undone=True)

    def _ended(
        self, done: list[PartitionOutcome], *, undone: bool = False
    ) -> list[PartitionOutcome]:
        """Write down how it ended, as the act does."""
        remains = self.survey.remains if undone else self.survey.to_finish
        word = ended_as(remains, done, undone=undone)
        if word is not None:
            self.journal.finish(word)
        return done


@contextmanager
def resumed(bench: Bench, path: Path | None = None) -> Any:
    """The journal of *bench*, or that at *path*, taken up in a state folder of its own."""
    journal, view = Journal.resume(path or bench.journal.path, bench.journal.path.parent / "here")
    with journal:
        yield Resumed(bench, journal, view)


def result(bench: Bench) -> str | None:
    return bench.written().result


class TestFinishing:
    @pytest.mark.parametrize("announced", [True, False], ids=["announced", "answered"])
    @pytest.mark.parametrize("step", STEPS)
    def test_killed_at_any_step_it_ends_in_the_planned_state(
        self, bench: Bench, step: str, announced: bool
    ) -> None:
        targets = bench.offline(count=4)
        killed(bench, targets, step, announced=announced)
        with resumed(bench) as journal:
            outcomes = journal.finish()
        assert sorted(outcome.partition for outcome in outcomes) == [
            target.partition for target in targets
        ]
        assert all(outcome.succeeded for outcome in outcomes)
        assert {bench.leader(target) for target in targets} == {1}
        assert {bench.assignment(target) for target in targets} == {ORIGINAL}
        assert (result(bench), bench.written().unsettled) == ("succeeded", ())

    def test_killed_before_the_first_step_all_of_it_is_done(self, bench: Bench) -> None:
        targets = bench.offline(count=3)
        plan(bench, targets)
        bench.journal.close()
        with resumed(bench) as journal:
            assert {one.result for one in journal.finish()} == {RecoveryResult.ELECTED}
        assert bench.controller.partitions == [1, 1, 1, 2, 2, 2]

    def test_killed_before_the_plan_nothing_is_left(self, bench: Bench) -> None:
        bench.offline()
        bench.journal.close()
        with resumed(bench) as journal:
            assert journal.survey.remains == Remains()
            assert journal.finish() == []
        assert bench.controller.steps == []

    @pytest.mark.parametrize("step", STEPS)
    def test_killed_twice_it_ends_all_the_same(self, bench: Bench, step: str) -> None:
        targets = bench.offline(count=2)
        killed(bench, targets, "reorder", announced=False)
        with resumed(bench) as journal:
            found = journal.survey
            recovery = Recovery(
                bench.elect,
                Killed(journal.journal, step, announced=True),  # type: ignore[arg-type]
                bench.choose_route,
                limits=bench.limits,
            )
            with pytest.raises(Crash):
                list(Resume(recovery, found).finish())
        with resumed(bench) as journal:
            assert all(one.succeeded for one in journal.finish())
        assert {bench.leader(target) for target in targets} == {1}
        assert {bench.assignment(target) for target in targets} == {ORIGINAL}

    def test_once_finished_nothing_is_left(self, bench: Bench) -> None:
        targets = bench.offline(count=2)
        killed(bench, targets, "elect")
        with resumed(bench) as journal:
            journal.finish()
        sent = len(bench.controller.steps)
        with resumed(bench) as journal:
            assert {one.result for one in journal.finish()} == {RecoveryResult.ALREADY_ONLINE}
        assert len(bench.controller.steps) == sent

    def test_a_colleagues_journal_will_do(self, bench: Bench, tmp_path: Path) -> None:
        targets = bench.offline()
        killed(bench, targets, "reorder", announced=False)
        theirs = tmp_path / "from-a-colleague.jsonl"
        shutil.copyfile(bench.journal.path, theirs)
        with resumed(bench, theirs) as journal:
            assert [one.result for one in journal.finish()] == [RecoveryResult.ELECTED]
        assert read(theirs).result == "succeeded"
        assert result(bench) is None

    def test_a_native_election_is_finished_as_one(self, bench: Bench) -> None:
        FakeController(bench.cluster, designates=True)
        bench.choose_route = native_route
        targets = bench.offline()
        killed(bench, targets, "designate")
        with resumed(bench) as journal:
            assert [one.result for one in journal.finish()] == [RecoveryResult.ELECTED]
        assert bench.assignment(targets[0]) == ORIGINAL

    def test_r13_an_order_written_before_is_put_back_whichever_way_it_is_finished(
        self, bench: Bench
    ) -> None:
        """Reordered by a run that knew no designated elections, elected by one that does."""
        targets = bench.offline()
        killed(bench, targets, "reorder", announced=False)
        FakeController(bench.cluster, designates=True)
        bench.choose_route, bench.elect = native_route, bench.electing_through(1)
        with resumed(bench) as journal:
            (outcome,) = journal.finish()
        assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, True)
        assert bench.assignment(targets[0]) == ORIGINAL

    def test_on_request_it_stops_between_two_batches_and_stays_unfinished(
        self, bench: Bench
    ) -> None:
        targets = bench.offline(count=3)
        plan(bench, targets)
        bench.journal.close()
        asked: list[bool] = []
        bench.stop = lambda: bool(asked)
        bench.controller.next(ELECT, after(lambda: asked.append(True)))
        with resumed(bench) as journal:
            results = [one.result for one in journal.finish()]
        assert results == [
            RecoveryResult.ELECTED,
            RecoveryResult.NOT_ATTEMPTED,
            RecoveryResult.NOT_ATTEMPTED,
        ]
        assert result(bench) is None


class TestGuards:
    def test_the_journal_of_another_cluster_is_refused(self, bench: Bench) -> None:
        killed(bench, bench.offline(), "reorder")
        view = replace(bench.written(), cluster_id="another")
        with pytest.raises(WrongCluster, match=f"of cluster another and this is {CLUSTER_ID}"):
            survey(bench.read, view, 5.0)

    def test_what_was_led_again_since_is_refused(self, bench: Bench) -> None:
        """An old journal must not elect a replica that was overtaken meanwhile."""
        (target,) = bench.offline()
        killed(bench, [target], "reorder")
        state = bench.cluster.story.states[target.partition]
        bench.cluster.story.states[target.partition] = replace(state, leader_epoch=9)
        with resumed(bench) as journal:
            (outcome,) = journal.finish()
        assert outcome.result is RecoveryResult.REFUSED
        assert "led again" in outcome.reason
        assert (bench.controller.steps, result(bench)) == ([], "partly failed")

    @pytest.mark.parametrize(
        ("agreed", "reason"),
        [
            pytest.param(
                {"abandons": []},
                "electing b1 would also abandon b3, which is unread now: plan again",
                id="another broker is unread",
            ),
            pytest.param(
                {"unread_at_least": 0},
                "unread logs had >= 0 records and have >= 30 now: plan again",
                id="more is known to be unread",
            ),
        ],
    )
    def test_whom_nobody_agreed_to_abandon_is_not_abandoned(
        self, bench: Bench, agreed: dict[str, Any], reason: str
    ) -> None:
        (target,) = bench.offline()
        bench.cluster.story.groups["billing"] = {target.partition: 130}
        items = {target.partition: {**described(target), **AGREED, **agreed}}
        bench.journal.plan("", "", items)
        bench.journal.consent("orders-0 lose 0")
        bench.journal.close()
        with resumed(bench) as journal:
            found = journal.survey.to_finish
            assert journal.finish() == []
        assert [one.reason for one in found.left] == [reason]
        assert bench.controller.steps == []

    def test_a_price_that_rose_is_not_what_was_agreed_to(self, bench: Bench) -> None:
        """A better replica came back: electing the designee would lose its records now."""
        (target,) = bench.offline()
        killed(bench, [target], "reorder")
        bench.cluster.hold(2, target.partition, (0, 100), (4, 35))
        with resumed(bench) as journal:
            found = journal.survey.to_finish
            assert journal.finish() == []
        (left,) = found.left
        assert left.partition == target.partition
        assert left.reason == (
            "electing b1 was agreed to at the price of 0 records and would now lose 35: plan again"
        )
        assert (bench.controller.steps, result(bench)) == ([], "partly failed")

    def test_r01_a_returned_last_leader_is_refused_as_in_any_election(self, bench: Bench) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "reorder")
        bench.cluster.story.fenced = set()
        with resumed(bench) as journal:
            (outcome,) = journal.finish()
        assert outcome.result is RecoveryResult.REFUSED
        assert "b3 would be elected instead of b1" in outcome.reason

    def test_a_recreated_topic_is_left_alone(self, bench: Bench) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "reorder")
        state = bench.cluster.story.states[target.partition]
        new = replace(state, topic_id=ANOTHER_TOPIC_ID)
        bench.cluster.story.states[target.partition] = new
        assert "the topic is gone" in left_reason(bench)

    def test_a_deleted_topic_is_left_alone(self, bench: Bench) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "reorder")
        del bench.cluster.story.states[target.partition]
        assert "the topic is gone" in left_reason(bench)

    def test_another_leader_is_no_failure_when_the_order_was_never_changed(
        self, bench: Bench
    ) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "reorder")
        lead(bench, target, 3)
        with resumed(bench) as journal:
            (outcome,) = journal.finish()
        assert (outcome.result, outcome.reason) == (RecoveryResult.ALREADY_ONLINE, "led by b3")

    def test_r13_another_leader_in_our_order_is_named_and_the_order_left(
        self, bench: Bench
    ) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "reorder", announced=False)
        lead(bench, target, 2)
        assert left_reason(bench) == (
            "b2 leads it, not b1, in the order that was written for the election: reassign it to "
            "[3, 2, 1] if you want the old one"
        )
        assert bench.assignment(target) == WRITTEN

    def test_r13_a_partition_that_is_moved_keeps_its_order(self, bench: Bench) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "restore order")
        bench.cluster.story.reassignments[target.partition] = Reassignment((4,), ())
        assert "a reassignment runs" in left_reason(bench)
        assert bench.assignment(target) == WRITTEN

    def test_r13_an_order_that_we_did_not_write_is_not_put_back(self, bench: Bench) -> None:
        """It is the one we wanted, but the journal does not announce that we wrote it."""
        (target,) = bench.offline()
        plan(bench, [target])
        bench.journal.close()
        lead(bench, target, 1, assignment=WRITTEN)
        with resumed(bench) as journal:
            assert [one.result for one in journal.finish()] == [RecoveryResult.ELECTED]
        assert bench.assignment(target) == WRITTEN
        assert bench.controller.steps == []

    def test_r06_a_designee_that_leads_and_hangs_is_unknown_however_often_it_is_asked(
        self, bench: Bench
    ) -> None:
        targets = bench.offline()
        killed(bench, targets, "elect", announced=False)
        bench.hang(1)
        bench.elect = bench.electing_through(2)
        for _ in range(2):
            with resumed(bench) as journal:
                assert [one.result for one in journal.finish()] == [RecoveryResult.UNKNOWN]
            assert [step.name for step in bench.written().unsettled] == ["elect"]
        assert bench.assignment(targets[0]) == WRITTEN
        bench.revive(1)
        with resumed(bench) as journal:
            assert all(one.succeeded for one in journal.finish())
        assert bench.assignment(targets[0]) == ORIGINAL


class TestUndoing:
    def test_what_was_reordered_and_not_elected_gets_its_order_back(self, bench: Bench) -> None:
        targets = bench.offline(count=2)
        killed(bench, targets, "elect")
        assert bench.assignment(targets[0]) == WRITTEN
        with resumed(bench) as journal:
            outcomes = journal.undo()
        assert {outcome.result for outcome in outcomes} == {RecoveryResult.UNDONE}
        assert {bench.assignment(target) for target in targets} == {ORIGINAL}
        assert {bench.leader(target) for target in targets} == {None}
        assert (result(bench), bench.written().unsettled) == ("undone", ())

    def test_what_was_announced_and_not_sent_needs_nothing(self, bench: Bench) -> None:
        targets = bench.offline()
        killed(bench, targets, "reorder")
        with resumed(bench) as journal:
            (outcome,) = journal.undo()
        assert (outcome.result, outcome.reason) == (RecoveryResult.UNDONE, "its order is as it was")
        assert bench.controller.steps == []

    @pytest.mark.parametrize("step", ["elect", "restore order"])
    def test_an_election_is_not_undone_and_is_named(self, bench: Bench, step: str) -> None:
        targets = bench.offline()
        killed(bench, targets, step, announced=False)
        sent = len(bench.controller.steps)
        with resumed(bench) as journal:
            (outcome,) = journal.undo()
        assert (outcome.result, outcome.reason) == (
            RecoveryResult.REFUSED,
            "b1 leads it: an election cannot be undone",
        )
        assert len(bench.controller.steps) == sent
        assert result(bench) == "partly failed"

    def test_somebody_elses_order_is_left(self, bench: Bench) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "elect")
        state = bench.cluster.story.states[target.partition]
        bench.cluster.story.states[target.partition] = replace(state, assignment=(2, 1, 3))
        assert "its order is [2, 1, 3], which is not ours" in undone_reason(bench)
        assert bench.assignment(target) == (2, 1, 3)

    def test_r01_it_is_refused_where_the_write_itself_would_elect(self, bench: Bench) -> None:
        """b3 is back: whoever writes an order, its own or ours, elects it, empty or not."""
        (target,) = bench.offline()
        killed(bench, [target], "elect")
        bench.cluster.story.fenced = set()
        assert "writing the order would elect b3" in undone_reason(bench)
        assert (bench.assignment(target), bench.leader(target)) == (WRITTEN, None)

    def test_r14_it_is_refused_where_the_topic_elects_by_its_order(self, bench: Bench) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "elect")
        bench.cluster.story.settings["orders"] = {"unclean.leader.election.enable": "true"}
        assert "may allow unclean elections" in undone_reason(bench)
        assert bench.assignment(target) == WRITTEN

    def test_r12_it_is_refused_while_a_reassignment_runs(self, bench: Bench) -> None:
        (target,) = bench.offline()
        killed(bench, [target], "elect")
        bench.cluster.story.reassignments[target.partition] = Reassignment((4,), ())
        assert "a reassignment runs" in undone_reason(bench)

    def test_a_lost_answer_is_unknown_and_found_out_by_the_next_one(self, bench: Bench) -> None:
        targets = bench.offline()
        killed(bench, targets, "elect")
        bench.controller.next(REORDER, unanswered)
        with resumed(bench) as journal:
            assert [one.result for one in journal.undo()] == [RecoveryResult.UNKNOWN]
        with resumed(bench) as journal:
            assert [one.result for one in journal.undo()] == [RecoveryResult.UNDONE]
        assert (result(bench), bench.written().unsettled) == ("undone", ())

    def test_undone_it_can_still_be_finished(self, bench: Bench) -> None:
        targets = bench.offline()
        killed(bench, targets, "elect")
        with resumed(bench) as journal:
            journal.undo()
        with resumed(bench) as journal:
            assert [one.result for one in journal.finish()] == [RecoveryResult.ELECTED]
        assert bench.assignment(targets[0]) == ORIGINAL


class TestConsent:
    def test_the_journals_own_counts(self, bench: Bench) -> None:
        killed(bench, bench.offline(), "reorder")
        assert consented(bench.written())

    def test_without_a_plan_there_is_none(self, bench: Bench) -> None:
        assert not consented(bench.written())

    def test_one_given_before_the_plan_was_for_something_else(self, bench: Bench) -> None:
        bench.journal.consent("orders-0 lose 0")
        bench.journal.plan("", "", {})
        assert not consented(bench.written())

    def test_every_phrase_that_was_needed_has_to_be_there(self, bench: Bench) -> None:
        """Killed between two of them."""
        plan(bench, bench.offline(), consents=2)
        assert not consented(bench.written())
        bench.journal.consent("__consumer_offsets-0 lose 0")
        assert consented(bench.written())


class TestWhatTheJournalSays:
    def test_a_plan_that_says_too_little_is_completed_by_its_requests(self, bench: Bench) -> None:
        targets = bench.offline()
        bench.journal.plan("", "", {targets[0].partition: {"designee": 1, **AGREED}})
        bench.journal.consent("orders-0 lose 0")
        bench.journal.request("reorder", {targets[0].partition: described(targets[0])})
        bench.journal.close()
        with resumed(bench) as journal:
            assert [one.result for one in journal.finish()] == [RecoveryResult.ELECTED]

    def test_what_was_never_described_is_named(self, bench: Bench) -> None:
        (target,) = bench.offline()
        bench.journal.plan("", "", {target.partition: {"designee": 1}})
        assert "the journal does not say how it was to be elected" in left_reason(bench)

    def test_an_unsettled_preferred_election_is_named_unless_it_came_true(
        self, bench: Bench
    ) -> None:
        held, lost = bench.offline(count=2)
        wanted = {target.partition: {"designee": 1} for target in (held, lost)}
        bench.journal.request("preferred election", wanted)
        lead(bench, held, 1)
        lead(bench, lost, 2)
        snapshot = survey(bench.read, bench.written(), 5.0).snapshot
        left = remains(bench.written(), snapshot).left
        assert [one.partition for one in left] == [lost.partition]

    def test_what_has_been_rescued_is_not_rescued_again(self, bench: Bench) -> None:
        saved, unsaved = bench.offline(count=2)
        plan(bench, [saved, unsaved])
        request = bench.journal.request(
            RESCUE, {target.partition: described(target) for target in (saved, unsaved)}
        )
        bench.journal.outcome(request, {saved.partition: {"result": SAVED}})
        bench.journal.close()
        rescue = RescueOfAll()
        with resumed(bench) as journal:
            journal.rescue = rescue
            assert {one.result for one in journal.finish()} == {RecoveryResult.ELECTED}
        assert rescue.saved == [unsaved.partition]

    def test_r16_a_loss_agreed_to_as_unknown_is_not_priced_again(self, bench: Bench) -> None:
        (target,) = bench.offline()
        plan(bench, [replace(target, log_end=None)], price=str(Price(Unknown("b1 was unread"))))
        bench.journal.close()
        bench.cluster.hold(2, target.partition, (0, 100), (4, 35))
        with resumed(bench) as journal:
            assert [one.result for one in journal.finish()] == [RecoveryResult.ELECTED]

    def test_r16_a_broker_that_came_back_since_is_no_part_of_a_loss_agreed_to_as_unknown(
        self, bench: Bench
    ) -> None:
        (target,) = bench.offline()
        unread = replace(target, log_end=None, live=())
        plan(bench, [unread], price=str(Price(Unknown("b2 was unread"))))
        bench.journal.close()
        bench.cluster.hold(2, target.partition, (0, 100), (4, 35))
        with resumed(bench) as journal:
            (outcome,) = journal.finish()
        assert outcome.result is RecoveryResult.REFUSED
        assert "b2 came back since the price was counted" in outcome.reason


@dataclass
class RescueOfAll:
    """Says that everything needs rescue, and remembers what it was asked to save."""

    saved: list[TopicPartition] = field(default_factory=list)

    def needed(self, target: ElectionTarget) -> bool:
        return True

    def save(
        self, targets: Sequence[ElectionTarget], journal: ExecutionJournal
    ) -> Mapping[TopicPartition, str]:
        self.saved += [target.partition for target in targets]
        return {}


def lead(bench: Bench, target: ElectionTarget, leader: int, **change: Any) -> None:
    """Let *leader* lead the partition."""
    state = bench.cluster.story.states[target.partition]
    led = replace(state, leader=leader, leader_epoch=6, isr=(leader,), last_known_elr=())
    bench.cluster.story.states[target.partition] = replace(led, **change)


def left_reason(bench: Bench) -> str:
    """Why the one partition is left, having been finished as far as may be."""
    bench.journal.close()
    with resumed(bench) as journal:
        (left,) = journal.survey.to_finish.left
        assert journal.finish() == []
    return str(left.reason)


def undone_reason(bench: Bench) -> str:
    """Why the one partition is not undone."""
    with resumed(bench) as journal:
        (outcome,) = journal.undo()
    assert outcome.result is RecoveryResult.REFUSED
    return str(outcome.reason)
