"""Taking up a journal after a crash at any point: finished or undone, or named what is left."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from syrupy.assertion import SnapshotAssertion

from breakglass.services import patience
from breakglass.services.errors import WrongCluster
from breakglass.services.guard.consent import Price
from breakglass.services.guard.journal import Journal, JournalView
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import Reassignment, TopicPartition, Unknown
from breakglass.services.recovery.execution.run import Recovery, Rescue
from breakglass.services.recovery.execution.steps import (
    RESCUE,
    ExecutionLimits,
    described,
    native_route,
)
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from breakglass.services.recovery.group_standing import cuts_in
from breakglass.services.recovery.ledger.copies import not_sent_in
from breakglass.services.recovery.remembered.recollection import abandonments_in, elections_in
from breakglass.services.recovery.rescue.rescue import SAVED
from breakglass.services.recovery.unfinished import (
    JournalSurvey,
    Resume,
    consented,
    ended_as,
    remains,
    survey,
)
from tests.kit.fake_broker import HangUp
from tests.kit.fake_controller import FakeController, after, unanswered
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.targets import ANOTHER_TOPIC_ID

REORDER, ELECT = AlterPartitionReassignmentsRequest, ElectLeadersRequest
ORIGINAL, WRITTEN = (3, 2, 1), (1, 2, 3)
STEPS = ("reorder", "elect", "restore order")
ELECTED, REFUSED = RecoveryResult.ELECTED, RecoveryResult.REFUSED
UNHURRIED = DEADLINE_SECONDS
"""Ends a hang: no broker that answers at all is this slow."""


@pytest.fixture
def bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The bench of executions, no healthy broker of which is judged by a clock."""
    for kind in ("CONTROLLER", "LEADER", "LOOK", "ONE_BROKER", "REQUEST", "SNAPSHOT"):
        monkeypatch.setattr(patience, kind, UNHURRIED)
    bench.limits = ExecutionLimits(UNHURRIED, UNHURRIED, UNHURRIED, UNHURRIED)
    return bench


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

    def __getattr__(self, name: str) -> Any:
        return getattr(self.journal, name)

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
        return survey(self.bench.read, self.view, UNHURRIED)

    @property
    def resume(self) -> Resume:
        bench = self.bench
        recovery = Recovery(
            bench.elect, self.journal, bench.choose_route, self.rescue, bench.limits, bench.stop
        )
        return Resume(recovery, self.survey)

    def finish(self) -> list[PartitionOutcome]:
        return self._ended(self.resume.finish())

    def undo(self) -> list[PartitionOutcome]:
        return self._ended(self.resume.undo(), undone=True)

    def _ended(
        self, batches: Iterable[Sequence[PartitionOutcome]], *, undone: bool = False
    ) -> list[PartitionOutcome]:
        """Write down how it ended, as the act does."""
        done = [outcome for batch in batches for outcome in batch]
        remains = self.survey.remains if undone else self.survey.to_finish
        word = ended_as(remains, done, undone=undone)
        if word is not None:
            self.journal.finish(word)
        return done


@contextmanager
def resumed(bench: Bench, path: Path | None = None) -> Iterator[Resumed]:
    """The journal of *bench*, or that at *path*, taken up in a state folder of its own."""
    bench.journal.close()
    journal, view = Journal.resume(path or bench.journal.path, bench.journal.path.parent / "here")
    with journal:
        yield Resumed(bench, journal, view)


def finished(bench: Bench, path: Path | None = None) -> list[PartitionOutcome]:
    with resumed(bench, path) as journal:
        return journal.finish()


def undone(bench: Bench) -> list[PartitionOutcome]:
    with resumed(bench) as journal:
        return journal.undo()


def results(outcomes: Iterable[PartitionOutcome]) -> list[RecoveryResult]:
    return [outcome.result for outcome in outcomes]


