"""What the translation decides, without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectionType,
    ElectLeadersRequest,
    LogInfoSchema,
    replica_log_info,
)
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from tests.kit.native_rpc.designation import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    INVALID_REQUEST,
    UNKNOWN_TOPIC_OR_PARTITION,
    Designation,
    designations,
    refuse,
    rivals,
)
from tests.kit.native_rpc.log_info import asked_partitions, written_epochs
from tests.kit.native_rpc.native import Native
from tests.kit.native_rpc.translator import Translator

ORDERS_0 = TopicPartition("orders", 0)
TOPIC = UUID(int=5)
OFFLINE = PartitionState(
    partition=ORDERS_0,
    topic_id=TOPIC,
    leader=None,
    leader_epoch=4,
    assignment=(3, 1, 2),
    isr=(),
    elr=(),
    last_known_elr=(3,),
    offline_replicas=(3,),
)


class ReplicasWithEpochs(Translator):
    """Replicas whose latest epochs are given; counts the requests."""

    def __init__(self, latest: Mapping[TopicPartition, int]) -> None:
        self.latest = latest
        self.requests = 0

    def holds_epoch(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, bool]:
        self.requests += 1
        return {one: epoch <= self.latest[one] for one, epoch in epochs.items()}


@given(st.lists(st.tuples(st.integers(-1, 60), st.integers(0, 60)), max_size=20))
def test_the_written_epoch_is_found_in_few_requests(epochs: list[tuple[int, int]]) -> None:
    latest = {TopicPartition("t", number): pair[0] for number, pair in enumerate(epochs)}
    current = {TopicPartition("t", number): max(pair) for number, pair in enumerate(epochs)}
    replicas = ReplicasWithEpochs(latest)
    assert written_epochs(replicas, current) == latest
    assert replicas.requests <= 6


def test_a_null_list_asks_for_nothing() -> None:
    request_class = replica_log_info(LogInfoSchema.KIP).request_class
    assert asked_partitions(request_class(topic_partitions=None)) == []


def test_partitions_are_asked_for_in_order() -> None:
    request = replica_log_info(LogInfoSchema.KIP).request({TOPIC: [7, 0], UUID(int=6): [1]})
    assert asked_partitions(request) == [(TOPIC, 7), (TOPIC, 0), (UUID(int=6), 1)]


@pytest.mark.parametrize(
    ("designee", "state", "code"),
    [
        (1, OFFLINE, None),
        (2, OFFLINE, None),
        (None, OFFLINE, INVALID_REQUEST),
        (1, None, UNKNOWN_TOPIC_OR_PARTITION),
        (1, replace(OFFLINE, leader=2), ELECTION_NOT_NEEDED),
        (2, replace(OFFLINE, leader=2), ELECTION_NOT_NEEDED),
        (4, OFFLINE, ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (3, OFFLINE, ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
    ids=[
        "second",
        "third",
        "none named",
        "no partition",
        "online",
        "leads already",
        "unassigned",
        "fenced",
    ],
)
def test_designated_elections_keep_the_kips_safety_properties(
    designee: int | None, state: PartitionState | None, code: int | None
) -> None:
    result = refuse(Designation(ORDERS_0, designee), state)
    assert (result.error_code if result else None) == code


def test_live_members_of_isr_elr_and_last_known_are_rivals() -> None:
    wanted = Designation(ORDERS_0, 1)
    alive = replace(OFFLINE, isr=(3,), elr=(2, 1), last_known_elr=(9,), offline_replicas=())
    assert rivals(wanted, alive) == {2, 3, 9}
    assert rivals(wanted, OFFLINE) == set()
    assert rivals(wanted, replace(OFFLINE, elr=Unknown("old"), last_known_elr=Unknown("old"))) == (
        set()
    )


def test_designees_belong_to_partitions_by_position() -> None:
    topic = ElectLeadersRequest.TopicPartitions(
        topic="orders", partitions=[0, 3], designated_leaders=[2, -1]
    )
    short = ElectLeadersRequest.TopicPartitions(
        topic="ledger", partitions=[0, 1], designated_leaders=[2]
    )
    request = ElectLeadersRequest(
        election_type=ElectionType.DESIGNATED, topic_partitions=[topic, short]
    )
    assert [designation.designee for designation in designations(request)] == [
        2,
        None,
        None,
        None,
    ]


def test_native_rpcs_are_offered_under_their_key() -> None:
    assert Native(api_key=1020).offers == {1020: (0, 0), 43: (0, 3)}
    assert Native(elections=False).offers == {93: (0, 0)}
