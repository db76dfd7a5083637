"""Unknown outcomes looked up again: read-only on the cluster, and told to the journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from breakglass.services.errors import AlreadyRunning, WrongCluster
from breakglass.services.guard.journal import read
from breakglass.services.guard.lock import ClusterLock
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.recovery.execution.batches import ExecutionLimits
from breakglass.services.recovery.guarded.check_again import CheckedAgain, check_again
from tests.kit.fake_broker import Reply
from tests.kit.fake_controller import Act, Answer, unanswered, unheard
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.guarded.conftest import Session

PHRASE = "orders-0 lose 0 and abandon b3"


def unknown(session: Session, act: Act, request: type = ElectLeadersRequest) -> Path:
    """The journal of an election whose answer never came, while b1 did not speak."""
    session.offline()
    wanted = session.wanted()

    def hang(sent: Any, answer: Answer) -> Reply:
        session.cluster.brokers[1].hung = True
        return act(sent, answer)

    session.controller.next(request, hang)
    session.election(wanted).run([PHRASE])
    session.cluster.brokers[1].hung = False
    (journal,) = session.journals()
    assert journal.unsettled
    return journal.path


def again(session: Session, path: Path) -> CheckedAgain:
    return check_again(session.read, path, ExecutionLimits(confirmation=0.5), session.state)


def test_an_election_that_was_held_is_confirmed_by_the_leader_itself(session: Session) -> None:
    path = unknown(session, unanswered)
    sent = session.controller.steps
    found = again(session, path)
    assert {(answer.step, answer.result) for answer in found.answers} == {("elect", "elected")}
    assert found.unsettled == ()
    assert read(path).unsettled == ()
    assert session.controller.steps == sent, "nothing was sent"


def test_an_order_that_still_stands_is_left_to_a_resume(session: Session) -> None:
    """Confirmed, but the assignment is not back in its order: the journal is not done."""
    path = unknown(session, unanswered)
    found = again(session, path)
    (led,) = found.remains.led
    assert led.ours
    assert found.view.result == "partly failed"


def test_an_election_that_never_happened_is_settled_too(session: Session) -> None:
    path = unknown(session, unheard)
    found = again(session, path)
    assert {(answer.step, answer.result) for answer in found.answers} == {("elect", "not elected")}
    assert [partition.target.partition for partition in found.remains.offline] == [
        next(iter(session.cluster.story.states))
    ]


def test_an_order_that_was_never_written_is_settled_too(session: Session) -> None:
    path = unknown(session, unheard, AlterPartitionReassignmentsRequest)
    found = again(session, path)
    assert {(answer.step, answer.result) for answer in found.answers} == {
        ("reorder", "not written")
    }


def test_another_leader_than_the_one_agreed_to_is_no_success(session: Session) -> None:
    """Nothing is left to be done, and what was agreed to has not happened."""
    path = unknown(session, unheard)
    (partition,) = session.cluster.story.states
    state = session.cluster.story.states[partition]
    led_by_b2 = replace(state, leader=2, leader_epoch=6, isr=(2,), last_known_elr=())
    session.cluster.story.states[partition] = replace(led_by_b2, assignment=(3, 2, 1))
    found = again(session, path)
    assert {(answer.step, answer.result) for answer in found.answers} == {
        ("elect", "elected another")
    }
    assert found.view.result == "partly failed"


def test_a_leader_that_still_does_not_speak_stays_unknown(session: Session) -> None:
    path = unknown(session, unanswered)
    session.cluster.brokers[1].hung = True
    read_by_b2 = session.cluster.client(2)
    try:
        found = check_again(read_by_b2, path, ExecutionLimits(confirmation=0.5), session.state)
    finally:
        read_by_b2.close()
    assert [answer.settled for answer in found.answers] == [False]
    assert read(path).unsettled


def test_a_journal_of_settled_steps_is_left_as_it_is(session: Session) -> None:
    session.offline()
    session.election(session.wanted()).run([PHRASE])
    (journal,) = session.journals()
    before = journal.path.read_bytes()
    assert again(session, journal.path).answers == ()
    assert journal.path.read_bytes() == before


def test_another_cluster_is_refused_and_the_journal_left_alone(session: Session) -> None:
    path = unknown(session, unanswered)
    before = path.read_bytes()
    session.cluster.story.cluster_id = "another"
    with pytest.raises(WrongCluster, match="connect to the cluster"):
        again(session, path)
    assert path.read_bytes() == before


def test_nobody_is_looked_up_while_somebody_changes_the_cluster(session: Session) -> None:
    path = unknown(session, unanswered)
    lock = ClusterLock.acquire(CLUSTER_ID, session.state / "locks")
    try:
        with pytest.raises(AlreadyRunning):
            again(session, path)
    finally:
        lock.release()