def ended(bench: Bench) -> tuple[str | None, tuple[str, ...]]:
    """The result in the journal, and the steps that are still unsettled."""
    view = bench.written()
    return view.result, tuple(step.name for step in view.unsettled)


def change(bench: Bench, target: ElectionTarget, **changed: Any) -> None:
    """Change what the controller knows of the partition."""
    state = bench.cluster.story.states[target.partition]
    bench.cluster.story.states[target.partition] = replace(state, **changed)


def lead(bench: Bench, target: ElectionTarget, leader: int, **changed: Any) -> None:
    led = {"leader": leader, "leader_epoch": 6, "isr": (leader,), "last_known_elr": ()}
    change(bench, target, **led, **changed)


def assert_led_in_its_order(bench: Bench, targets: Sequence[ElectionTarget]) -> None:
    assert {bench.leader(target) for target in targets} == {1}
    assert {bench.assignment(target) for target in targets} == {ORIGINAL}


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "answered"])
@pytest.mark.parametrize("step", STEPS)
def test_r37_killed_at_any_step_it_ends_in_the_planned_state_and_the_journal_names_every_cut(
    bench: Bench, step: str, announced: bool
) -> None:
    targets = bench.offline(count=4)
    killed(bench, targets, step, announced=announced)
    outcomes = finished(bench)
    partitions = [target.partition for target in targets]
    assert sorted(outcome.partition for outcome in outcomes) == partitions
    assert all(outcome.succeeded for outcome in outcomes)
    assert_led_in_its_order(bench, targets)
    assert ended(bench) == ("succeeded", ())
    journal = bench.written()
    assert sorted(cut.partition for cut in cuts_in(journal)) == partitions
    assert sorted(one.partition for one in abandonments_in(journal)) == partitions
    assert sorted(partition for (_, partition, _), _ in elections_in(journal)) == partitions


@pytest.mark.parametrize("leader", [1, 2], ids=["the designee", "another replica"])
def test_a_leader_that_another_client_elected_meanwhile_is_in_the_journal(
    bench: Bench, leader: int
) -> None:
    (target,) = bench.offline()
    plan(bench, [target])
    lead(bench, target, leader, assignment=ORIGINAL)
    finished(bench)
    noted = not_sent_in(bench.written())[target.partition]
    assert (noted["result"], noted["leader"]) in {("already online", leader), ("elected", leader)}


def test_a_designee_that_another_leader_has_cut_meanwhile_is_not_called_elected(
    bench: Bench,
) -> None:
    (target,) = targets = bench.offline()
    killed(bench, targets, "elect", announced=False)
    lead(bench, target, 1, assignment=WRITTEN)
    bench.cluster.hold(1, target.partition, (0, 0))
    (outcome,) = finished(bench)
    assert outcome.result is RecoveryResult.ELECTED_ANOTHER
    assert f"its log ends at 0, and ended at {target.log_end}" in outcome.reason
    assert bench.assignment(target) == ORIGINAL, "its order stays as it was written"
    assert ended(bench)[0] != "succeeded"


@pytest.mark.parametrize("step", STEPS)
def test_killed_twice_it_ends_all_the_same(bench: Bench, step: str) -> None:
    targets = bench.offline(count=2)
    killed(bench, targets, "reorder", announced=False)
    with resumed(bench) as journal:
        resume = journal.resume
        resume.recovery.journal = cast("Journal", Killed(journal.journal, step, announced=True))
        with pytest.raises(Crash):
            list(resume.finish())
    assert all(one.succeeded for one in finished(bench))
    assert_led_in_its_order(bench, targets)


def test_r13_an_order_written_before_is_put_back_whichever_way_it_is_finished(bench: Bench) -> None:
    """Reordered by a run that knew no designated elections, elected by one that does."""
    (target,) = bench.offline()
    killed(bench, [target], "reorder", announced=False)
    FakeController(bench.cluster, designates=True)
    bench.choose_route, bench.elect = native_route, bench.electing_through(1)
    (outcome,) = finished(bench)
    assert (outcome.result, outcome.order_restored) == (ELECTED, True)
    assert bench.assignment(target) == ORIGINAL


