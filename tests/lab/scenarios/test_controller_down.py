"""`controller-down`: brokers answer for themselves, and nobody for the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from breakglass.services.errors import TimedOut
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import TopicPartition
from tests.lab.asking import quorum_question, unclean_election
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

pytestmark = pytest.mark.slow

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
SECONDS = 4.0
"""With a controller these questions are answered in milliseconds."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "controller-down") as lab:
        yield lab


def test_brokers_still_tell_what_is_offline(lab: Damaged) -> None:
    assert lab.cluster.fenced() == {1: False, 2: False, 3: True}
    assert lab.state(FIRST).offline
    assert lab.state(SECOND).offline


@pytest.mark.parametrize("question", [quorum_question(), unclean_election(FIRST)])
def test_r20_nothing_that_the_controller_must_answer_is_answered(
    lab: Damaged, question: tuple[Any, Any]
) -> None:
    address = lab.cluster.broker(1).address(Listener.LAB)
    with Conversation(address, SECONDS) as conversation, pytest.raises(TimedOut):
        conversation.ask(*question)


def test_r20_logs_can_still_be_read(lab: Damaged) -> None:
    ends = {1: 125, 2: 100}
    assert ends_told(lab) == ends_on_disk(lab) == {FIRST: ends, SECOND: ends}


def test_with_the_controller_back_elections_are_held_again(lab: Damaged) -> None:
    for controller in lab.cluster.controllers:
        controller.start()
    lab.cluster.wait_until(
        lambda: lab.cluster.read(lambda node: _elected(node, FIRST)), "an election to be held"
    )
    lab.cluster.wait_partition("orders", 0, lambda state: state.leader == 1, "b1 to lead")


def _elected(node: Conversation, partition: TopicPartition) -> bool:
    """Held now, or before by a question that waited for the controller."""
    answer = node.ask(*unclean_election(partition))
    return answer.replica_election_results[0].partition_result[0].error_code in (0, 84)
