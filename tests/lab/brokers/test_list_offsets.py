"""ListOffsets on brokers that do not lead: which replica ids are answered, and what they mean."""

import pytest

from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LEADER_ONLY,
    MAX_TIMESTAMP,
    ListedOffset,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.brokers.conftest import SECONDS
from tests.lab.scenarios.damaged import Damaged

NOT_LEADER_OR_FOLLOWER = 6
LEDGER, ORDERS = TopicPartition("ledger", 0), TopicPartition("orders", 0)
FUTURE_REPLICA = -3


def listed(
    sender: Sender,
    broker: int,
    partition: TopicPartition,
    timestamp: int,
    replica: int = DEBUGGING_REPLICA,
) -> ListedOffset | OffsetError:
    deadline = Deadline.after(SECONDS)
    answers = list_offsets(sender, broker, [partition], timestamp, deadline, replica_id=replica)
    return answers[partition]


@pytest.mark.parametrize("partition", [LEDGER, ORDERS], ids=str)
@pytest.mark.parametrize("broker", [1, 2])
def test_latest_is_the_log_end_and_the_current_epoch_whatever_the_replica_holds(
    offline: Damaged, sender: Sender, broker: int, partition: TopicPartition
) -> None:
    replica = offline.truth_of(partition).replica(broker)
    current = offline.state(partition).leader_epoch
    assert replica.last_epoch is not None
    assert replica.last_epoch < current
    assert listed(sender, broker, partition, LATEST) == ListedOffset(replica.log_end, -1, current)


@pytest.mark.parametrize("timestamp", [EARLIEST, EARLIEST_LOCAL])
def test_earliest_is_the_log_start_and_its_epoch(sender: Sender, timestamp: int) -> None:
    assert listed(sender, 1, LEDGER, timestamp) == ListedOffset(0, -1, 0)


@pytest.mark.parametrize("broker", [1, 2])
def test_max_timestamp_tells_the_epoch_of_the_newest_batch(
    offline: Damaged, sender: Sender, broker: int
) -> None:
    answer = listed(sender, broker, LEDGER, MAX_TIMESTAMP)
    assert isinstance(answer, ListedOffset)
    assert answer.leader_epoch == offline.truth_of(LEDGER).replica(broker).last_epoch
    assert answer.timestamp_ms > 0


@pytest.mark.parametrize("replica", [LEADER_ONLY, FUTURE_REPLICA])
def test_other_replica_ids_are_refused_by_who_does_not_lead(sender: Sender, replica: int) -> None:
    answer = listed(sender, 1, LEDGER, LATEST, replica)
    assert isinstance(answer, OffsetError)
    assert answer.code == NOT_LEADER_OR_FOLLOWER


def test_a_broker_without_the_replica_refuses_every_id(offline: Damaged, sender: Sender) -> None:
    create_topic(offline.cluster, "on-b2-alone", [[2]])
    alone = TopicPartition("on-b2-alone", 0)
    for replica in (DEBUGGING_REPLICA, LEADER_ONLY, FUTURE_REPLICA):
        answer = listed(sender, 1, alone, LATEST, replica)
        assert isinstance(answer, OffsetError)
        assert answer.code == NOT_LEADER_OR_FOLLOWER