def test_on_request_it_stops_between_two_batches_and_stays_unfinished(bench: Bench) -> None:
    plan(bench, bench.offline(count=3))
    asked: list[bool] = []
    bench.stop = lambda: bool(asked)
    bench.controller.next(ELECT, after(lambda: asked.append(True)))
    assert results(finished(bench)) == [ELECTED, *2 * [RecoveryResult.NOT_ATTEMPTED]]
    assert bench.written().result is None


def test_the_journal_of_another_cluster_is_refused(bench: Bench) -> None:
    killed(bench, bench.offline(), "reorder")
    with pytest.raises(WrongCluster):
        survey(bench.read, replace(bench.written(), cluster_id="another"), UNHURRIED)


def b3_returns(bench: Bench, _: ElectionTarget) -> None:
    bench.cluster.story.fenced = set()


def b2_returns_with_more(bench: Bench, target: ElectionTarget) -> None:
    bench.cluster.hold(2, target.partition, (0, 100), (4, 35))


def topic_is_deleted(bench: Bench, target: ElectionTarget) -> None:
    del bench.cluster.story.states[target.partition]


def reassignment_runs(bench: Bench, target: ElectionTarget) -> None:
    bench.cluster.story.reassignments[target.partition] = Reassignment((4,), ())


def unclean_is_on(bench: Bench, _: ElectionTarget) -> None:
    bench.cluster.story.settings["orders"] = {"unclean.leader.election.enable": "true"}


Meanwhile = Callable[[Bench, ElectionTarget], None]


@pytest.mark.parametrize(
    ("meanwhile", "result"),
    [
        pytest.param(partial(change, leader_epoch=9), REFUSED, id="it was led again"),
        pytest.param(b3_returns, REFUSED, id="R1: the last leader is back"),
        pytest.param(
            partial(lead, leader=3), RecoveryResult.ALREADY_ONLINE, id="another leads, order kept"
        ),
        pytest.param(b2_returns_with_more, None, id="a better replica is back: the price rose"),
        pytest.param(
            partial(change, topic_id=ANOTHER_TOPIC_ID), None, id="the topic was created anew"
        ),
        pytest.param(topic_is_deleted, None, id="the topic was deleted"),
    ],
)
def test_what_changed_since_the_reorder_was_announced_is_not_elected(
    bench: Bench, meanwhile: Meanwhile, result: RecoveryResult | None, snapshot: SnapshotAssertion
) -> None:
    """None: it is left, with its reason."""
    (target,) = bench.offline()
    killed(bench, [target], "reorder")
    meanwhile(bench, target)
    with resumed(bench) as journal:
        left = journal.survey.to_finish.left
        outcomes = journal.finish()
    assert results(outcomes) == ([] if result is None else [result])
    reasons = [one.reason for one in left] + [one.reason for one in outcomes]
    assert reasons == snapshot
    assert bench.controller.steps == []
    if result is not RecoveryResult.ALREADY_ONLINE:
        assert bench.written().result == "partly failed"


@pytest.mark.parametrize(
    "agreed",
    [
        pytest.param({"abandons": []}, id="another broker is unread"),
        pytest.param({"unread_at_least": 0}, id="more is known to be unread"),
        pytest.param(None, id="the journal does not describe the election"),
    ],
)
def test_what_was_not_agreed_to_is_left(
    bench: Bench, agreed: dict[str, Any] | None, snapshot: SnapshotAssertion
) -> None:
    (target,) = bench.offline()
    bench.cluster.story.groups["billing"] = {target.partition: 130}
    item = {"designee": 1} if agreed is None else {**described(target), **AGREED, **agreed}
    bench.journal.plan("", "", {target.partition: item})
    bench.journal.consent("orders-0 lose 0")
    with resumed(bench) as journal:
        left = journal.survey.to_finish.left
        assert journal.finish() == []
    assert [one.reason for one in left] == snapshot
    assert bench.controller.steps == []


