"""Unknown outcomes looked up again: the cluster is only read, and the journal completed."""

from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from breakglass.services import patience
from breakglass.services.errors import AlreadyRunning, WrongCluster
from breakglass.services.guard import steps
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.lock import ClusterLock
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.recovery.execution.steps import PREFERRED, RESCUE
from breakglass.services.recovery.guarded.check_again import CheckedAgain, check_again
from tests.kit.fake_broker import Reply
from tests.kit.fake_controller import Act, Answer, unanswered, unheard
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.guarded.conftest import Session, limits

LOST = 0.1
"""Seconds in which no leader comes and b1 says nothing: no answer makes a difference."""


def unknown(session: Session, act: Act, request: type = ElectLeadersRequest) -> Path:
    """The journal of an election whose answer never came, while b1 did not say that it leads."""
    session.offline()

    def lose(sent: Any, answer: Answer) -> Reply:
        session.mute(1)
        silence.setattr(patience, "LEADER", LOST)
        return act(sent, answer)

    session.controller.next(request, lose)
    with pytest.MonkeyPatch.context() as silence:
        election = session.election(session.wanted(), limits=limits(confirmation=LOST))
        election.run(election.phrases)
    session.speak(1)
    (journal,) = session.journals()
    assert journal.unsettled
    return journal.path


def again(session: Session, path: Path) -> CheckedAgain:
    return check_again(session.read, path, limits(), session.state)


def test_an_election_that_was_held_is_confirmed_and_its_order_left_to_a_resume(
    session: Session,
) -> None:
    path = unknown(session, unanswered)
    sent = session.controller.steps
    found = again(session, path)
    assert {(answer.step, answer.result) for answer in found.answers} == {("elect", "elected")}
    assert (found.unsettled, read(path).unsettled) == ((), ())
    (led,) = found.remains.led
    assert led.ours
    assert found.view.result == "partly failed"
    assert session.controller.steps == sent, "nothing was sent"


@pytest.mark.parametrize(
    ("request_class", "settled"),
    [
        (ElectLeadersRequest, ("elect", "not elected")),
        (AlterPartitionReassignmentsRequest, ("reorder", "not written")),
    ],
)
def test_what_never_happened_is_settled_too(
    session: Session, request_class: type, settled: tuple[str, str]
) -> None:
    found = again(session, unknown(session, unheard, request_class))
    assert {(answer.step, answer.result) for answer in found.answers} == {settled}
    (partition,) = session.cluster.story.states
    assert [left.target.partition for left in found.remains.offline] == [partition]


STEPS = [getattr(steps, name) for name in vars(steps) if name.isupper()]


@pytest.mark.parametrize("ended", [None, "succeeded"], ids=["killed", "called a success before"])
@pytest.mark.parametrize("step", [*STEPS, PREFERRED, RESCUE])
def test_r49_a_check_calls_nothing_a_success_that_it_did_not_see(
    session: Session, step: str, ended: str | None
) -> None:
    """Its process was killed after it had announced the step: nothing tells what became of that."""
    (partition,) = session.offline()
    session.change(partition, leader=2, leader_epoch=6, isr=(2,), last_known_elr=())
    with Journal.open(CLUSTER_ID, session.state) as journal:
        if step == RESCUE:
            journal.plan("digest", "evidence", {})
        journal.request(step, {partition: {"designee": 1}})
        if ended is not None:
            journal.finish(ended)
    found = again(session, journal.path)
    assert found.view.result == ("partly failed" if ended else None)
    assert (step == PREFERRED) is not bool(found.unsettled)


def test_r49_a_replica_that_was_added_is_a_success_once_it_is_in_sync(session: Session) -> None:
    (partition,) = session.offline()
    with Journal.open(CLUSTER_ID, session.state) as journal:
        item = {"assignment": (3, 1), "order": (3, 1, 2)}
        journal.request(steps.ADD_REPLICAS, {partition: item})
        journal.finish("partly failed")
    for isr, result in (((1,), "partly failed"), ((1, 2), "succeeded")):
        session.change(partition, leader=1, assignment=(3, 1, 2), isr=isr)
        assert again(session, journal.path).view.result == result


def test_a_replica_of_which_the_cluster_has_nothing_was_not_added(session: Session) -> None:
    """The process was killed before its request was sent."""
    (partition,) = session.offline()
    session.change(partition, leader=1, assignment=(3, 1), isr=(1,))
    with Journal.open(CLUSTER_ID, session.state) as journal:
        item = {"assignment": (3, 1), "order": (3, 1, 2)}
        journal.request(steps.ADD_REPLICAS, {partition: item})
    found = again(session, journal.path)
    assert [answer.result for answer in found.answers] == ["not written"]
    assert found.unsettled == ()


def test_another_cluster_is_refused_and_the_journal_left_alone(session: Session) -> None:
    path = unknown(session, unanswered)
    before = path.read_bytes()
    session.cluster.story.cluster_id = "another"
    with pytest.raises(WrongCluster):
        again(session, path)
    assert path.read_bytes() == before


def test_nothing_is_looked_up_while_another_process_changes_the_cluster(session: Session) -> None:
    path = unknown(session, unanswered)
    lock = ClusterLock.acquire(CLUSTER_ID, session.state / "locks")
    try:
        with pytest.raises(AlreadyRunning):
            again(session, path)
    finally:
        lock.release()
