"""`fenced-designee`: the replica that holds the most is in reach of clients alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.topics import elect_unclean, reassign
from breakglass.services.model import TopicPartition
from tests.lab.asking import LATEST, client_conversation, list_offset, offset_question
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

pytestmark = pytest.mark.slow

FIRST, SECOND = TopicPartition("payments", 0), TopicPartition("payments", 1)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "fenced-designee") as lab:
        yield lab


@pytest.fixture(scope="module")
def link(lab: Damaged) -> ControllerLink:
    return ControllerLink(lab.cluster, 3)


def test_b3_is_fenced_and_both_partitions_are_offline(lab: Damaged) -> None:
    assert lab.cluster.fenced(via=1) == {1: False, 2: True, 3: True}
    for partition in (FIRST, SECOND):
        state = lab.state(partition)
        assert state.offline
        assert set(state.offline_replicas) == {2, 3}


def test_clients_reach_b3_which_holds_the_most(lab: Damaged) -> None:
    assert (
        ends_told(lab) == ends_on_disk(lab) == {FIRST: {3: 135, 1: 100}, SECOND: {1: 100, 3: 135}}
    )
    with client_conversation(lab.cluster, 3) as conversation:
        answer = conversation.ask(*offset_question(FIRST, LATEST))
    assert answer.topics[0].partitions[0].offset == 135


def test_b3_itself_tells_of_a_cluster_whose_partitions_are_all_online(lab: Damaged) -> None:
    assert not any(state.offline for state in lab.cluster.partitions("payments", via=3))
    assert lab.cluster.fenced(via=3) == {1: True, 2: False, 3: False}


def test_r04_an_election_passes_over_it_and_says_success(lab: Damaged) -> None:
    assert lab.state(FIRST).assignment == (2, 3, 1)
    elect_unclean(lab.cluster, FIRST)
    lab.cluster.wait_partition("payments", 0, lambda state: state.leader == 1, "b1 to lead")
    assert lab.truth_of(FIRST).choice(1).committed == 35


def test_with_its_link_healed_it_can_be_elected(lab: Damaged, link: ControllerLink) -> None:
    assert not link.whole
    link.heal()
    lab.cluster.wait_unfenced(3)
    reassign(lab.cluster, {SECOND: (3, 1, 2)})
    elect_unclean(lab.cluster, SECOND)
    lab.cluster.wait_partition("payments", 1, lambda state: state.leader == 3, "b3 to lead")
    lab.cluster.wait_until(
        lambda: list_offset(lab.cluster, 1, SECOND).offset == 135, "b1 to follow b3"
    )
    # b1 has every record before the controller has the new ISR: until then b1 may not lead.
    lab.cluster.wait_partition("payments", 1, lambda state: 1 in state.isr, "b1 to be in sync")


def test_cut_again_it_is_fenced_again_and_loses_the_lead(
    lab: Damaged, link: ControllerLink
) -> None:
    assert link.whole
    link.cut()
    lab.cluster.wait_fenced(3)
    lab.cluster.wait_partition("payments", 1, lambda state: state.leader == 1, "b1 to lead")