@pytest.mark.parametrize(
    ("step", "announced", "meanwhile"),
    [
        pytest.param("reorder", False, partial(lead, leader=2), id="another leads in our order"),
        pytest.param("restore order", True, reassignment_runs, id="it is moved"),
    ],
)
def test_r13_the_order_is_left_where_it_may_not_be_put_back(
    bench: Bench, step: str, announced: bool, meanwhile: Meanwhile, snapshot: SnapshotAssertion
) -> None:
    (target,) = bench.offline()
    killed(bench, [target], step, announced=announced)
    meanwhile(bench, target)
    with resumed(bench) as journal:
        left = journal.survey.to_finish.left
        assert journal.finish() == []
    assert [one.reason for one in left] == snapshot
    assert bench.assignment(target) == WRITTEN


def test_r13_what_another_client_elected_keeps_its_order_and_is_not_called_ours(
    bench: Bench,
) -> None:
    """It is the order we wanted, but the journal does not announce that we wrote it."""
    (target,) = bench.offline()
    plan(bench, [target])
    lead(bench, target, 1, assignment=WRITTEN)
    (outcome,) = finished(bench)
    assert (outcome.result, outcome.reason) == (
        RecoveryResult.ALREADY_ONLINE,
        "another client elected it",
    )
    assert (bench.assignment(target), bench.controller.steps) == (WRITTEN, [])


def test_r06_a_designee_that_leads_and_does_not_speak_is_unknown_however_often_it_is_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (target,) = bench.offline()
    killed(bench, [target], "elect", announced=False)
    designee = bench.cluster.brokers[1]
    with monkeypatch.context() as mute:
        mute.setattr(patience, "LEADER", 0.1)
        designee.serve(ListOffsetsRequest, hang_up)
        for _ in range(2):
            assert results(finished(bench)) == [RecoveryResult.UNKNOWN]
            assert ended(bench)[1] == ("elect",)
    assert bench.assignment(target) == WRITTEN
    designee.serve(ListOffsetsRequest, bench.cluster.apis(1)[ListOffsetsRequest])
    assert all(one.succeeded for one in finished(bench))
    assert bench.assignment(target) == ORIGINAL


def hang_up(_: object) -> NoReturn:
    raise HangUp


def test_what_was_reordered_and_not_elected_gets_its_order_back(bench: Bench) -> None:
    targets = bench.offline(count=2)
    killed(bench, targets, "elect")
    assert bench.assignment(targets[0]) == WRITTEN
    assert results(undone(bench)) == [RecoveryResult.UNDONE] * 2
    assert {bench.assignment(target) for target in targets} == {ORIGINAL}
    assert {bench.leader(target) for target in targets} == {None}
    assert ended(bench) == ("undone", ())
    assert results(finished(bench)) == [ELECTED] * 2, "it can still be finished"
    assert_led_in_its_order(bench, targets)


@pytest.mark.parametrize(
    ("step", "announced", "meanwhile"),
    [
        pytest.param("elect", False, None, id="it was elected"),
        pytest.param("restore order", False, None, id="its order is back"),
        pytest.param("elect", True, partial(change, assignment=(2, 1, 3)), id="an order not ours"),
        pytest.param("elect", True, b3_returns, id="R1: the write itself would elect b3"),
        pytest.param("elect", True, unclean_is_on, id="R14: the topic elects by its order"),
        pytest.param("elect", True, reassignment_runs, id="R12: a reassignment runs"),
    ],
)
def test_what_cannot_be_undone_is_refused_and_left_as_it_is(
    bench: Bench,
    step: str,
    announced: bool,
    meanwhile: Meanwhile | None,
    snapshot: SnapshotAssertion,
) -> None:
    (target,) = bench.offline()
    killed(bench, [target], step, announced=announced)
    if meanwhile is not None:
        meanwhile(bench, target)
    before = bench.cluster.story.states[target.partition], len(bench.controller.steps)
    (outcome,) = undone(bench)
    assert (outcome.result, bench.written().result) == (REFUSED, "partly failed")
    assert outcome.reason == snapshot
    assert before == (bench.cluster.story.states[target.partition], len(bench.controller.steps))


def test_a_lost_answer_is_unknown_and_found_out_by_the_next_one(bench: Bench) -> None:
    killed(bench, bench.offline(), "elect")
    bench.controller.next(REORDER, unanswered)
    assert results(undone(bench)) == [RecoveryResult.UNKNOWN]
    assert results(undone(bench)) == [RecoveryResult.UNDONE]
    assert ended(bench) == ("undone", ())


def test_a_consent_counts_for_the_plan_before_it_once_every_phrase_is_there(bench: Bench) -> None:
    """Killed between two of them."""
    assert not consented(bench.written()), "there is no plan"
    bench.journal.consent("orders-0 lose 0")
    plan(bench, bench.offline(), consents=2)
    assert not consented(bench.written())
    bench.journal.consent("__consumer_offsets-0 lose 0")
    assert consented(bench.written())


def test_a_plan_that_says_too_little_is_completed_by_its_requests(bench: Bench) -> None:
    (target,) = bench.offline()
    bench.journal.plan("", "", {target.partition: {"designee": 1, **AGREED}})
    bench.journal.consent("orders-0 lose 0")
    bench.journal.request("reorder", {target.partition: described(target)})
    assert results(finished(bench)) == [ELECTED]


def test_an_unsettled_preferred_election_is_named_unless_it_came_true(bench: Bench) -> None:
    held, lost = bench.offline(count=2)
    wanted = {target.partition: {"designee": 1} for target in (held, lost)}
    bench.journal.request("preferred election", wanted)
    lead(bench, held, 1)
    lead(bench, lost, 2)
    snapshot = survey(bench.read, bench.written(), UNHURRIED).snapshot
    left = remains(bench.written(), snapshot).left
    assert [one.partition for one in left] == [lost.partition]


def test_what_has_been_rescued_is_not_rescued_again(bench: Bench) -> None:
    targets = saved, unsaved = bench.offline(count=2)
    plan(bench, targets)
    items = {target.partition: described(target) for target in targets}
    request = bench.journal.request(RESCUE, items)
    bench.journal.outcome(request, {saved.partition: {"result": SAVED}})
    with resumed(bench) as journal:
        journal.rescue = rescue = RescueOfAll()
        assert results(journal.finish()) == [ELECTED] * 2
    assert rescue.saved == [unsaved.partition]


@pytest.mark.parametrize(
    ("live", "result"),
    [
        pytest.param((2,), ELECTED, id="nothing changed"),
        pytest.param((), REFUSED, id="b2 came back since"),
    ],
)
def test_r16_a_loss_agreed_to_as_unknown_is_not_priced_again_unless_a_broker_came_back(
    bench: Bench, live: tuple[int, ...], result: RecoveryResult
) -> None:
    (target,) = bench.offline()
    unread = replace(target, log_end=None, live=live)
    plan(bench, [unread], price=str(Price(Unknown("a log was unread"))))
    b2_returns_with_more(bench, target)
    assert results(finished(bench)) == [result]


@dataclass
class RescueOfAll:
    """Says that everything needs rescue, and remembers what it was asked to save."""

    saved: list[TopicPartition] = field(default_factory=list)

    def needed(self, target: ElectionTarget) -> bool:
        return True

    def save(
        self, targets: Sequence[ElectionTarget], journal: Journal
    ) -> Mapping[TopicPartition, str]:
        self.saved += [target.partition for target in targets]
        return {}
